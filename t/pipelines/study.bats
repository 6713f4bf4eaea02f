#!/usr/bin/env bats
# Tests of make study: the questions to its models, its figures and tables, and a whole study that takes
# seconds.

setup() {
	load ../helper
	load ../model
	P=$ROOT/pipelines/study
}

# table NAME FILE: prints this table of study.awk
table() {
	awk -v table="$1" -f "$ROOT/pipelines/lib/tables.awk" -f "$P/compare.awk" -f "$P/study.awk" "$2"
}

# facts KIND SEED N [BYTES]: prints what recall.awk makes of twelve words and four paragraphs
facts() {
	printf '%s\n' gate loop term join last hash code list file name test line >words
	for i in 1 2 3 4; do
		printf 'Paragraph %d says "something" that is long enough to be one,\n' $i
		printf 'in two lines of text \\ %d.\n\n' $i
	done >text
	awk -v kind="$1" -v seed="$2" -v n="$3" -v bytes="${4:-1500}" -v POOL=12 -f "$P/recall.awk" words text
}

@test "recall.awk: the fact that a question asks for occurs once in the prompt, at the question's depth" {
	facts ask 7 40 >ask.jsonl
	facts ask 7 3 | cmp - <(head -n 3 ask.jsonl)
	[ "$(facts ask 8 40 | cat - ask.jsonl | sort -u | wc -l)" -eq 80 ]
	python3 - ask.jsonl <<-'END'
		import json, sys
		depths = []
		for line in open(sys.argv[1]):
		    q = json.loads(line)
		    key = q["prompt"].rsplit("\n", 1)[1].removesuffix(" means")
		    fact = f"{key} means {q['answers'][0]}.\n"
		    assert q["answer"] == q["answers"][0] + ".\n" and len(q["answers"][0].split()) == 4
		    assert q["prompt"].count(fact) == 1, fact
		    facts = [l for l in q["prompt"].split("\n") if " means " in l]
		    assert len(facts) == 8 and len(key.split()) == 2
		    assert len(q["prompt"]) < 1700
		    # the depth is the share of the paragraphs that stand before the fact
		    n = q["prompt"].count("Paragraph")
		    before = q["prompt"][:q["prompt"].index(fact)].count("Paragraph")
		    assert abs(q["depth"] - before / (n + 1)) < 1e-3, (q["depth"], before, n)
		    depths.append(q["depth"])
		assert min(depths) < .2 and max(depths) > .8
	END
	facts facts 7 20 >facts.jsonl
	python3 - facts.jsonl <<-'END'
		import json, sys
		for line in open(sys.argv[1]):
		    lines = [l for l in json.loads(line)["text"].split("\n") if " means " in l]
		    assert len(lines) == 16 and sorted(lines[:8]) == sorted(lines[8:])
		    text = json.loads(line)["text"]
		    assert text.count("Again:\n") == 1 and text[:text.index("Again:")].count(" means ") == 8
	END
	# each chunk occurs as often as there are orders
	facts chunks 7 5 >chunks.jsonl
	facts numbers 7 5 >numbers.jsonl
	python3 - <<-'END'
		import collections, json, re
		for line in open("chunks.jsonl"):
		    words = json.loads(line)["text"].split()
		    fours = collections.Counter(tuple(words[i:i + 4]) for i in range(0, len(words), 4))
		    assert len(words) == 112 and all(n % 7 == 0 for n in fours.values()), fours
		for line in open("numbers.jsonl"):
		    said = re.findall(r"\w+ is \d{4}\.", json.loads(line)["text"])
		    assert len(said) == 12 and all(n % 3 == 0 for n in collections.Counter(said).values())
	END
}

