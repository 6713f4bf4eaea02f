#!/usr/bin/env bats
# rf-grpo: losses, advantages, gradients.  t/exact/golden.bats compares with reference values, and
# t/exact/train.bats tests what both trainers do.
setup() {
	load ../helper
	load ../model
}

@test "rf-grpo: keeps the promises of a trainer" {
	load ../promises
	batch 1:30 2:31 3:32 >in
	PROMISE_MIB=128 PROMISE_RESET=reset PROMISE_STATE=state promises trainer "$PWD/in" \
		rf-grpo -m run --mini-batch 2
}

@test "rf-grpo: --need-rollouts refuses a batch in which no record has rollouts, and changes nothing" {
	texts 40 1:30 2:31 | rf-entropy -m "$M" -o in
	runs run
	cp -a run before
	run -65 rf-grpo -m run --need-rollouts --log log in
	said="rf-grpo: none of the batch's 2 records has rollouts, so the batch was not trained (use longer "
	said+="records, or smaller --margin, --chunks and -k of rf-select, as in the pipelines' SELECT="
	said+="'rf-select -k 5 --margin 4'; without --need-rollouts, as with the pipelines' NO_ROLLOUTS="
	[ "$output" = "${said}train, such a batch is trained on next tokens alone)" ]
	diff -r -x .lock before run
	[ ! -e log ]
	rf-cat in <(batch 3:30) >mixed
	run -0 rf-grpo -m run --need-rollouts mixed
	# no stage after rf-select repeats the message of rf-select
	run -0 bash -c 'rf-select --chunks 32 -k 3 --margin 3 in | rf-rollout -m "$0" -k 3 |
		rf-reward -o out' "$M"
	[[ "$output" == 'rf-select: 2 of 2 sequences were too short'* ]]
	[ "${#lines[@]}" -eq 1 ]
}

@test "rf-grpo: rf-rollout reports that no record has positions, and rf-grpo that no record has rollouts" {
	texts 40 1:30 2:31 >texts
	rf-entropy -m "$M" texts >in
	runs run
	run -0 rf-rollout -m "$M" -o out in
	[ "$output" = "rf-rollout: none of 2 records has positions (rf-select writes them)" ]
	run -0 rf-grpo -m run in
	said='none of 2 records has rollouts (rf-rollout writes them): this was training on next tokens alone'
	[ "$output" = "rf-grpo: $said" ]
	silent rf-grpo -m run --rl-coef 0 in
	# nothing is reported if some records have rollouts
	rf-cat in <(batch 3:30) >mixed
	silent bash -c 'rf-select --chunks 2 -k 3 --margin 3 in | rf-rollout -m "$0" -k 3 -o out' "$M"
	rm -rf run
	runs run
	silent rf-grpo -m run --stale any mixed
}

@test "rf-grpo: trains the same weights with any number of threads and on the check device" {
	for m in ${RF_ALL:+delta gated lact} delta-hybrid lact-muon qwen; do
		M=$G/$m
		batch 1:200 2:70 3:9 4:1 >in
		rm -rf a b
		runs a
		rf-grpo --device cpu -m a --segment 128 --mini-batch 2 --threads 1 in
		for machine in ${RF_ALL:+'cpu --threads 2'} 'cpu --threads 3' check; do
			rm -rf b
			runs b
			rf-grpo --device $machine -m b --segment 128 --mini-batch 2 in
			same_step a b
		done
		[ "$(readlink a/latest)" = step-000002 ]
	done
}

@test "rf-grpo: the order of the records in a mini-batch does not change the weights" {
	batch 1:50 2:70 3:9 4:31 >in
	runs a b c
	rf-grpo -m a in
	"$RF_UNITS/helper/records" reverse in | rf-grpo -m b
	same_step a b
	"$RF_UNITS/helper/records" reverse in | rf-grpo -m c --mini-batch 2
	run ! same_step a c
}

@test "rf-grpo: --recompute segment trains the same weights, and other segment sizes nearly the same" {
	for m in ${RF_ALL:+delta gated} delta-hybrid qwen lact; do
		M=$G/$m
		batch 1:300 2:70 >in
		rm -rf a b c d
		runs a b c d
		smooth rf-grpo -m a --segment 64 in
		smooth rf-grpo -m b --segment 64 --recompute segment in
		same_step a b
		smooth rf-grpo -m c in
		helper golden change c/latest a/latest "$M"
		smooth rf-grpo -m d --segment 128 --recompute segment in
		helper golden change d/latest a/latest "$M"
	done
}

