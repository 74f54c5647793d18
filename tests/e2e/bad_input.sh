#!/bin/bash
# Wrong calls and damaged files, typed as a user would: the exit status, the message, and that
# nothing half-written is left.  The cases are in bad_input.txt.  label: e2e
. "$(dirname "$0")/env.inc"
here=$(dirname "$0")
t=$tmp/t
mkdir -p "$t"
tar xJf tests/models/small.tar.xz -C "$t" small/candy_small
mv "$t/small/candy_small" "$t/candy"
korch-submit "$t/candy/model.onnx" -o "$t/plan.korch" --budget 0 >/dev/null 2>"$tmp/err" ||
	bad "the plan that other cases need: $(tail -n 2 "$tmp/err")"
head -c 4096 /dev/urandom >"$t/random"
cp "$t/random" "$t/random.npy"
head -c 100000 "$t/candy/model.onnx" >"$t/cut.onnx"
[ -f "$t/plan.korch" ] && head -c 20000 "$t/plan.korch" >"$t/cut.korch"
echo "these are words" >"$t/text"

while IFS='|' read -r status pattern command; do
	case $status in '#'* | '') continue ;; esac
	status=$(echo $status) pattern=$(echo "$pattern" | sed 's/^ *//; s/ *$//')
	rm -f "$t/p"
	(eval "$command") >"$tmp/out" 2>"$tmp/err" </dev/null
	got=$?
	if [ "$got" != "$status" ]; then
		bad "$command: exit $got, wanted $status: $(tail -n 2 "$tmp/err")"
	elif ! grep -qE -e "$pattern" "$tmp/err"; then
		bad "$command: no '$pattern' in: $(tail -n 2 "$tmp/err")"
	elif ls "$t"/p* 2>/dev/null | grep -qv 'plan.korch'; then
		bad "$command: left $(ls "$t"/p* | grep -v plan.korch)"
	else
		ok
	fi
done <"$here/bad_input.txt"
finish
