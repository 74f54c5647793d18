#!/usr/bin/env bash
# clang-tidy 14 has nothing to say by .clang-tidy.  The first run in a build folder looks at every file (a minute), with
# the analyzer, which takes fifteen times as long, at those that differ from the commit before (KORCH_BASE names another;
# KORCH_TIDY=all: at every one).  Later runs look at what has changed since the last clean one, and at what lies in the
# folder of a header or table that has.
set -u
cd "$(dirname "$0")/../.."
build=$1
command -v clang-tidy-14 >/dev/null || { echo "SKIP lint/tidy: no clang-tidy-14"; exit 77; }
[ -f "$build/compile_commands.json" ] || { echo "SKIP lint/tidy: no $build/compile_commands.json"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
clean=$build/tidy.clean # the commit of the last clean run

# since COMMIT: files that differ from it, and those that git does not know yet
since() { git diff --name-only "$1" 2>/dev/null && git ls-files -o --exclude-standard; }

# Files that this build compiles.
find kernels proto schema daemon worker client deploy -name '*.c' | sort | while read -r file; do
	grep -qF "/$file\"" "$build/compile_commands.json" && echo "$file"
done >"$work/all"
[ -s "$work/all" ] || { echo "no file found"; exit 1; }
cp "$work/all" "$work/look"
if [ "${KORCH_TIDY-}" = all ]; then
	cp "$work/all" "$work/changed"
else
	since "${KORCH_BASE:-HEAD~1}" | sort | comm -12 - "$work/all" >"$work/changed"
	if [ -s "$clean" ] && since "$(cat "$clean")" >"$work/since" && ! grep -qx '\.clang-tidy' "$work/since"; then
		sed -n 's|/[^/]*\.\(h\|def\)$|/|p' "$work/since" >"$work/folders"
		{ cat "$work/since" && grep -Ff "$work/folders" "$work/all"; } | sort -u | comm -12 - "$work/all" >"$work/look"
		comm -12 "$work/changed" "$work/look" >"$work/both" && mv "$work/both" "$work/changed"
	fi
fi
comm -23 "$work/look" "$work/changed" >"$work/same"

# tidy LIST ARGS...
tidy() {
	local list=$1
	shift
	[ -s "$list" ] || return 0
	xargs -P "$(nproc)" -n 8 clang-tidy-14 -p "$build" --quiet "$@" <"$list" 2>/dev/null
}
{
	tidy "$work/same" '--checks=-clang-analyzer-*'
	tidy "$work/changed"
} >"$work/said"
grep -E '(warning|error): ' "$work/said" | sed "s|^$PWD/||" | sort -u >"$work/faults"
head -n 60 "$work/faults"
echo "$(wc -l <"$work/look") of $(wc -l <"$work/all") files, $(wc -l <"$work/changed") by the analyzer too: $(wc -l <"$work/faults") faults"
[ -s "$work/faults" ] && exit 1
git rev-parse -q --verify HEAD >"$clean" 2>/dev/null || rm -f "$clean"