@test "rf-grpo: makes one optimizer step per mini-batch, in the order of the stream, and one commit" {
	batch 1:50 2:40 3:30 4:31 5:29 >in
	runs a b
	rf-grpo -m a --mini-batch 2 --log log in
	[ "$(ls a)" = $'latest\nmanifest.json\nstep-000000\nstep-000003' ]
	[ "$(jq -c '[.step, .stepped, .records, .tokens]' log | paste -sd' ')" = \
		'[0,true,2,90] [1,true,2,61] [2,true,1,29]' ]
	jq -e '.step == 3 and .commits == 1 and .parent == 0' a/latest/state.json >/dev/null
	# one program per step makes the same steps, from the same old log-probabilities
	for i in 0:2 2:4 4:5; do
		rf-cat --range $i in | rf-grpo -m b --stale 9
	done
	same_step a b
	# the first step has the weights that drew the rollouts, so its ratios are 1; later steps do not
	jq -se '.[0] | (.["actor/ratio_max"] - 1 | fabs < 1e-5) and .["actor/kl3_ttt"] < 1e-9
		and (.["actor/ppo_kl_ttt"] | fabs) < 1e-5
		and .["training/rollout_logp_diff_mean"] < 1e-5' log >/dev/null
	jq -se '.[1]["actor/ratio_max"] - 1 > 1e-7' \
		<(runs c && rf-grpo -m c --lr 1e-2 --mini-batch 2 --log c.log in && cat c.log) >/dev/null
}

@test "rf-grpo: with --dtype bf16 each step uses the weights of the previous step" {
	batch 1:50 2:40 3:70 >in
	runs a b c
	rf-grpo -m a --dtype bf16 --lr 1e-2 --mini-batch 1 in
	for i in 0:1 1:2 2:3; do
		rf-cat --range $i in | rf-grpo -m b --stale any --dtype bf16 --lr 1e-2
	done
	same_step a b
	rf-grpo -m c --lr 1e-2 --mini-batch 1 in
	run ! same_step a c
}

@test "rf-grpo: loss and statistics follow the formula of PPO with clip and dual clip" {
	batch 1:50 2:40 >in
	runs run
	# old log-probabilities as if other weights had drawn the rollouts
	edited 'if .type == "seq" then
			.body.rollout.logp.data |= [to_entries[] | .value + (.key * 7 % 11 - 5) * 0.3]
		else . end' in >old
	rf-grpo -m run --stale any --clip 0.1 --dual-clip 1.5 --lr 0 --rl-coef 0.5 --ntp-coef 0.25 --log log \
		-o advantages old
	rf-rollout -m "$M" --score old | rf-dump --json >new
	jq -n --slurpfile new new --slurpfile old <(rf-dump --json advantages) --slurpfile log log '
		def mean: add / length;
		[$new, $old | map(select(.type == "seq").body)] | transpose
		| map(. as [$n, $o] | range(0; $n.rollout.logp.data | length)
			| {A: $o.advantage.data[. / 3 | floor],
				d: ($n.rollout.logp.data[.] - $o.rollout.logp.data[.])})
		| map(. + {r: (.d | exp)})
		| map(. + {plain: (- .A * .r), bound: (- .A * ([[.r, 0.9] | max, 1.1] | min))})
		| map(. + {ppo: ([.plain, .bound] | max)}) | map(. + {dual: (.A < 0 and .ppo > - .A * 1.5)})
		| map(. + {loss: (if .dual then - .A * 1.5 else .ppo end)})
		| {"loss/rl": (map(.loss) | mean),
			"actor/pg_clipfrac_ttt": (map(if .bound > .plain then 1 else 0 end) | mean),
			"actor/pg_clipfrac_lower_ttt": (map(if .dual then 1 else 0 end) | mean),
			"actor/ppo_kl_ttt": (map(- .d) | mean),
			"actor/kl3_ttt": (map(.r - 1 - .d) | mean),
			"actor/ratio_max": (map(.r) | max),
			"training/rollout_logp_diff_mean": (map(.d | fabs) | mean),
			"actor/pg_loss_ttt": (0.5 * (map(.loss) | mean)),
			"actor/sft_loss_ttt": (0.25 * $log[0]["loss/ntp"])}
		| . as $want | map_values(fabs) | to_entries
		| map((.value > 0) and ($log[0][.key] - $want[.key] | fabs) < 1e-5 * .value + 1e-7)
		| length == 9 and all' >result
	[ "$(cat result)" = true ]
}