@test "surprise.sh: the reward is the mean log-probability of the text that follows a rollout" {
	batch 3:60 9:41 >in.rf
	export STEP=$M
	rf-reward --exec "$P/../examples/surprise.sh 6" -o out.rf in.rf
	json out.rf | jq -c '.rollout.tokens as {$shape, $data} | range($shape[0]) as $i
		| range($shape[1]) as $r | .positions.data[$i] as $s | $shape[2] as $k
		| ($i * $shape[1] + $r) as $at
		| {reward: .reward.total.data[$at], prompt_len: ($s + $k), tokens: (.tokens.data[:$s]
			+ $data[$at * $k:($at + 1) * $k] + .tokens.data[$s + $k:$s + $k + 6])}' >want
	[ "$(wc -l <want)" -eq 12 ]
	grep -v '"reward":0,' want >counted
	[ "$(wc -l <counted)" -ge 9 ]
	# the text after each rollout as a response, one record for each rollout
	jq -c '{tokens}' counted | rf-tokenize --vocab 40 --format ids --no-eos |
		rf-dump --json | jq -c --slurpfile of counted 'if .type == "seq"
			then .body.prompt_len = $of[.body.id].prompt_len else . end' |
		rf-cat --json >responses.rf
	for ((i = 0; i < $(wc -l <counted); i++)); do
		rf-cat --range $i:$((i + 1)) responses.rf | rf-ntp --eval --loss response -m "$M"
	done >losses
	[ "$(wc -l <losses)" -eq "$(wc -l <counted)" ]
	jq -se --slurpfile of counted 'to_entries
		| all(.value.nll + $of[.key].reward | . < 1e-5 and . > -1e-5)' losses >/dev/null
	# the reward is 0 where no text follows
	edited 'if .body.positions then .body.positions.data[1] = .body.tokens.shape[0] - 3 else . end' \
		in.rf | rf-reward --exec "$P/../examples/surprise.sh" | json - |
		jq -e '.reward.total.data[3:] == [0, 0, 0]' >/dev/null
	unset STEP
	mentions 65 'STEP: is not set' rf-reward --exec "$P/../examples/surprise.sh" -o none.rf in.rf
}

@test "recall.awk: both choices on a fact continue one document, with the meaning or the rest of it" {
	facts choices 7 20 >choices.jsonl
	facts facts 7 20 >facts.jsonl
	python3 - choices.jsonl facts.jsonl <<-'END'
		import json, sys
		lines = [[json.loads(line) for line in open(name)] for name in sys.argv[1:]]
		for q, document in zip(*lines):
		    assert len(q["prompt"]) == len(q["choices"]) == 16
		    text = document["text"]
		    prefix = text[:text.index("Again:\n") + len("Again:\n")]
		    stated = [line for line in prefix.split("\n") if " means " in line]
		    asked = []
		    for i in range(0, 16, 2):
		        whole, later = q["prompt"][i], q["prompt"][i + 1]
		        assert whole.startswith(prefix) and whole.endswith(" means")
		        key = whole[len(prefix):]
		        assert key + q["choices"][i] + "." in stated
		        assert whole + q["choices"][i] == later + q["choices"][i + 1]
		        assert len(q["choices"][i].split()) == 4 and len(q["choices"][i + 1].split()) == 3
		        asked.append(key)
		    assert sorted(asked) == sorted(line[:line.index(" means")] + " means" for line in stated)
	END
}

@test "compare.awk: has Student's distribution, and the power of a paired t-test, as published in tables" {
	cat >try.awk <<-'EOF'
		function near(x, y, by) { if (x - y > by || y - x > by) print x " is not " y }
		END {
			near(p_value(12.706, 1), 0.05, 1e-5); near(p_value(4.303, 2), 0.05, 1e-5)
			near(p_value(-3.182, 3), 0.05, 3e-5); near(p_value(2.201, 11), 0.05, 1e-5)
			near(p_value(3.106, 11), 0.01, 1e-5); near(p_value(0, 5), 1, 1e-9)
			near(t_of(0.01, 11), 3.10581, 1e-5); near(normal(1.959964), 0.975, 1e-6)
			near(normal(-1.644854), 0.05, 1e-6)
			# paired t-tests at 0.05 need 34 pairs for d 0.5 and 15 for d 0.8: Cohen, 80 %
			near(power(0.5, 34, 0.05), 0.808, 1e-3); near(power(0.8, 15, 0.05), 0.821, 1e-3)
			near(detectable(0.808, 34, 0.05), 0.5, 2e-3)
			# a small interval has as many digits as it needs, and 0 has no sign
			print show(0.0123, "exact-8", 0.02), show(0.0123, "exact-8", 0.06), \
				signed(-0.00123, "points", 0.003), signed(-0.00123, "points"), \
				signed(0.2, "exact-8"), show(0.1, "nll", 1e-9)
		}
	EOF
	run -0 awk -f "$ROOT/pipelines/lib/tables.awk" -f "$P/compare.awk" -f try.awk /dev/null
	[ "$output" = '0.01 0.0 -0.001 0.00 +0.2 0.100000' ]
}

