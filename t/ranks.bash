# What the tests of several ranks share.  After helper and model.

# A launcher's own variables; what the tests are themselves started by is no launcher of theirs.
unset "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}" "${!SLURM_@}"
export RF_MPI=$RF_UNITS/../rf-mpi.so
have_mpi() { [ -e "$RF_MPI" ] && command -v mpirun >/dev/null; }
# MPI leaves memory behind, of which a sanitizer would speak.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0:exitcode=99
# What carries messages inside one machine, without a search for networks by each of many short runs.
[ -n "${RF_ALL:-}" ] || export OMPI_MCA_pml=ob1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

# ranks N COMMAND...: N of it, whose exit statuses are then in the files code.0, code.1, ..., and what they
# say in `said`, without mpirun's own words.  Each stays until all have ended: when the first is gone, mpirun
# kills what is left.  An mpirun whose ranks were killed while it joined them may wait for ever, and not end
# by SIGTERM either: PATIENCE is how many seconds it may take.  A rank that failed has the others ended, of
# which all are done; where one is killed they are not, and GRACE is how many seconds they have.
ranks() {
	local n=$1 status=0
	shift
	rm -f code.*
	OMPI_MCA_odls_base_sigkill_timeout=${GRACE:-0} \
		timeout -k 2 "${PATIENCE:-60}" mpirun --bind-to none -n "$n" \
		bash -c 'trap : TERM; "$@"; s=$?; own=$OMPI_COMM_WORLD_RANK
			echo $s >"end.$own" && mv "end.$own" "code.$own"
			for ((i = 0; i < 100; i++)); do
				ended=(code.*)
				[ "${#ended[@]}" -lt "$OMPI_COMM_WORLD_SIZE" ] || break
				sleep .05
			done
			exit $s' bash "$@" \
		</dev/null >said.all 2>&1 || status=$?
	grep -a '^rf-' said.all >said || true
	return "$status"
}
# in_line N LINE: the same of a shell's line, which ends by its programs: mpirun sends SIGTERM when a rank
# failed
in_line() { ranks "$1" bash -o pipefail -c "trap : TERM; $2"; }
# codes: of all ranks
codes() { cat code.* | paste -sd' '; }
# $P/ckpt, a tiny model over bytes, and $P/text.rf, the pages of the manual, for phases of training
tiny_model_and_text() {
	tiny_model
	for page in "$ROOT"/man/*.1; do
		head -c 3000 "$page" | jq -Rs '{text: .}' -c
	done >"$P/text.jsonl"
	rf-tokenize --tokenizer "$P/ckpt" --max-len 128 --truncate split -o "$P/text.rf" "$P/text.jsonl"
}
# larger RUN...: runs of a model whose numbers are several parts
larger() {
	[ -d large ] || {
		echo '{ "model_type": "gated_deltanet", "hidden_size": 64, "num_hidden_layers": 2,
			"num_heads": 2, "head_dim": 32, "expand_v": 2, "intermediate_size": 2000,
			"vocab_size": 40, "eos_token_id": 1 }' >large.json
		rf-init --config large.json --seed 3 large
	}
	local run
	for run; do rf-init --from large "$run"; done
}
