#!/bin/bash
# Tiles of registers compute the heavy linear primitives of candidates of the full-size models (each ninth), on every CPU that Korch
# knows. A loop nest in their place is right and a hundred times slower, so that no other test would tell.
# label: e2e
. "$(dirname "$0")/env.inc"

for model in candy efficientvit efficientvit_b1 segformer_b0 yolox_nano; do
	korch-make-model $model "$tmp/$model.onnx" >"$tmp/out" 2>"$tmp/err" || bad "$(cat "$tmp/err")"
	for isa in sse42 avx2 avx512 neon; do
		if bench-candidates --step=9 --untiled=$isa "$tmp/$model.onnx" >"$tmp/out" 2>"$tmp/err"; then
			ok
		else
			bad "$isa: $(cat "$tmp/err"; tail -n 1 "$tmp/out"; head -n 20 "$tmp/out")"
		fi
	done
done
finish
