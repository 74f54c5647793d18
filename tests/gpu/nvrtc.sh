#!/bin/bash
# tests/gpu/nvrtc.sh BUILD: CUDA kernels of the small models' candidates compile by NVRTC, no GPU needed: of each model
# KORCH_NVRTC_SAMPLE specs (default 3) for each architecture, one schedule of their space each, at the precisions in turn.
# What registers they take and whether they spill is printed.  An architecture that no NVRTC of this host knows is
# skipped; KORCH_CUDA_LIB names a folder with another one (sm_70: NVRTC 12).
set -u
build=$1 sample=${KORCH_NVRTC_SAMPLE:-3}
here=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/korch-nvrtc-XXXXXX")
trap 'rm -rf "$dir"' EXIT INT TERM
[ -n "${KORCH_CUDA_LIB:-}" ] || export KORCH_CUDA_LIB=/usr/local/cuda/lib64
tar -xJf "$here/models/small.tar.xz" -C "$dir" || exit 1
turn=0 compiled=0
# each architecture has another fifth of the specs, and precisions, in each model
for model in "$dir"/small/*/model.onnx; do
	n=$("$build/bin/bench-cuda" --step=1000000 "$model" | sed -n 's/.* of \([0-9]*\) specs,.*/\1/p')
	step=$((n / (5 * sample) + 1))
	turn=$((turn + 1))
	for sm in 70 75 80 90 100; do
		if [ -e "$dir/without-$sm" ]; then
			continue
		fi
		"$build/bin/bench-cuda" --compile --vary --sm=$sm --step=$step --part=$((turn % 5 + 1))/5 "$model" >"$dir/out" 2>"$dir/err"
		status=$?
		turn=$((turn + 1))
		if [ $status = 78 ]; then
			echo "SKIP: 1 part: not compiled for sm_$sm: $(cat "$dir/err")"
			touch "$dir/without-$sm"
			continue
		fi
		sed "s|$dir/small/||; s|/model.onnx||" "$dir/out" | grep " sm_$sm: "
		if [ $status != 0 ] || ! grep -q " sm_$sm: [1-9][0-9]* kernels, 0 do not compile" "$dir/out"; then
			cat "$dir/out" "$dir/err"
			exit 1
		fi
		compiled=$((compiled + 1))
	done
done
[ $compiled -gt 0 ] || exit 77
