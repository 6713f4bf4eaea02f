#!/usr/bin/env bats
# Tests of the packages of Debian in a fresh Debian, as root: make check-packages.  build/packages has the
# output of each test.

setup_file() {
	load ../helper
	export P=$BATS_FILE_TMPDIR DEBS=$ROOT/build/deb LOGS=$ROOT/build/packages
	able || return 0
	rm -rf "$LOGS"
	mkdir -p "$LOGS"
	mmdebstrap -q --variant=apt bookworm "$P/root.tar" 2>"$LOGS/mmdebstrap.log"
}
setup() {
	load ../helper
	able || skip "not root, or mmdebstrap or autopkgtest is missing (make deps-deb)"
	log=$LOGS/${BATS_TEST_NUMBER}.log
	echo "$BATS_TEST_DESCRIPTION" >"$log"
	root=$PWD/root
}
# fresh: makes a fresh Debian, which has the packages in /packages
fresh() {
	mkdir root
	tar -x -f "$P/root.tar" -C root
	mkdir root/packages
	cp "$DEBS"/*.deb root/packages
	rm -f root/packages/*-dbgsym_*
	# the network of this machine may have certificates of its own
	[ ! -d /usr/local/share/ca-certificates ] ||
		cp -r /usr/local/share/ca-certificates root/usr/local/share
	in_root apt-get update
}
teardown() { [ ! -d root ] || rm -rf --one-file-system root; }

able() { [ "$(id -u)" -eq 0 ] && command -v mmdebstrap autopkgtest >/dev/null; }

# mounted COMMAND...: runs the command where the fresh Debian has /proc, /sys, /dev/pts and /dev/shm; the
# output goes to the log
mounted() {
	echo "+ $*" >>"$log"
	# shellcheck disable=SC2016  # a program for another shell
	unshare --mount --pid --fork sh -ec '
		mount -t proc proc "$0/proc"
		mount -t sysfs sysfs "$0/sys"
		mount -t devpts devpts "$0/dev/pts"
		mount -t tmpfs tmpfs "$0/dev/shm"
		exec "$@"
	' "$root" "$@" >>"$log" 2>&1 || { tail -n 30 "$log"; return 1; }
}
# in_root COMMAND...: runs the command in the fresh Debian, with no environment but this
in_root() {
	# shellcheck disable=SC2016  # a program for another shell
	mounted chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive sh -c 'cd /packages && exec "$@"' _ "$@"
}

# everything FILE: lists the files of the fresh Debian, without those of the package manager
everything() {
	(cd "$root" && find . -xdev \( -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/cache \
		-o -path ./var/log -o -path ./tmp -o -path ./packages \) -prune -o -print | sort) >"$1"
}

@test "packages: apt installs rf-tools, whose demonstration writes a report" {
	fresh
	local began=$EPOCHSECONDS
	in_root sh -c 'apt-get install -y ./rf-tools_*.deb'
	echo "installed after $((EPOCHSECONDS - began)) s" >>"$log"
	in_root make -f /usr/share/rf-tools/demo/demo.mk WARM_STEPS=8 BATCHES=1 DOCUMENTS=4 LEN=256
	echo "a report after $((EPOCHSECONDS - began)) s" >>"$log"
	[ -s root/packages/runs/midtrain/report.html ]
	grep -q '^| ReFINE, n 8 |' root/packages/runs/midtrain/report.md
	in_root rf-doctor /packages/runs/midtrain/refine
}

@test "packages: purging the packages removes all of their files" {
	fresh
	# the dependencies first, so that only files of these packages differ
	depends=$(for deb in root/packages/*.deb; do dpkg-deb -f "$deb" Depends; done |
		tr '\n' ',' | sed -E 's/rf-tools \([^)]*\),?//g; s/,+ *$//; s/, *,/,/g')
	in_root apt-get satisfy -y --no-install-recommends "$depends"
	everything before
	in_root sh -c 'apt-get install -y --no-install-recommends ./*.deb'
	in_root sh -c 'echo "{\"text\": \"x y\"}" | rf-tokenize --bytes -o /tmp/x.rf && rf-dump /tmp/x.rf'
	in_root python3 -c 'import rftools; print(len(list(rftools.read("/tmp/x.rf"))))'
	everything between
	[ "$(comm -13 before between | grep -c /bin/rf-)" -eq "$(ls "$ROOT"/tools/rf-*.c | wc -l)" ]
	in_root sh -c 'apt-get purge -y $(dpkg-query -W -f "\${Package} " "*rf-tools*" "*rftools*")'
	everything after
	diff before after
}

@test "packages: autopkgtest passes" {
	fresh
	mounted autopkgtest -o "$LOGS/autopkgtest" -B "$DEBS"/rf-tools_*.dsc \
		$(ls "$DEBS"/*.deb | grep -v dbgsym) -- chroot "$root"
	sed 's/  */ /g' "$LOGS/autopkgtest/summary" >summary
	diff summary - <<<$'pipeline PASS\npython PASS\nranks PASS'
}

# section NAME: prints a section of the recipe of apptainer, with the values of its arguments
section() {
	awk -v name="%$1" '/^%/ { on = $1 == name; next } on && NF' "$ROOT/packaging/rf-tools.def" |
		sed "s/{{ *CUDA *}}/$cuda/; s|{{ *PACKAGES *}}|build/deb|"
}

@test "packages: the steps of apptainer's recipe make an image whose programs run" {
	fresh
	for cuda in no ${RF_ALL:+13}; do
		section files | while read -r from to; do
			mkdir -p "root/${to%/*}"
			for file in "$ROOT"/$from; do cp "$file" "root$to"; done
		done
		for name in post test; do
			section $name >root/step
			[ -s root/step ]
			in_root sh -e /step
		done
		[ ! -e root/tmp/rf-tools ]
	done
	[ ! "${RF_ALL:-}" ] || in_root ldd /usr/lib/rf-tools/rf-cuda.so
	run ! grep -q 'not found' "$log"
}

@test "packages: the Dockerfile and apptainer's recipe run the same step" {
	grep -E '^(FROM|COPY|RUN)' "$ROOT/packaging/Dockerfile" | tr -s ' "' ' ' >docker
	diff docker - <<-'END'
		FROM debian:bookworm-slim
		COPY build/deb/*.deb packaging/image.sh /tmp/rf-tools/
		RUN sh /tmp/rf-tools/image.sh /tmp/rf-tools $CUDA && rm -r /tmp/rf-tools
	END
	cuda='$CUDA'
	section post | diff - <(printf '    %s\n' \
		'sh /tmp/rf-tools/image.sh /tmp/rf-tools $CUDA' 'rm -r /tmp/rf-tools')
}

@test "packages: rattler-build makes and tests the package of conda from the tarball" {
	python3 -c 'import rattler_build, setuptools, wheel' 2>/dev/null ||
		skip "Python's rattler_build (py-rattler-build), setuptools or wheel is not installed"
	python3 "$BATS_TEST_DIRNAME/conda.py" conda >>"$log" 2>&1 || { tail -n 30 "$log"; return 1; }
	grep -q '^rf-tools .* cuda130_' "$log"
	ls conda/linux-64/rf-tools-*.conda
}
