# Tests of the training pipelines share a tiny model over bytes, the manual pages as text, and a run of three
# batches.  Load it after helper.

# text_model_and_run: makes $P/text, $P/ckpt and the run $P/want, which took $TOOK microseconds
text_model_and_run() {
	export P=$BATS_FILE_TMPDIR
	mkdir "$P/text"
	for page in "$ROOT"/man/*.1; do
		cp "$page" "$P/text/$(basename "$page").txt"
	done
	tiny_model
	local began=${EPOCHREALTIME/./}
	midtrain RUN="$P/want" BATCHES=3
	export TOOK=$((${EPOCHREALTIME/./} - began))
}

# midtrain WORD...: midtrain.mk with the tiny model
midtrain() {
	RF_BIN=$RF_BIN make -s -f "$ROOT/pipelines/midtrain.mk" MODEL="$P/ckpt" CORPUS="$P/text/*.txt" \
		LEN=128 BATCH=4 MINI_BATCH=2 LR=1e-3 "$@"
}
export -f midtrain
export ROOT RF_BIN
