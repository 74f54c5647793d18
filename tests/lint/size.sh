#!/usr/bin/env bash
# .c files of at most 600 lines, .h of 250, functions of 60; exceptions with reasons in size.txt.
set -u
cd "$(dirname "$0")/../.."
find kernels proto schema daemon worker client deploy -name '*.[ch]' | sort | xargs awk '
	function flush_file() {
		limit = file ~ /\.h$/ ? 250 : 600
		if (lines > limit) print file ": " lines " lines (at most " limit ")"
	}
	FNR == 1 { if (file) flush_file(); file = FILENAME; name = "" }
	{ lines = FNR }
	/^[a-zA-Z_(][a-zA-Z0-9_]*\)?\(/ { name = $0; sub(/\(.*/, "", name); if (name == "") { name = $0 } }
	/^{/ { start = FNR; open = name }
	/^}/ && open != "" {
		if (FNR - start - 1 > 60) print file ":" open ": " FNR - start - 1 " lines (at most 60)"
		open = ""
	}
	END { flush_file() }
' >/tmp/korch-size.$$
faults=0
while IFS= read -r line; do
	what=${line%%: *}
	if ! grep -qF "$what " tests/lint/size.txt; then
		echo "$line"
		faults=$((faults + 1))
	fi
done </tmp/korch-size.$$
rm -f /tmp/korch-size.$$
echo "$faults faults"
[ "$faults" = 0 ]