# exact METHOD SEED PERCENT: prints the exact answers of a method at the plateau, the same for each load
exact() {
	for load in 8 16 32; do
		printf 'mid\tplateau\t%s\t%d\texact-%d\t%s\n' "$1" "$2" $load "$3"
	done
}

@test "study.awk: prints means over seeds, differences seed by seed with Student's interval, and Holm's p" {
	# n 8 is above SFT by .2, .4, .6: half of the interval is 4.303 * .2 / sqrt(3), and t is 2 sqrt(3).
	# n 8 is above random rewards by 1, 1.1, 1.2, and above teacher-forced by -.1, .1, .3
	for seed in 1 2 3; do
		exact sft $seed 4$seed
		exact refine-n8 $seed 4$seed.$((2 * seed))
		exact random-n8 $seed "$(awk "BEGIN { print 40 + $seed + 0.2 * $seed - 0.9 - 0.1 * $seed }")"
		exact forced $seed "$(awk "BEGIN { print 40 + $seed + 0.3 }")"
	done >figures
	run -0 table mid figures
	[[ "$output" == *'| SFT | 42.0 | 42.0 | 42.0 | 42.0 |'* ]]
	[[ "$output" == *'| ReFINE, n 8 | 42.4 (+0.4 ± 0.5) |'* ]]
	run -0 table contrasts figures
	# p of t = 2 sqrt(3), 11 sqrt(3) and sqrt(3) / 2 with 2 degrees of freedom; Holm's factors are 2, 3, 1
	[[ "$output" == *'| n 8 - SFT | +0.40 ± 0.50 | 0.20 | 0.074 | 0.148 |'* ]]
	[[ "$output" == *'| n 8 - random rewards | +1.10 ± 0.25 | 0.10 | 0.003 | 0.008 |'* ]]
	[[ "$output" == *'| n 8 - teacher-forced | +0.10 ± 0.50 | 0.20 | 0.478 | 0.478 |'* ]]
	# the conclusions of PLAN.md
	# concludes WORDS FILE: the first sentence of the figures has this conclusion
	concludes() {
		run -0 table sentences "$2"
		[[ "${lines[0]}" == *"conclusion of the plan, at the plateau: $1. The total "* ]]
	}
	export QUESTIONS=1000
	concludes 'no benefit of one point or more at this scale' figures
	[[ "${lines[0]}" == *' differs from that of SFT by at most 6 of 1000 in any seed, '* ]]
	[ "${#lines[@]}" -eq 7 ] # with two points and the same learning rate there are ten
	[[ "$output" == *" does not differ detectably from SFT (+0.40 ± 0.50 points, Holm's p 0.148); "* ]]
	[[ "$output" == *' gives more exact answers than random rewards '*' (+1.10 ± 0.25 points, '* ]]
	[[ "$output" == *'- Controls: random rewards - SFT: -0.70 ± 0.25 points at the plateau; '* ]]
	[[ "$output" == *'; teacher-forced - SFT: +0.30 ± 0.00 points at the plateau.'* ]]
	[[ "$output" == *'SFT as published - SFT: unknown at the plateau'* ]]
	run -0 table sentences <(sed '/random/ s/\t[^\t]*$/\t60/' figures)
	[[ "$output" == *' gives fewer exact answers than random rewards '* ]]
	for seed in 1 2 3; do
		exact sft $seed 40
		exact refine-n8 $seed 42.$seed
		exact random-n8 $seed 41
		exact forced $seed 41.$seed
	done >better
	concludes "ReFINE's reward makes the model store and return more than SFT" better
	concludes 'training at uncertain positions helps, and the reward does not show' \
		<(sed '/forced/ s/41/42/' better)
	concludes 'rollouts help as noise does, and the reward does not show' \
		<(sed '/random\S*\t1/ s/41$/42.1/; /random/ s/41$/42.2/' better)
	# the controls are not above SFT, or both are as good as n 8
	concludes 'ReFINE is better than SFT, and the study cannot tell why' \
		<(sed '/forced\t1/ s/41.1$/44/; /forced\t3/ s/41.3$/39/' better)
	concludes 'ReFINE is better than SFT, and the study cannot tell why' \
		<(sed '/random\S*\t1/ s/41$/45/; /random\S*\t3/ s/41$/39/' better)
	concludes 'ReFINE is better than SFT, and the study cannot tell why' \
		<(sed '/forced/ s/41/42/; /random\S*\t1/ s/41$/42.1/; /random/ s/41$/42.2/' better)
	concludes 'ReFINE makes the model return less than SFT' <(sed '/sft/ s/40$/45/' better)
	[[ "${lines[0]}" == *' by at most 29 of 1000 in any seed, '* ]]
	concludes 'open: the interval contains both 0 and a benefit of one point' \
		<(sed '/sft\t1/ s/40$/44/' better)
	# n 8 is above SFT by .9 ± .8
	concludes "open: ReFINE is above SFT before Holm's correction, and not after it" \
		<(sed '/refine/ { s/41.2$/41.58/; s/42.4$/42.9/; s/43.6$/44.22/ }' figures)
	# fewer nats of later words are named where there are no more exact answers
	# nats SFT REFINE: prints the nats of both methods, which differ by a little more in each seed
	nats() {
		for seed in 1 2 3; do
			for load in 8 16 32; do
				printf 'mid\tplateau\tsft\t%d\tlater-%d\t%s\n' $seed $load "$1"
				printf 'mid\tplateau\trefine-n8\t%d\tlater-%d\t%s\n' $seed $load "$2$seed"
			done
		done
	}
	distribution='and the fewer nats are a different distribution of probability, not better recall'
	concludes "no benefit of one point or more at this scale, $distribution" \
		<(cat figures <(nats 0.5 0.4))
	concludes 'no benefit of one point or more at this scale' <(cat figures <(nats 0.5 0.6))
	concludes "ReFINE's reward makes the model store and return more than SFT" \
		<(cat better <(nats 0.5 0.4))
	# Holm's p never falls below that of a smaller p, and never exceeds 1
	for seed in 1 2 3; do
		exact sft $seed 4$seed
		for m in refine-n8 random-n8 forced; do exact $m $seed 4$seed.$seed; done
	done >same
	run -0 table contrasts same
	[[ "$output" == *'| n 8 - SFT | +0.20 ± 0.25 | 0.10 | 0.074 | 0.223 |'* ]]
	[[ "$output" == *'| n 8 - teacher-forced | 0.00 ± 0.00 | 0.00 | 1.000 | 1.000 |'* ]]
	# at the rate of n 8, SFT is worse by 1, and at the rate of SFT, n 8 is below SFT by 1
	for seed in 1 2 3; do
		exact sft $seed 4$((seed - 1))
		exact refine-n8 $seed 4$((seed - 1))
	done | sed 's/^mid/rate/' >rates
	run -0 table sentences <(cat figures rates)
	[ "${#lines[@]}" -eq 8 ]
	[[ "${lines[1]}" == *'SFT at its own learning rate - SFT at the rate of n 8: +1.00 ± 0.00 '* ]]
	[[ "${lines[1]}" == *'both at the rate of n 8: +1.40 ± 0.50 points, both '*': -1.00 ± 0.00 '* ]]
	run -0 table rate <(cat figures rates)
	[[ "$output" == *'| SFT, rate of n 8 | 41.0 '*'| ReFINE, n 8 | 42.4 (+1.4 ± 0.5 *) '* ]]
	[[ "$output" == *'| SFT | 42.0 '*'| ReFINE, n 8, rate of SFT | 41.0 (-1.0 ± 0.0) '* ]]
	run -0 table rate figures
	[ -z "$output" ]
	run -0 table drawing <(cat figures rates)
	[[ "$output" == *'n 8 - SFT, both rate of SFT '*'O'*'|'* ]]
	run -0 table drawing figures
	[[ "$output" != *'both rate'* ]]
	[[ "$output" == *'n 8 - random rewards '*'|'*'--O--'* ]]
	# a single seed gives no interval and no contrast
	run -0 table mid <(grep -P '\t1\t' figures)
	[[ "$output" == *'| 41.2 (+0.2) |'* ]]
	run -0 table contrasts <(grep -P '\t1\t' figures)
	[ -z "$output" ]
	# the words of the study in figures.tsv are no figures
	cmp <(table mid figures) <(table mid <(printf 'words\t-\t-\t-\tLEN\t512\n'; cat figures))
}