@test "rf-grpo: log-ratios beyond 20 are clamped and counted" {
	batch 1:50 >in
	runs run
	edited 'if .type == "seq" then
			.body.rollout.logp.data |= (.[0] = -1000 | .[4] = 0 | .[7] = -100)
		else . end' in >old
	rf-grpo -m run --stale any --log log old
	jq -e '.["actor/clamped"] == 2 and (.["actor/ratio_max"] / 485165195 - 1 | fabs < 1e-6)
		and .stepped' log >/dev/null
}

@test "rf-grpo: advantages follow --group and --no-std, and a group of one needs --allow-single" {
	batch 1:50 2:40 >in
	runs run
	advantages() { rf-grpo -m run --stale any --lr 0 -o out "$@" in && json out | jq -c .advantage.data; }
	[ "$(advantages)" = "$(advantages --group position)" ]
	[ "$(advantages)" != "$(advantages --group sequence)" ]
	advantages --no-std >plain
	json in | jq -c '.reward.total.data | [.[:3], .[3:]] | map((add / 3) as $m | map(. - $m)) | add' >want
	jq -se '[.[0:2], .[2:4]] | transpose | map(transpose) | add
		| length == 12 and all(.[0] - .[1] | fabs < 1e-6)' plain want >/dev/null
	texts 40 1:50 | rf-entropy -m "$M" | rf-select --chunks 2 -k 3 --margin 3 | rf-rollout -m "$M" -k 3 |
		rf-reward --kind hybrid >in
	run -65 rf-grpo -m run --stale any --group position in
	said='): a group of one rollout has nothing to compare it with'
	[[ "$output" =~ ^'rf-grpo: in: record 1 (byte '[0-9]+"$said" ]]
	advantages --group position --allow-single --log single >each
	cmp each <(json in | jq -c .reward.total.data)
	jq -e '."group/count" == 2 and ."group/spread_free" == 0' single >/dev/null
	# with one rollout per position, the default group is the sequence
	[ "$(advantages)" = "$(advantages --group sequence)" ]
}

@test "rf-grpo: -o writes the records with their advantages, in their order" {
	batch 3:50 1:40 2:9 >in
	runs a b
	rf-grpo -m a --mini-batch 2 -o out in
	[ "$(json out | jq -c 'del(.advantage)')" = "$(json in | jq -c .)" ]
	[ "$(json out | jq -c '[.id, has("advantage")]' | paste -sd' ')" = '[3,true] [1,true] [2,true]' ]
	rf-dump --json out | jq -se '.[0].body.history[-1].tool == "rf-grpo"' >/dev/null
	rf-grpo -m b --mini-batch 2 -o - in | cmp - out
	# the training goes on if the reader of its output has left, and reports that after the commit
	says 74 "rf-grpo: <stdout>: ..." bash \
		-c 'trap "" PIPE; exec 4> >(true); wait $!; rf-grpo -m b --stale any -o - in >&4'
	[ "$(readlink b/latest)" = step-000003 ]
	# if it is known before that the output fails, nothing is trained
	for out in /dev/full none/out.rf; do
		run -74 rf-grpo -m b --stale any -o $out in
		[ "$(readlink b/latest)" = step-000003 ]
	done
}

@test "rf-grpo: -o FOLDER writes a file in the folder, named after the step at which the batch started" {
	batch 3:50 1:40 >in
	runs a b
	rf-grpo -m a -o want.rf in
	mkdir out
	for _ in 1 2; do rf-grpo -m b --stale any -o out in; done
	cmp out/step-000000.rf want.rf
	[ "$(ls out)" = $'step-000000.rf\nstep-000001.rf' ]
	rf-dump --check out/step-000001.rf
	ln -s out link
	rf-grpo -m b --stale any -o link in
	rf-dump --check out/step-000002.rf
	run -64 rf-grpo -m b --stale any -o none/ in
	[ "$(readlink b/latest)" = step-000003 ]
}

