#!/bin/bash
# The small evaluation models tuned, run and compared with their stored references: by the default
# tolerance, and with --tolerance 0 element by element; every plan verifies.   A second submit of a
# model finds all in the cache.  label: e2e
. "$(dirname "$0")/env.inc"
tar xJf tests/models/small.tar.xz -C "$tmp"

# tune MODEL PLAN OPTIONS...
tune() {
	local model=$1 plan=$2
	shift 2
	korch-submit "$model/model.onnx" -o "$plan" --budget 8 --effort 1 --json "$@" >"$tmp/out" 2>"$tmp/err" && return
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

# Warm: what was measured once (and what was still on its way) is in the cache, for another output
model=$tmp/small/candy_small
if tune "$model" "$tmp/plan" --budget 10; then
	known=$(($(field measured <"$tmp/out") + $(field cached <"$tmp/out")))
	if tune "$model" "$tmp/again" --budget 0; then
		cached=$(field cached <"$tmp/out")
		if [ "$known" -gt 0 ] && [ "$cached" -ge "$known" ]; then ok; else
			bad "$known kernels were known, and a second submit found $cached in the cache"
		fi
	fi
fi
finish
