# Functions for tests of the training pipelines: a tiny model over bytes, six pages of the manual as text, a
# run of three batches, and a stand-in for pyarrow.  Load it after helper.

# text_model_and_run: makes $P/text, $P/ckpt and the run $P/want, which took $TOOK microseconds; $P/said has
# the messages of the run
text_model_and_run() {
	export P=$BATS_FILE_TMPDIR
	mkdir "$P/text"
	for page in rf-cat rf-dump rf-entropy rf-init rf-loop rf-ntp; do
		cp "$ROOT/man/$page.1" "$P/text/$page.1.txt"
	done
	tiny_model
	local began=${EPOCHREALTIME/./}
	midtrain RUN="$P/want" BATCHES=3 2>"$P/said" || { cat "$P/said"; return 1; }
	export TOOK=$((${EPOCHREALTIME/./} - began))
}

# midtrain WORD...: midtrain.mk with the tiny model
midtrain() {
	RF_BIN=$RF_BIN make -s -f "$ROOT/pipelines/midtrain.mk" MODEL="$P/ckpt" CORPUS="$P/text/*.txt" \
		LEN=128 BATCH=4 MINI_BATCH=2 LR=1e-3 "$@"
}
export -f midtrain

# pyarrow_stand_in: parquet.py reads JSON lines as if they were parquet, so it runs without pyarrow
pyarrow_stand_in() {
	mkdir -p stubs/pyarrow
	echo 'class ArrowException(Exception): pass' >stubs/pyarrow/__init__.py
	cat >stubs/pyarrow/parquet.py <<-'END'
		import json, types, time
		class ParquetFile:
		    def __init__(self, source):
		        self.rows = [json.loads(line) for line in source]
		        self.schema_arrow = types.SimpleNamespace(names=list(self.rows[0]))
		    def __enter__(self): return self
		    def __exit__(self, *of): pass
		    def iter_batches(self, batch_size, columns):
		        for row in self.rows:
		            time.sleep(row.get("wait", 0))
		            cell = lambda name, row=row: types.SimpleNamespace(to_pylist=lambda: [row[name]])
		            yield types.SimpleNamespace(column=cell)
	END
	export PYTHONPATH=$PWD/stubs PYTHONDONTWRITEBYTECODE=1
}
export ROOT RF_BIN