@test "rf-grpo: --grad-out writes the whole stream's gradient and leaves the run unchanged" {
	batch 1:50 2:40 3:30 >in
	runs run
	state >before
	rf-grpo -m run --mini-batch 1 --grad-out one --log log in
	rf-grpo -m run --mini-batch 0 --grad-out two in
	state | cmp - before
	cmp one two
	[ "$(ls -A)" = $'before\nin\none\nrun\ntwo' ]
	rf-grpo -m run --rl-coef 0 --ntp-coef 0 --grad-out zero in
	[ "$(tail -c 4000 zero | tr -d '\0' | wc -c)" -eq 0 ]
}

@test "rf-grpo: SIGTERM before the file of --grad-out is complete exits 143 and leaves no file" {
	can_trace
	batch 1:50 >in
	runs run
	state >before
	run -143 strace -qq -f -o trace -e inject=fsync:signal=TERM:when=1 rf-grpo -m run --grad-out g in
	[ "$output" = "rf-grpo: interrupted before the commit; the run is at its last commit" ]
	grep -q SIGTERM trace
	[ "$(ls -A)" = $'before\nin\nrun\ntrace' ]
	state | cmp - before
}

@test "rf-grpo: --grad-out and then rf-ntp --grad-in make the same step as both losses together" {
	for m in delta delta-hybrid delta-relu-tied; do
		M=$G/$m
		batch 1:150 2:70 3:9 4:1 >in
		rm -rf a b
		runs a b
		smooth rf-grpo -m a --mini-batch 0 in
		rf-grpo -m b --ntp-coef 0 --grad-out g in
		smooth rf-ntp -m b --grad-in g in
		helper golden change b/latest a/latest "$M"
		rm -rf c
		runs c
		smooth rf-ntp -m c in
		run ! "$RF_UNITS/helper/golden" change c/latest a/latest "$M"
	done
	# a gradient is refused at other weights
	run -65 rf-ntp -m b --grad-in g in
	[[ "$output" == *"g: the gradient was computed with weights "*", but the run is at "* ]]
	[ "$(readlink b/latest)" = step-000001 ]
}

@test "rf-grpo: --log appends one line of JSON per optimizer step" {
	batch 1:50 2:40 >in
	runs run
	rf-grpo -m run --mini-batch 1 --log log in
	rf-grpo -m run --stale any --ntp-coef 0 --log log in
	[ "$(jq -c '[.step, .records, .rollouts]' log | paste -sd' ')" = '[0,1,18] [1,1,18] [2,2,36]' ] ||
		[ "$(jq -c '[.step, .records, .rollouts]' log | paste -sd' ')" = '[0,1,6] [1,1,6] [2,2,12]' ]
	jq -se 'all(.[]; has("loss/rl") and has("actor/grad_norm_ttt") and has("actor/lr")
			and has("timing_s/step") and has("perf/throughput") and has("reward/mean")
			and has("reward/cs_reward_mean") and has("reward/binary_reward_mean")
			and has("reward/edit_reward_mean")
			and .["group/count"] == 2 * .records and .["group/spread_free"] == 0)
		and (.[0] | has("loss/ntp")) and (.[2] | has("loss/ntp") | not)' log >/dev/null
	[ "$(jq -r '."reward/kind"' log | sort -u)" = "$(json in | jq -r .reward.kind | sort -u)" ]
	jq -n --slurpfile log log --slurpfile in <(json in) -e '$in | map(.reward)
		| [(map(.total.data[]) | add / length) - $log[2]["reward/mean"],
			(map(.cosine.data[]) | add / length) - $log[2]["reward/cs_reward_mean"],
			(map(.binary.data[]) | add / length) - $log[2]["reward/binary_reward_mean"],
			(map(.edit.data[]) | add / length) - $log[2]["reward/edit_reward_mean"]]
		| all(fabs < 1e-6)' >/dev/null
	# the mean entropy of the texts, as rf-entropy wrote it
	jq -n --slurpfile log log --slurpfile in <(json in) -e '[$in[].entropy.data[]]
		| (add / length) / $log[2]["actor/entropy"] - 1 | fabs < 1e-6' >/dev/null
	rf-dump --json in | jq -c 'del(.body.entropy)' | rf-cat --json |
		rf-grpo -m run --stale any --lr 0 --log without
	jq -e 'has("actor/entropy") | not' without >/dev/null
	run -74 rf-grpo -m run --stale any --log /dev/full in
	[ "$(readlink run/latest)" = step-000004 ]
}