@test "study-report.sh: all lines of a table are over the same seeds" {
	export SEEDS='1 2' ADAPT='1 3' EXPLORE=2 TUNE='101 102' POINTS='plateau early' COMPUTE=
	export LRS_early='1 2' LRS_plateau='1 2' COEFS='0.02 0.2' SFT_LRS_plateau='1 2 3' POST_LRS=1
	export LESSONS=1 SHORT=1 EARLY=1 PLATEAU=1 MID=1 POST=1 TTT=1 ASK=1 BATCH=1 MINI=1
	export TTT_BATCH=1 TTT_MINI=1
	# part PHASE METHOD SEED EXACT: the figures of one part
	part() {
		mkdir -p "run/$1/${5:-plateau}/$2"
		printf '%s\t%s\n' exact-8 "$4" exact-16 "$4" exact-32 "$4" >"run/$1/${5:-plateau}/$2/$3.tsv"
	}
	part base start 1 30 early
	part mid refine-n8 1 40
	part mid refine-n8 2 50
	part mid refine-n8 3 99
	part post sft 1 41
	part post sft 3 99
	part ablation binary 2 52
	part tune sft_1_0 101 60
	part tune sft_1_0 102 62
	part tune sft_2_0 101 66
	mkdir -p run/chosen/mid/plateau
	echo sft_1_0 >run/chosen/mid/plateau/sft
	echo sft-published_2_0 >run/chosen/mid/plateau/sft-published
	echo refine_2_0.02 >run/chosen/mid/plateau/refine
	echo refine-n8_1_0.2 >run/chosen/mid/plateau/refine-n8
	echo LEN=512 >run/words
	"$P/study-report.sh" run
	grep -qF '| ReFINE, n 8 | 45.0 |' run/report.md
	grep -qF '| before | 40.0 |' run/report.md
	grep -qF '| SFT, not nested | 41.0 (+1.0) |' run/report.md
	grep -qF '| cosine, entropy, k 5, c 8 | 50.0 |' run/report.md
	grep -qF '| binary | 52.0 (+2.0) |' run/report.md
	# settings that not all seeds of tuning have tried are left out, and a choice at the edge is marked
	grep -qF '| SFT | 1 |  | 61.00 |' run/report.md
	[ "$(grep -cF '| SFT | 2 |' run/report.md)" -eq 0 ]
	grep -qF '"plateau": ReFINE, n 1: 2 (the largest), coefficient 0.02 (the smallest); ' run/report.md
	grep -qF '; ReFINE, n 8: 1 (the smallest), coefficient 0.2 (the largest); ' run/report.md
	grep -q '; SFT: 1 (the smallest); SFT as published: 2\.$' run/report.md
	grep -q '"plateau", these methods chose the smallest of their learning rates: ReFINE, n 8; SFT\.$' \
		run/report.md
	# points have their order, and a point without a method has no table
	[ "$(grep -c '^| early |' run/report.md)" -eq 2 ]
	grep -E '^\| (plateau|early) \| exact' run/report.md | head -n 2 | cut -d ' ' -f 2 |
		cmp - <(printf '%s\n' plateau early)
}

