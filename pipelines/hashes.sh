#!/bin/bash
# hashes.sh FILE... -- size and hash of each file, on a line; of more than fit on a command line, the hash of
# these lines.  Of what is no regular file only the name counts.
set -euo pipefail
export LC_ALL=C
here=$(cd -- "$(dirname -- "$0")" >/dev/null && pwd)
# shellcheck source=pipelines/shown.sh
. "$here/shown.sh"

files=()
for file; do
	if [ ! -r "$file" ]; then
		why='No such file or directory'
		[ ! -e "$file" ] || why='Permission denied'
		printf '%s: %s\n' "$(shown "$file")" "$why" >&2
		exit 66
	fi
	[ ! -f "$file" ] || files+=("$file")
done
[ ${#files[@]} -gt 0 ] || exit 0
# with -z no name is changed
mapfile -t sizes < <(printf '%s\0' "${files[@]}" | xargs -0 stat -L -c %s --)
mapfile -d '' -t hashes < <(printf '%s\0' "${files[@]}" | xargs -0 sha256sum -z --)
[ ${#sizes[@]} -eq ${#files[@]} ] && [ ${#hashes[@]} -eq ${#files[@]} ] || exit 74
lines=$(for i in "${!files[@]}"; do
	printf '%s bytes, sha256 %s: %s\n' "${sizes[i]}" "${hashes[i]%% *}" "${files[i]}"
done)
if [ ${#lines} -gt 60000 ]; then
	hash=$(sha256sum <<<"$lines" | cut -d ' ' -f 1)
	lines="${#files[@]} files, sha256 $hash of their sizes and hashes"
fi
printf '%s\n' "$lines"