# rewards JQ IN OUT: copies a stream with each record's reward changed; $seq is the record's number
rewards() {
	rf-dump --json "$2" |
		jq -c "if .type == \"seq\" then .seq as \$seq | .body.reward |= ($1) else . end" |
		rf-cat --json -o "$3"
}

@test "rf-grpo: the log has the mean of every reward part, over the rollouts that have the part" {
	batch 1:50 2:40 >in
	# only the first record has the part brief, and only the second lacks cosine; the part cs_reward would
	# take a key of the log
	rewards '.parts = {cs_reward: (.total | .data |= map(. + 1))} |
		if $seq == 1 then .parts.brief = .total else del(.cosine) end' in parts
	runs run
	rf-grpo -m run --log log parts
	jq -n --slurpfile log log --slurpfile in <(json parts) -e '
		def mean(f): [$in[].reward | f | .data? // [] | .[]] | add / length;
		$log[0] as $l | [mean(.total) - $l["reward/mean"],
			mean(.cosine) - $l["reward/cs_reward_mean"],
			mean(.binary) - $l["reward/binary_reward_mean"],
			mean(.edit) - $l["reward/edit_reward_mean"],
			mean(.parts.brief) - $l["reward/brief_mean"],
			mean(.parts.cs_reward) - $l["reward/part/cs_reward_mean"]]
		| length == 6 and all(fabs < 1e-6)' >/dev/null
	# the log has no key for a part that no record has; -o keeps the parts
	rewards 'del(.cosine)' in less
	rf-grpo -m run --stale any --log less.log -o out less
	jq -e 'has("reward/cs_reward_mean") or has("reward/brief_mean") | not' less.log >/dev/null
	jq -e 'has("reward/edit_reward_mean")' less.log >/dev/null
	[ "$(json out | jq -c '.reward | [has("total", "cosine", "edit")]' | uniq)" = '[true,false,true]' ]
	rf-grpo -m run --stale any --lr 0 -o out parts
	[ "$(json out | jq -c .reward)" = "$(json parts | jq -c .reward)" ]
}

@test "rf-grpo: the log has the deviations of rewards, parts and groups, and the share of positions in them" {
	texts 40 1:50 2:60 | rf-entropy -m "$M" | rf-select --chunks 4 -k 3 --margin 3 |
		rf-rollout -m "$M" -k 3 -n 3 | rf-reward --kind hybrid -o in
	for group in position sequence; do
		rm -rf run log
		runs run
		rf-grpo -m run --group $group --log log in
		# computed from the sums of squares of a one-way analysis of variance, as in textbooks
		jq -n --slurpfile log log --slurpfile in <(json in) --arg group $group -e '
			def mean: add / length;
			def squares: mean as $m | map((. - $m) * (. - $m)) | add;
			def std: (squares / (length - 1)) | sqrt;
			def places: [.reward.total.data | . as $x | range(0; length; 3) | $x[.:. + 3]];
			$log[0] as $l | [$in[].reward] as $r
			| (($in | map(places | map(squares) | add) | add) / 16) as $within
			| (($in | map(places | map(mean) | 3 * squares) | add) / 6) as $between
			| (($between - $within) / 3) as $position
			| [($r | map(.total.data[]) | std) - $l["reward/std"],
				($r | map(.cosine.data[]) | std) - $l["reward/cs_reward_std"],
				($r | map(.binary.data[]) | std) - $l["reward/binary_reward_std"],
				($r | map(.edit.data[]) | std) - $l["reward/edit_reward_std"],
				(if $group == "position" then $in | map(places[] | std) | mean
				else $r | map(.total.data | std) | mean end) - $l["group/std"],
				$position / ($position + $within) - $l["group/position_share"]]
			| length == 6 and all(fabs < 1e-6)' >/dev/null
	done
	jq -e '.["group/position_share"] > 0.01 and .["group/std"] > 0.01' log >/dev/null
	# with one rollout per position the positions' share is unknown
	texts 40 1:50 | rf-entropy -m run | rf-select --chunks 4 -k 3 --margin 3 | rf-rollout -m run -k 3 |
		rf-reward | rf-grpo -m run --log one
	jq -e '(has("group/position_share") | not) and has("group/std")' one >/dev/null
}

# with_values KEY JQ JQ FILE: prints the stream with an array under KEY, of the shape that the first JQ gives
# and with the values that the second computes from an index
with_values() {
	edited "if .type == \"seq\" then .body |= (del(.advantage) | .rollout.tokens as \$t
		| .$1 = {dtype: \"<f4\", shape: ($2), data: [range(($2) | reduce .[] as \$n (1; . * \$n))
			| $3]}) else . end" "$4"
}

