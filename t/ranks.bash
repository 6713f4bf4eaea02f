# What the tests of several ranks share.  After helper and model.

# A launcher's own variables; what the tests are themselves started by is no launcher of theirs.
unset "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}" "${!SLURM_@}"
export RF_MPI=$RF_UNITS/../rf-mpi.so
have_mpi() { [ -e "$RF_MPI" ] && command -v mpirun >/dev/null; }
# MPI leaves memory behind, of which a sanitizer would speak.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

# ranks N COMMAND...: N of it, whose exit statuses are then in the files code.0, code.1, ..., and what they
# say in `said`, without mpirun's own words
ranks() {
	local n=$1 status=0
	shift
	rm -f code.*
	timeout 100 mpirun --bind-to none -n "$n" \
		bash -c 'trap : TERM; "$@"; s=$?; echo $s >"code.$OMPI_COMM_WORLD_RANK"; exit $s' bash "$@" \
		</dev/null >said.all 2>&1 || status=$?
	grep -a '^rf-' said.all >said || true
	return "$status"
}
# in_line N LINE: the same of a shell's line, which ends by its programs: mpirun sends SIGTERM when a rank
# failed
in_line() { ranks "$1" bash -o pipefail -c "trap : TERM; $2"; }
# codes: of all ranks
codes() { cat code.* | paste -sd' '; }
# figures FILE: of a log, without those of time and of the number of ranks
figures() { jq -c 'del(.[keys[] | select(test("^timing_s|^perf|^world$"))])' "$1"; }
