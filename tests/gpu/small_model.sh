#!/bin/sh
# tests/gpu/small_model.sh BUILD MODEL: CUDA kernels of a small model's candidates agree with the interpreter,
# run by the host shim: no GPU is needed.  A sample of KORCH_CUDA_SAMPLE specs (default 12), each with a
# schedule of its space, batches at several architectures and precisions; KORCH_CUDA_SAMPLE=all: every spec
# and the first 6 schedules of its space at sm_80 in float32, then all specs varied.
set -eu
build=$1 model=$2 sample=${KORCH_CUDA_SAMPLE:-12}
here=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/korch-cuda-XXXXXX")
trap 'rm -rf "$dir"' EXIT INT TERM
tar -xJf "$here/models/small.tar.xz" -C "$dir" "small/$model/model.onnx"
onnx=$dir/small/$model/model.onnx
if [ "$sample" = all ]; then
	"$build/bin/bench-cuda" --check --schedules=6 "$onnx"
	exec "$build/bin/bench-cuda" --check --vary "$onnx"
fi
n=$("$build/bin/bench-cuda" --step=1000000 "$onnx" | sed -n 's/.* of \([0-9]*\) specs,.*/\1/p')
step=$(((n + sample - 1) / sample))
"$build/bin/bench-cuda" --check --vary --step="$step" "$onnx" | tee "$dir/out"
grep -q ", 0 wrong" "$dir/out" && ! grep -q " 0 checked" "$dir/out"