@test "make study: a method has six settings, and trains with the one that was chosen for it" {
	run -0 make -n -f "$P/study.mk" RUN=study FIGURES= SEEDS=1 POINTS=early \
		study/mid/early/{sft,sft-published,refine,refine-n8,refine-n16,random-n8,forced}/1.tsv
	for m in sft sft-published refine refine-n8 refine-n16 random-n8 forced; do
		[ "$(grep -o "tune/early/${m}_[^/]*/10[12].tsv" <<<"$output" | sort -u | wc -l)" -eq 12 ] || {
			echo "$m"
			false
		}
	done
	for m in sft_2e-4_0 sft-published_2e-3_0 forced_1e-3_0.02 refine-n16_1e-4_0.2; do
		grep -q "study/tune/early/$m/102.tsv" <<<"$output"
	done
	grep -A 1 'lr coef <study/chosen/mid/early/' <<<"$output" >parts
	[ "$(grep -c 'RUN=study/mid/early/' parts)" -eq 7 ]
	grep -A 1 'early/forced$' parts | grep -q 'ROLLOUT= REWARD= TRAIN="rf-ntp .*--position-coef $coef'
	grep -A 1 'early/random-n8$' parts | grep -q " -n 8' REWARD='rf-reward --seed 1 --kind random' "
	grep -A 1 'early/sft-published$' parts | grep -q 'METHOD=ntp INNER_STEPS=published '
}

