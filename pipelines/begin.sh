# shellcheck shell=bash disable=SC2154  # variables of steps.sh
# begin.sh -- read by steps.sh: all that comes before a run's first batch.
#
# A run is begun by its words: those in RUN/data/words made RUN/data and all batches.  From the first commit on they stand.
# Before it nothing is lost by others, and most first words have a mistake in them: what they prepared is dropped, and the
# new ones begin.  All of that happens under the loop's lock, which a pipeline inherits: where a killed loop left one
# behind, its commit comes first, and then the words that it was made by stand.
#
# The order makes a kill harmless: what is prepared goes before the words that made it, and comes after them; of the
# checkpoint, the folder's rename is what counts.

# begun: whether the run has a step, wherever its latest points.
begun() { compgen -G "$run/step-*" >/dev/null; }

# check: what can be told before anything is made.
check() {
	local name word
	"$here/numbers.sh" 0 STEPS SEED
	"$here/numbers.sh" 1 BATCH MINI_BATCH LEN K N
	[ -n "$TRAIN" ] || die 64 "TRAIN is empty: a batch needs a trainer"
	for name in TOKENIZE ENTROPY SELECT ROLLOUT REWARD TRAIN; do
		read -r word _ <<<"${!name}" || true
		# words of the shell's grammar, as (cd or X=1, are for the shell to judge
		[[ -z $word || $word == *[^[:alnum:]_./+-]* ]] || command -v -- "$word" >/dev/null || die 64 "$name: $word: command not found"
	done
	for name in "${files[@]}"; do
		[ -r "$name" ] || die 66 "$name: it is not there, or cannot be read"
	done
	begun || [ -e "$run/data/.lock" ] || [ -z "$(find "$run" -mindepth 1 ! -path "$run/data" -print -quit 2>/dev/null)" ] ||
		die 65 "$run: it is there already and is not a run: RUN=... names a new folder"
	begun || rf-init --from "$MODEL" --dry-run "$run/data/begun" >/dev/null
}

# drop: what other words prepared goes, while no batch was committed with them.
drop() {
	local was
	IFS= read -r was <"$run/data/words"
	[ "$was" = "MODEL=$MODEL" ] || rf-init --from "$MODEL" --dry-run "$run/data/begun" >/dev/null
	exec 8>>"$run/.lock" # the trainers', of which one may have been started by hand
	flock -n 8 || die 75 "a trainer works on $run"
	look
	[ "$batch" -eq 0 ] || die 75 "a trainer worked on $run just now: rf-dump --head tells by which words a stream was made"
	say "other words than before, which did no batch: what they prepared is dropped, these begin"
	rm -rf "$run/streams" "$run/log.jsonl"
	find "$run/data" -mindepth 1 -maxdepth 1 ! -name .lock ! -name words -exec rm -rf {} +
	[ "$was" = "MODEL=$MODEL" ] || rm -rf "${run:?}/latest" "$run/step-000000"
	exec 8>&-
}

# begin: the words, RUN/step-000000 and the corpus, as far as they are not there.
begin() {
	local words=$run/data/words names=(MODEL CORPUS TOKENIZE DATA ENTROPY SELECT ROLLOUT REWARD TRAIN BATCH SEED) told status=0 line
	told=$("$here/same-words.sh" "$words" "${names[@]}" -- "${files[@]}" 2>&1) || status=$?
	if [ "$status" -eq 65 ] && [ "$batch" -eq 0 ] && [ ! -e "$run/data/times.tsv" ]; then
		drop
		"$here/same-words.sh" "$words.new" "${names[@]}" -- "${files[@]}"
		mv "$words.new" "$words"
	elif [ "$status" -ne 0 ]; then
		printf '%s\n' "$told" >&2
		exit "$status"
	fi
	if ! begun; then
		rm -rf "$run/data/begun"
		printf -v line 'rf-init --from %q %q' "$MODEL" "$run/data/begun"
		work "$line" || exit
		mv -T "$run/data/begun/latest" "$run/latest"
		mv -T "$run/data/begun/step-000000" "$run/step-000000"
		rm -rf "$run/data/begun"
	fi
	if [ ! -e "$corpus" ]; then
		printf -v line '%s -o %q %s' "$TOKENIZE" "$corpus" "$CORPUS"
		say "$line"
		work "$line" || exit
	fi
}
