#!/usr/bin/env bats
# Tests of the version: lib/base/version.h states it, and the files that cannot read it from there agree.
setup() { load ../helper; }

# stated FILE PATTERN: prints the first part of the file that the group of a regular expression matches
stated() { sed -nE "s/$2/\\1/p" "$ROOT/$1" | head -n 1; }

@test "version: the header, the programs, Python, NEWS and the packages state the same version" {
	want=$(version)
	[[ "$want" =~ ^[0-9]+\.[0-9]+(\.[0-9]+)?$ ]]
	[[ "$(rf-cat --version | head -n 1)" == "rf-cat $want "* ]]
	[ "$(stated python/rftools/version.py '^VERSION = "(.*)"$')" = "$want" ]
	[ "$(stated NEWS '^## ([0-9.]+), [0-9]+ [A-Z][a-z]+ 20[0-9]+$')" = "$want" ]
	[[ "$(stated NEWS '^## (.*)')" == "$want, "* ]]
	[ "$(stated debian/changelog '^rf-tools \(([0-9.]+)[-)].*')" = "$want" ]
	[ "$(stated packaging/conda/recipe.yaml '^  version: "(.*)"$')" = "$want" ]
}

@test "version: only lib/base/version.h defines it, and only one file of the Python package" {
	[ "$(cd "$ROOT" && grep -rlE '^#define RF_VERSION ' lib kernels tools t)" = lib/base/version.h ]
	[ "$(cd "$ROOT" && grep -rlwE 'VERSION = ' python --include=*.py)" = python/rftools/version.py ]
	[ "$(make -s -C "$ROOT" -f Makefile -f - said <<<'said:; @echo $(VERSION)')" = "$(version)" ]
	! grep -qE '^version = "' "$ROOT/python/pyproject.toml"
}