@test "make study: SFT and ReFINE n 8 exchange their learning rates, and keep their coefficients" {
	run -0 make -n -f "$P/study.mk" RUN=study FIGURES= SEEDS=1 study/rate/early/{sft,refine-n8}/1.tsv
	for m in sft:refine-n8 refine-n8:sft; do
		grep -A 2 "lr coef <study/chosen/mid/early/${m%:*}$" <<<"$output" >part
		sed -n 2p part | cmp - <(echo "IFS=_ read -r _ lr _ <study/chosen/mid/early/${m#*:}")
		sed -n 3p part | grep -q "RUN=study/rate/early/${m%:*}/1 .* --lr \$lr "
	done
	# without one of the two there is nothing to exchange
	run -0 make -n -f "$P/study.mk" RUN=study FIGURES= MIDS='refine-n8 forced' ONLY=rate lanes
	[[ "$output" != *'/rate/'* ]]
}

@test "study-choose.sh: prints the setting with the most exact answers over seeds, or fewest nats if equal" {
	mkdir -p g/{refine_1e-4_0.2,refine_1e-3_0.02,refine_3e-4_0.2}
	# setting SEED EXACT LATER: the figures of one part
	part() {
		printf '%s\t%s\n' exact-8 "$3" exact-16 "$3" later-8 "$4" weights 5ca1ab1e >"g/$1/$2.tsv"
	}
	part refine_1e-4_0.2 1 50 1
	part refine_1e-4_0.2 2 40 1
	part refine_1e-3_0.02 1 47 2
	part refine_1e-3_0.02 2 46 2
	part refine_3e-4_0.2 1 46 1.5
	part refine_3e-4_0.2 2 47 1.5
	[ "$("$P/study-choose.sh" g/*/*.tsv)" = refine_3e-4_0.2 ]
	part refine_1e-4_0.2 2 49 1
	[ "$("$P/study-choose.sh" g/*/*.tsv)" = refine_1e-4_0.2 ]
	part refine_1e-4_0.2 1 nan 1
	mentions 65 'g/refine_1e-4_0.2/1.tsv: line 1: no number' "$P/study-choose.sh" g/*/*.tsv
	echo 'text.nll	1' >g/refine_1e-4_0.2/1.tsv
	mentions 65 'g/refine_1e-4_0.2/1.tsv: has no exact answers' "$P/study-choose.sh" g/*/*.tsv
}

@test "study-temper.py: logits are divided by the temperature, and nothing else changes" {
	# logits MODEL: prints them
	logits() { rf-entropy -m "$1" --keep logits one.rf | json - | jq -c '.logits.data[]'; }
	batch 3:20 >one.rf
	python3 "$P/study-temper.py" "$M" 1.6 warm
	paste <(logits "$M") <(logits warm) >both
	[ "$(wc -l <both)" -ge 800 ]
	awk '{ d = $1 / 1.6 - $2; if (d > 1e-5 || d < -1e-5) exit 1 }' both
	mentions 74 'warm' python3 "$P/study-temper.py" "$M" 1.6 warm
	mentions 64 'usage' python3 "$P/study-temper.py" "$M" 1.6
}

