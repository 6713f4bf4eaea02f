# Functions for tests of several ranks.  Load it after helper and model.

# Variables of a launcher that started the tests themselves must not reach the programs.
unset "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}" "${!SLURM_@}"
export RF_MPI=$RF_UNITS/../rf-mpi.so
have_mpi() { [ -e "$RF_MPI" ] && command -v mpirun >/dev/null; }
# MPI does not free all its memory, which a sanitizer would report.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0:exitcode=99
# Carries messages inside one machine.  Without this, each of many short runs would look for networks.
[ -n "${RF_ALL:-}" ] || export OMPI_MCA_pml=ob1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

# ranks N COMMAND...: runs N ranks of the command.  Their exit statuses are then in the files code.0, code.1,
# ..., and the messages of the programs, without those of mpirun, in `said`.  Each rank waits until all have
# ended, since mpirun kills the other ranks when the first one exits.  If ranks are killed while mpirun
# connects them, mpirun may hang and ignore SIGTERM: PATIENCE is how many seconds it may take.  If a rank is
# killed, the others still run: GRACE is how many seconds mpirun gives them before it kills them.
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
# in_line N LINE: runs N ranks of a line of shell.  Its programs decide when the line ends: the shell ignores
# the SIGTERM that mpirun sends after a rank failed.
in_line() { ranks "$1" bash -o pipefail -c "trap : TERM; $2"; }
# codes: prints the exit statuses of all ranks
codes() { cat code.* | paste -sd' '; }
# tiny_model_and_text: makes $P/ckpt, a tiny model over bytes, and $P/text.rf, the pages of the manual
tiny_model_and_text() {
	tiny_model
	for page in "$ROOT"/man/*.1; do
		head -c 3000 "$page"
		printf '\1'
	done | jq -Rsc 'split("\u0001")[:-1][] | {text: .}' >"$P/text.jsonl"
	rf-tokenize --tokenizer "$P/ckpt" --max-len 128 --truncate split -o "$P/text.rf" "$P/text.jsonl"
}
# larger RUN...: makes runs of a model that is large enough to be divided into several parts
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
