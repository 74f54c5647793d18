#!/bin/bash
# The small evaluation models tuned, run and compared with their stored references: by the default
# tolerance, and with --tolerance 0 element by element; every plan verifies.  A second submit of a
# model measures nothing.  label: e2e
. "$(dirname "$0")/env.inc"
tar xJf tests/models/small.tar.xz -C "$tmp"

# tune MODEL PLAN OPTIONS...
tune() {
	local model=$1 plan=$2
	shift 2
	korch-submit "$model/model.onnx" -o "$plan" --budget 15 --effort 1 --json "$@" >"$tmp/out" 2>"$tmp/err" && return
	bad "$(basename "$model") $*: submit ended with $?: $(tail -n 3 "$tmp/err")"
	return 1
}
check() {
	local model=$1 plan=$2
	shift 2
	if korch-run "$plan" --check "$model" "$@" >"$tmp/out" 2>&1; then ok; else
		bad "$(basename "$model"): differs from its reference: $(tail -n 3 "$tmp/out")"
	fi
	if korch-plan verify "$plan" >"$tmp/out" 2>&1; then ok; else
		bad "$(basename "$model"): does not verify: $(tail -n 3 "$tmp/out")"
	fi
}

for model in "$tmp"/small/*; do
	tune "$model" "$tmp/plan" && check "$model" "$tmp/plan" --rel 1e-3
	tune "$model" "$tmp/exact" --tolerance 0 --budget 0 && check "$model" "$tmp/exact"
done

# Warm: all from the cache.
model=$tmp/small/candy_small
if tune "$model" "$tmp/plan" --budget 100 && tune "$model" "$tmp/again" --budget 100; then
	measured=$(field measured <"$tmp/out")
	if [ "$measured" = 0 ]; then ok; else bad "a second submit measured $measured kernels"; fi
fi
finish