@test "rf-grpo: --advantage stream trains on the advantages that the stream has, per rollout or token" {
	batch 1:50 2:40 >in
	rf-rollout --help >/dev/null
	runs a b c d e
	rf-grpo -m a -o computed in
	rf-grpo -m b --advantage stream computed
	same_step a b
	# the same numbers for each token of a rollout
	edited 'if .type == "seq" then .body |= (.advantage.data as $a | del(.advantage)
		| .advantage_per_token = {dtype: "<f4", shape: .rollout.tokens.shape,
			data: [$a[] | ., ., .]}) else . end' computed >tokens
	rf-grpo -m c --advantage stream tokens
	same_step a c
	# other advantages train other weights
	with_values advantage '$t.shape[:2]' '. % 3 - 1' in >other
	rf-grpo -m d --advantage stream --log log -o out other
	run ! same_step a d
	[ "$(json out | jq -c .advantage)" = "$(json other | jq -c .advantage)" ]
	jq -e '(has("group/count") or has("group/spread_free")) | not' log >/dev/null
	# the loss at ratio 1 is minus the mean advantage of all tokens
	with_values advantage_per_token '$t.shape' '. % 7 - 2' in >each
	rf-grpo -m e --advantage stream --log log2 each
	jq -n --slurpfile in <(json each) --slurpfile log log2 -e '[$in[].advantage_per_token.data[]]
		| (add / length) + $log[0]["loss/rl"] | fabs < 1e-5' >/dev/null
	for option in --group=sequence --no-std --allow-single; do
		mentions 64 "${option%%=*} cannot be combined with --advantage stream" \
			rf-grpo -m a --advantage stream "$option" other
	done
	mentions 65 "the record has rollouts but no advantages, which --advantage stream takes from it" \
		rf-grpo -m a --stale any --advantage stream in
}

@test "rf-grpo: reports that it replaces the advantages of a stream" {
	batch 1:50 2:40 >in
	runs a b
	rf-grpo -m a -o kept in
	run -0 rf-grpo -m b kept
	said="the advantages that 2 records had were replaced (--advantage stream trains on them)"
	[ "$output" = "rf-grpo: $said" ]
	same_step a b
}

