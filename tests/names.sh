#!/usr/bin/env bash
# tests/names.sh BUILD NAME...: is each NAME, a regular expression as tests/run.sh takes it, that of a test which the
# configured folder BUILD knows?  Else it is said which are near, and the exit status is 2; 1: nothing is configured there.
set -u
build=$1 faults=0
shift
known=$(ctest --test-dir "$build" -N 2>/dev/null | sed -n 's/^ *Test *#[0-9]*: //p')
[ -n "$known" ] || exit 1

# nearest NAME: the three names that it takes fewest letters to come to, by the whole name or what stands behind the slash
nearest() {
	awk -v want="$(tr -d '^$\\()' <<<"$1")" '
	function least(a, b) { return a < b ? a : b }
	function letters(a, b, i, j, was, now, row) {
		for (j = 0; j <= length(b); j++) row[j] = j
		for (i = 1; i <= length(a); i++) {
			was = row[0]
			row[0] = i
			for (j = 1; j <= length(b); j++) {
				now = row[j]
				row[j] = least(least(row[j], row[j - 1]) + 1, was + (substr(a, i, 1) != substr(b, j, 1)))
				was = now
			}
		}
		return row[length(b)]
	}
	{
		tail = $0
		sub(/.*\//, "", tail)
		print least(letters(want, $0), letters(want, tail)), $0
	}' <<<"$known" | sort -n -k 1,1 -s | head -n 3 | cut -d ' ' -f 2- | paste -sd ' ' | sed 's/ /, /g'
}

for name in "$@"; do
	grep -qE -- "$name" <<<"$known" 2>/dev/null && continue
	echo "no test has a name like '$name'; near it: $(nearest "$name")" >&2
	faults=1
done
[ "$faults" = 0 ] && exit 0
echo "all of them: ctest --test-dir $build -N" >&2
exit 2