@test "study-parts.sh: keeps the figures of all parts in one file, and gives them back to another folder" {
	mkdir -p a/mid/early/sft a/tune/early/sft_1_0 a/base/early/start b c
	printf 'LEN=512\nLRS=1 2\n' | tee a/words b/words >c/words
	printf 'exact-8\t1.5\nseconds\t3\n' | tee a/mid/early/sft/1.tsv a/mid/early/sft/10.tsv \
		a/tune/early/sft_1_0/101.tsv >a/base/early/start/1.tsv
	"$P/study-parts.sh" pack a all.tsv
	[ "$(wc -l <all.tsv)" -eq 10 ]
	grep -qx 'mid	early	sft	10	exact-8	1.5' all.tsv
	mkdir -p b/mid/early/sft
	echo 'exact-8	2' | tee b.tsv >b/mid/early/sft/1.tsv
	"$P/study-parts.sh" unpack b all.tsv
	cmp a/tune/early/sft_1_0/101.tsv b/tune/early/sft_1_0/101.tsv
	cmp b.tsv b/mid/early/sft/1.tsv # a folder keeps the figures that it has
	"$P/study-parts.sh" unpack c all.tsv
	"$P/study-parts.sh" pack c again.tsv
	cmp all.tsv again.tsv
	"$P/study-parts.sh" unpack c none.tsv
	echo LEN=256 >b/words
	rm -r b/tune
	run -0 "$P/study-parts.sh" unpack b all.tsv
	[ "$output" = 'study: all.tsv has the figures of other words than b/words, so all parts are made' ]
	[ ! -e b/tune ]
	# a model that was made again must be the same model
	rf-init --from "$M" run
	weights=$(jq -r .weights run/latest/state.json)
	printf 'weights\t%s\n' "$weights" >start.tsv
	"$P/study-parts.sh" same run start.tsv
	"$P/study-parts.sh" same run none.tsv
	printf 'weights\t%s\n' 0123456789abcdef >start.tsv
	mentions 65 'run: is not the model of start.tsv' "$P/study-parts.sh" same run start.tsv
}

# small_study: copies the pipelines, with a model of width 16, a smaller tokenizer of less text and shorter
# answers, for make check
small_study() {
	mkdir pipelines
	cp -r "$ROOT"/pipelines/{*.mk,lib,demo,study,examples} pipelines
	[ -z "${RF_ALL:-}" ] || return 0
	sed -i 's/"hidden_size": 128/"hidden_size": 16/; s/"num_hidden_layers": 3/"num_hidden_layers": 1/
		s/"vocab_size": 2048/"vocab_size": 1024/' pipelines/study/study-delta_net.json
	# only texts of 50000 to 64000 bytes, and words that appear in them at least 20 times
	sed -i 's/-lt $smallest ]/-lt 50000 ] || [ "$(wc -c <"$pod")" -gt 64000 ]/' pipelines/demo/corpus.sh
	sed -i 's/facts 0 3000 /facts 0 300 /; s/\$1 >= 60 /$1 >= 20 /
		s/vocab_size=2048/vocab_size=1024/' pipelines/study/study-data.sh
}

# study WORD...: makes a tiny study
study() {
	RF_BIN=$RF_BIN make -s -f pipelines/study/study.mk RUN=study FIGURES=figures.tsv \
		POINTS=early SEEDS=1 TUNE=101 ADAPT=1 EXPLORE=1 LESSONS=20 SHORT=4 EARLY=20 \
		PLATEAU=20 PRE_BATCH=20 WARMUP=1 MID=20 BATCH=10 MINI=5 POST=6 TTT=2 TTT_BATCH=2 \
		TTT_MINI=1 ASK=4 TEXT=4 LRS_early=1e-2 COEFS=0.2 SFT_LRS_early='1e-2 1e-3' \
		POST_LRS=1e-3 MIDS='sft sft-published refine-n8 forced' ABLATIONS=binary \
		POSTS='sft refine' TTTS='none refine' "$@"
}