@test "rf-grpo: --advantage token sums the standardized rewards of a token and of all later ones" {
	texts 40 1:50 2:60 | rf-entropy -m "$M" | rf-select --chunks 2 -k 4 --margin 4 |
		rf-rollout -m "$M" -k 4 -n 3 --eos | rf-reward --per-token -o in
	runs a b
	rf-grpo -m a --advantage token -o out in
	[ "$(json out | jq -c 'has("advantage")' | uniq)" = false ]
	jq -n --slurpfile in <(json out) -e '
		def mean: add / length;
		def std: mean as $m | (map((. - $m) * (. - $m)) | add / (length - 1)) | sqrt;
		[$in[] | .reward.per_token.data as $r | .advantage_per_token.data as $A
			| (.rollout.length.data // [range(6) | 4]) as $L
			| range(2) | . * 3 as $g
			| [range(3) | $g + . | . as $b | $r[$b * 4:][:$L[$b]]] as $rows
			| ($rows | add | mean) as $m | ($rows | add | std) as $s
			| range(3) as $i | range($L[$g + $i]) as $j
			| ([$rows[$i][$j:][] | (. - $m) / ($s + 1e-6)] | add) - $A[($g + $i) * 4 + $j]]
		| length > 30 and all(fabs < 1e-4)' >/dev/null
	mentions 65 "the reward has no per_token, which --advantage token needs (rf-reward --per-token" \
		rf-grpo -m b --advantage token <(rf-reward in)
}

@test "rf-grpo: tokens after the end of a rollout change neither loss nor weights" {
	texts 40 1:50 2:60 | rf-entropy -m "$M" | rf-select --chunks 2 -k 4 --margin 4 |
		rf-rollout -m "$M" -k 4 -n 3 -o full
	# rollouts of 1 to 4 tokens, as another program may have ended them
	edited 'if .type == "seq" then .body.rollout |= (.length = {dtype: "<i4", shape: [2, 3],
		data: [1, 4, 2, 3, 1, 2]}) else . end' full | rf-reward --kind hybrid -o short
	edited 'if .type == "seq" then .body.rollout |= ([.length.data[] as $n | range(4) | . >= $n] as $over
		| .tokens.data |= [to_entries[] | if $over[.key] then 7 else .value end]
		| .logp.data |= [to_entries[] | if $over[.key] then -3.0 else .value end])
		else . end' short >other
	runs a b
	rf-grpo -m a --log a.log short
	rf-grpo -m b --log b.log other
	same_step a b
	[ "$(figures a.log)" = "$(figures b.log)" ]
	# rewards count only the tokens before the end
	jq -n --slurpfile in <(json short) -e '[$in[] | .tokens.data as $x | .rollout as $o
		| .positions.data as $s | .reward.binary.data as $R | range(6) as $b
		| $o.length.data[$b] as $n
		| ([range($n) | if $o.tokens.data[$b * 4 + .] == $x[$s[$b / 3 | floor] + .] then 1 else 0 end]
			| add / $n) - $R[$b]] | length == 12 and all(fabs < 1e-6)' >/dev/null
	# rf-rollout --score keeps the lengths
	rf-rollout -m "$M" --score short | rf-reward --kind hybrid -o scored
	kept() { json "$1" | jq -c '[.rollout.length, .reward]'; }
	cmp <(kept scored) <(kept short)
}

@test "rf-grpo: the log has at most 64 reward means, and more reward parts do not change the step" {
	batch 1:50 2:40 3:40 >in
	# each record has as many parts as it may, whose names are unique and as long as they may be
	rewards '.total as $x | .parts = ([range(29) |
		{key: "record_\($seq)_has_part_\(. + 100)_of_its_own", value: $x}] | from_entries)' in parts
	runs a b
	rf-grpo -m a --log log in
	rf-grpo -m b --log log parts
	same_step a b
	[ "$(tail -n 1 log | jq -c '[keys[] | select(test("^reward/.*_mean$"))] | length')" -eq 64 ]
	jq -se '.[1]["perf/throughput"] > 0' log >/dev/null
	jq -se '.[1]["reward/record_3_has_part_102_of_its_own_mean"] != null' log >/dev/null
}

@test "rf-grpo: --log-gradients logs the norms and the cosine of both gradients and trains the same weights" {
	batch 1:150 2:70 >in
	runs a b
	smooth rf-grpo -m a --log a.log in
	smooth rf-grpo -m b --log b.log --log-gradients in
	helper golden change b/latest a/latest "$M"
	rf-grpo -m b --stale any --rl-coef 0 --lr 0 --log-gradients --log b.log in
	for key in loss/rl loss/ntp actor/grad_norm_ttt; do
		jq -se --arg k $key '.[0][$k] - .[1][$k] | fabs < 1e-5' a.log <(head -n 1 b.log) >/dev/null
	done
	jq -se '.[0] | .["grad/rl_norm"] as $r | .["grad/ntp_norm"] as $n | .["grad/cosine"] as $c
		| .["actor/grad_norm_ttt"] as $g | $r > 0 and $n > 0 and $c > -1 and $c < 1
		and (($r * $r + $n * $n + 2 * $c * $r * $n | sqrt) / $g - 1 | fabs < 1e-5)' b.log >/dev/null
	jq -se '.[1] | .["grad/rl_norm"] == 0
		and (.["grad/ntp_norm"] / .["actor/grad_norm_ttt"] - 1 | fabs < 1e-6)' b.log >/dev/null
}

