#!/bin/bash
# Every example of README.md runs as it stands there, in order, in one shell, in a folder that holds this repository
# and its build; readme.txt names those that cannot, with the reason.  The search is short by the variables that the
# README tells of.  label: e2e
. "$(dirname "$0")/env.inc"
list=$PWD/tests/e2e/readme.txt
here=$tmp/korch
mkdir "$here"
for f in README.md client deploy tests; do ln -s "$PWD/$f" "$here/$f"; done
ln -s "$1" "$here/build"
export KORCH_BUDGET=60 KORCH_EFFORT=1 PATH=${PATH#"$bin:"}
cd "$here" || exit 1

# What stands four columns in is an example, but for the picture of how it flows.
awk '/^## / {picture = /^## How it flows/} /^    / && !picture {print substr($0, 5)}' README.md >"$tmp/lines"
sed -n 's/^\(^.*\) @ .*/\1/p' "$list" >"$tmp/apart"
command -v dot >/dev/null || {
	echo "SKIP the picture: no dot (graphviz)"
	echo '\| dot ' >>"$tmp/apart"
}
while IFS= read -r row; do
	if grep -qE -- "$row" "$tmp/lines"; then ok; else bad "$list: no line of README.md fits $row"; fi
done <"$tmp/apart"
grep -vE -f "$tmp/apart" "$tmp/lines" >"$tmp/run"
# The number of a line goes to descriptor 9 before it runs: the last one is where it ended.
awk 'BEGIN {print "set -e -o pipefail"} {print "echo " NR " >&9"; print}' "$tmp/run" >"$tmp/script"
bash "$tmp/script" 9>"$tmp/at" >"$tmp/out" 2>&1 </dev/null
status=$? at=$(tail -n 1 "$tmp/at")
if [ "$status" = 0 ] && [ "$at" = "$(wc -l <"$tmp/run")" ]; then ok; else
	bad "status $status at: $(sed -n "${at:-1}p" "$tmp/run")
$(tail -n 5 "$tmp/out")"
fi
for made in candy.korch out/outputImage.npy out/out0; do
	if [ -s "$made" ]; then ok; else bad "no $made"; fi
done
if [ "$at" -ge 20 ]; then ok; else bad "only $at lines"; fi
finish