@test "make study: goes from text to a report, whose figures are those of the single programs" {
	command -v spm_train >/dev/null || skip 'spm_train is not installed'
	small_study
	# two lanes may need the data at the same time
	export LEN=512 ASK=4 TEXT=4
	RF_BIN=$RF_BIN pipelines/study/study-data.sh study/data 2>/dev/null &
	RF_BIN=$RF_BIN pipelines/study/study-data.sh study/data 2>/dev/null
	wait $!
	study 2>log || { tail -n 20 log; false; }
	grep -q 'the report is study/report.md' log
	# the seeds of tuning ask about validation texts, and the others about test texts
	for s in 101:valid 1:test; do
		rf-cat --range 0:1 "study/data/seed-${s%:*}/asked.rf" |
			rf-dump --tsv --rows record --columns prompt --no-header \
				--tokenizer study/data/tokenizer |
			sed 's/\\n/\n/g' | grep -v ' means ' | grep -x '.\{40,\}' | tail -n 1 >line
		[ -s line ]
		xargs cat <"study/data/${s#*:}/list" | grep -qxFf line
	done
	cut -f 1-4 study/figures.tsv | grep -vE '^(words|texts)' | sort -u | cut -f 1 >phases
	uniq -c phases | tr -s ' ' | paste -sd, >counts
	cmp counts - <<-END
		 1 ablation, 1 base, 4 mid, 2 post, 2 post-tune, 2 rate, 2 testtime, 1 testtime-tune, 6 tune
	END
	# all methods make the same number of steps, and SFT as published makes one per batch
	for m in sft refine-n8 forced; do
		readlink "study/mid/early/$m/1/latest"
	done | sort -u | cmp - <(echo step-000004)
	[ "$(readlink study/mid/early/sft-published/1/latest)" = step-000002 ]
	[ "$(readlink study/post/early/sft/1/latest)" = "$(readlink study/post/early/refine/1/latest)" ]
	# the figures are those of single programs
	model=study/mid/early/refine-n8/1
	questions=study/data/seed-1/test
	nll=$(rf-ntp --eval -m $model $questions/text.rf | jq .nll)
	grep -qx "mid	early	refine-n8	1	text.nll	$nll" study/figures.tsv
	rf-logp -m "$(readlink -f $model/latest)" $questions/facts-16.rf | rf-dump --tsv --rows choice \
		--columns choice,greedy --no-header | awk '$1 % 2 == 0 { n++; e += $2 }
			END { printf "mid\tearly\trefine-n8\t1\texact-16\t%.4f\n", 100 * e / n }' >want
	grep -qxFf want study/figures.tsv
	# a second call in another folder needs no training, and gives the same report
	cp study/report.md report.md
	cp study/figures.tsv figures.tsv
	mv study first
	study 2>log
	[ ! -e study/models ]
	[ ! -e study/mid/early/sft/1 ]
	cmp report.md study/report.md
	# a part that is missing is made again, after the model that it needs, with the same bytes
	cp figures.tsv before
	sed -i '/^mid	early	forced	1	/d' figures.tsv
	rm -r study
	study 2>log
	[ -e study/models/early/1.done ]
	[ ! -e study/models/early/101.done ]
	diff <(grep -v seconds before) <(grep -v seconds study/figures.tsv)
	# other texts are refused
	sed -i 's/^texts\t\(.*\)\t.*/texts\t\1\t0123456789abcdef/
		/^mid	early	forced	1	/d' figures.tsv
	rm -r study
	mentions 2 'study: study/data: texts or tokenizer are not those of study/data.sum' study
	# changed and unknown variables are refused
	mentions 2 'study/words: the run was started with other settings' study MID=40
	mentions 2 "MID='16': it must be a whole number, 20 or more" study RUN=new MID=16
	mentions 2 'unknown variable MIDDS' study MIDDS=1
}