@test "rf-grpo: a batch with nothing to learn changes no weight, counts as a step, and is reported" {
	texts 40 1:50 2:40 | rf-entropy -m "$M" | rf-select --chunks 2 -k 3 --margin 3 |
		rf-rollout -m "$M" -k 3 -n 3 --top-k 1 | rf-reward >in
	runs run other
	run -0 rf-grpo -m run --ntp-coef 0 --log log in
	said='had nothing to learn from (no token for the next-token loss, every advantage 0)'
	[ "$output" = "rf-grpo: 1 of 1 mini-batches $said" ]
	[ "$(readlink run/latest)" = step-000001 ]
	cmp run/latest/model.safetensors "$M/model.safetensors"
	jq -e '.stepped == false and .["group/spread_free"] == 4 and .["reward/mean"] != 0
		and (has("loss/rl") | not) and .["actor/grad_norm_ttt"] == null' log >/dev/null
	# moments would move the weights without a gradient, so they are not applied either
	rf-grpo -m run --stale any --lr 1e-2 "$G/stream/rewarded.rf"
	cp run/latest/model.safetensors was
	rf-grpo -m run --stale any --lr 1e-2 --ntp-coef 0 in 2>err
	cmp run/latest/model.safetensors was
	cmp run/latest/optim.safetensors run/step-000002/optim.safetensors
	# the bias correction continues as if that step had not been
	rf-grpo -m run --stale any --lr 1e-2 "$G/stream/rewarded.rf"
	rf-grpo -m other --stale any --lr 1e-2 "$G/stream/rewarded.rf"
	rf-grpo -m other --stale any --lr 1e-2 "$G/stream/rewarded.rf"
	same_step run other
	# records without rollouts have nothing to learn from without the next-token loss
	mentions 0 "nothing to learn from" rf-grpo -m run --ntp-coef 0 "$G/stream/tokens.rf"
}

@test "rf-grpo: records without rollouts train the same weights as rf-ntp does" {
	texts 40 1:50 2:40 >in
	runs a b
	rf-grpo -m a --mini-batch 0 in
	rf-ntp -m b in
	same_step a b
}

@test "rf-grpo: --loss response takes the next-token loss from prompt_len on only" {
	rf-dump --json <(batch 1:50 2:40) | jq -c 'if .type == "seq" then .body.prompt_len = 30 else . end' |
		rf-cat --json >in
	runs run
	rf-grpo -m run --stale any --loss response --lr 0 --log log in
	rf-entropy -m "$M" --nll in >nll
	jq -n --slurpfile log log --slurpfile nll <(json nll) -e '$nll | map(.nll.data[29:][])
		| length == 30 and (add / 30 - $log[0]["loss/ntp"] | fabs < 1e-5)' >/dev/null
	mentions 65 "record 1 (byte ...prompt_len" rf-grpo -m run --stale any --loss response <(batch 1:50)
}

@test "rf-grpo: refuses a record without reward or logp, or with an unknown token, and names the record" {
	batch 1:50 2:40 >in
	runs run
	state >before
	edit() { rf-dump --json in | jq -c "if .seq == 2 then $1 else . end" | rf-cat --json >bad; }
	refused() {
		run -65 rf-grpo -m run --mini-batch 1 bad
		[[ "$output" =~ ^'rf-grpo: bad: record 2 (byte '[0-9]+'): '.*"$1" ]]
		[ "${#lines[@]}" -eq 1 ]
		state | cmp - before
	}
	edit 'del(.body.reward)'
	refused 'the record has rollouts but no reward'
	edit 'del(.body.rollout.logp)'
	refused 'the rollouts have no log-probabilities'
	edited 'if .seq == 0 then del(.body.vocab)
		elif .seq == 2 then .body.rollout.tokens.data[5] = 40
		else . end' in >bad
	refused 'rollout token 5 is 40'
}
