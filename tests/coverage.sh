#!/usr/bin/env bash
# tests/coverage.sh [-b COMMIT] [-f FILE]... [TEST...]: which changed lines does no test reach?
#
# Builds the preset cov in build/cov, runs the tests whose names match (regular expressions as for tests/run.sh; none:
# those labelled pure), and prints each line that is compiled, was changed since COMMIT (default: the commit before, and
# what is not committed yet), and was not run. -f FILE: all such lines of that file, changed or not. Counts add up over
# calls; remove build/cov to begin anew. gcov alone does the work; the figure is no score, the list is what to look at.
set -u
cd "$(dirname "$0")/.."
base=HEAD~1 files=() names=()
while [ $# -gt 0 ]; do
	case $1 in
	-b | -f)
		[ $# -ge 2 ] || { echo "tests/coverage.sh: $1 wants a value" >&2; exit 2; }
		[ "$1" = -b ] && base=$2 || files+=("$2")
		shift
		;;
	-h | --help) exec sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" ;;
	-*)
		echo "tests/coverage.sh: $1: see --help" >&2
		exit 2
		;;
	*) names+=("$1") ;;
	esac
	shift
done
if [ ${#files[@]} = 0 ]; then
	git rev-parse -q --verify "$base" >/dev/null || { echo "tests/coverage.sh: there is no commit $base" >&2; exit 2; }
fi
build=build/cov
mkdir -p $build
{
	cmake --preset cov && cmake --build $build --target all tests -j "$(nproc)"
} >$build/build.log 2>&1 || { tail -n 20 $build/build.log; exit 1; }
if [ ${#names[@]} -gt 0 ]; then
	select=(-R "$(IFS='|'; echo "${names[*]}")")
else
	select=(-L pure)
fi
ctest --test-dir $build -j "$(nproc)" "${select[@]}" >$build/test.log 2>&1 || sed -n '/The following tests FAILED/,$p' $build/test.log
tail -n 3 $build/test.log | grep 'tests passed'

# "FROM TO" of each changed stretch of a file; all of it where it was named, or is new.
changed() {
	if [ ${#files[@]} -gt 0 ] || ! git cat-file -e "$base:$1" 2>/dev/null; then
		echo "1 1000000000"
	else
		git diff -U0 "$base" -- "$1" | sed -nE 's/^@@ [^+]*\+([0-9]+)(,([0-9]+))? @@.*/\1 \3/p' |
			awk '{ n = NF > 1 ? $2 : 1; if (n > 0) print $1, $1 + n - 1 }'
	fi
}

if [ ${#files[@]} -gt 0 ]; then
	printf '%s\n' "${files[@]}"
else
	{ git diff --name-only --diff-filter=d "$base"; git ls-files -o --exclude-standard; } | grep -E '^(kernels|proto|schema|daemon|worker|client)/.*\.c$' | sort -u
fi | while read -r file; do
	# one object a file: the parts are static libraries
	notes=$(find $build -path "*/${file##*/}.gcno" | grep -F "/$(basename "$(dirname "$file")")" | head -n 1)
	[ -n "$notes" ] || notes=$(find $build -name "${file##*/}.gcno" | head -n 1)
	[ -n "$notes" ] || { echo "$file: is not compiled here"; continue; }
	changed "$file" >$build/changed
	gcov -t -o "$notes" "$file" 2>/dev/null | awk -F: -v file="$file" -v ranges="$build/changed" '
		BEGIN { while ((getline line < ranges) > 0) { split(line, r, " "); from[++n] = r[1]; to[n] = r[2] } }
		# of a file that gcov shows: its name, then COUNT:LINE:TEXT
		$2 + 0 == 0 && $3 == "Source" { mine = $4 ~ file "$" }
		mine && $2 + 0 > 0 && $1 !~ /-$/ {
			for (i = 1; i <= n; i++) if ($2 >= from[i] && $2 <= to[i]) {
				all++
				if ($1 ~ /#####/) { missed++; text = $0; sub(/^[^:]*:[^:]*:/, "", text); print file ":" $2 + 0 ": " text }
				break
			}
		}
		END { if (all) printf "%s: %d of %d lines were run\n", file, all - missed, all }'
done
