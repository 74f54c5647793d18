#!/bin/bash
# bench-texts: the same build makes the same texts twice; a text that differs, is gone or is new is found, by its class;
# two generators run in turns and agree. No time is looked at.
# label: e2e
. "$(dirname "$0")/env.inc"

for model in candy yolox_nano; do
	korch-make-model $model "$tmp/$model.onnx" --small >"$tmp/out" 2>"$tmp/err" || bad "$(cat "$tmp/err")"
done
models="$tmp/candy.onnx $tmp/yolox_nano.onnx"
for target in avx2 cuda,sm=80; do
	bench-texts list --effort=3 --step=3 --target=$target $models >"$tmp/one" 2>"$tmp/err" || bad "$(cat "$tmp/err")"
	bench-texts list --effort=3 --step=3 --target=$target $models >"$tmp/two" 2>"$tmp/err" || bad "$(cat "$tmp/err")"
	grep -q "refused: 0 schedules, all of 0 specs$" "$tmp/err" && ok || bad "$target: $(cat "$tmp/err")"
	[ "$(wc -l <"$tmp/one")" -gt 500 ] && ok || bad "$target: $(wc -l <"$tmp/one") kernels"
	cmp -s "$tmp/one" "$tmp/two" && ok || bad "$target: two runs make different texts"
	bench-texts compare "$tmp/one" "$tmp/two" >"$tmp/out" 2>&1 && ok || bad "$(cat "$tmp/out")"
done

# one text changed, one kernel gone, one new
bench-texts list --effort=2 --step=5 "$tmp/candy.onnx" >"$tmp/one" 2>/dev/null
sed -e '2s/ [0-9a-f]\{16\} / 0123456789abcdef /' -e 4d -e '6{p;s/"$/ nv=4"/}' "$tmp/one" >"$tmp/two"
bench-texts compare "$tmp/one" "$tmp/two" >"$tmp/out" 2>"$tmp/err"
[ $? -eq 1 ] && ok || bad "a difference is status 1: $(cat "$tmp/out" "$tmp/err")"
for words in "another text" "only old" "only new"; do
	grep -q "^$words" "$tmp/out" && ok || bad "no '$words' in $(cat "$tmp/out")"
done
echo "no hash" >"$tmp/two"
bench-texts compare "$tmp/one" "$tmp/two" >"$tmp/out" 2>&1 && bad "read a list that is none" || ok
# Two empty lists are equal; beside another, an empty one lacks all.
: >"$tmp/none"
bench-texts compare "$tmp/none" "$tmp/none" >"$tmp/out" 2>&1 && ok || bad "two empty lists: $(cat "$tmp/out")"
bench-texts compare "$tmp/one" "$tmp/none" >"$tmp/out" 2>&1
[ $? = 1 ] && grep -q '^only old' "$tmp/out" && ok || bad "beside an empty list: $(cat "$tmp/out")"

bench-texts time --count=1 --turns=1 --step=7 --effort=2 $models >"$tmp/out" 2>"$tmp/err" && ok || bad "$(cat "$tmp/out" "$tmp/err")"
grep -q "^conv .* 0 " "$tmp/out" && ok || bad "$(cat "$tmp/out")"
finish
