#!/bin/bash
# tests/gpu/run.sh BUILD [MODELS]: all that needs a GPU.  MODELS: a folder NAME/model.onnx of full-size models,
# tuned for KORCH_GPU_BUDGET seconds each (default 600).  KORCH_GPU: the device, "cuda:0" unless said otherwise.
# KORCH_GPU_STEP=N takes every N-th spec of the small models (default 1), KORCH_GPU_GRAPHS=N random graphs (default
# 500).  One line a figure, kept in BUILD/gpu-figures.txt.
set -u
build=${1:?tests/gpu/run.sh BUILD [MODELS]} models=${2:-}
device=${KORCH_GPU:-cuda:0} step=${KORCH_GPU_STEP:-1} graphs=${KORCH_GPU_GRAPHS:-500} budget=${KORCH_GPU_BUDGET:-600}
here=$(cd "$(dirname "$0")/.." && pwd)
figures=$build/gpu-figures.txt
failed=0
export KORCH_LIBEXEC=${KORCH_LIBEXEC:-$build/bin}
dir=$(mktemp -d "${TMPDIR:-/tmp}/korch-gpu-XXXXXX")
trap 'rm -rf "$dir"' EXIT INT TERM

say() { echo "$*" | tee -a "$figures"; }

# try NAME COMMAND...: its last lines are figures; a failure is counted.
try() {
	local name=$1 rc
	shift
	"$@" >"$dir/out" 2>&1
	rc=$?
	[ $rc = 0 ] || { failed=$((failed + 1)); say "$name: FAILED ($rc)"; tail -n 20 "$dir/out"; }
	grep -E '^(device|repeats|random graphs|/.*specs)' "$dir/out" | sed "s|^$dir/small/||; s|^|$name: |" | tee -a "$figures"
	return $rc
}

: >"$figures"
"$build/bin/bench-gpu" --device="$device" >"$dir/first" 2>&1
rc=$?
if [ $rc = 78 ]; then
	echo "SKIP gpu: $(tail -n 1 "$dir/first")"
	echo "0 passed, 0 failed, 1 skipped"
	exit 77
fi
[ $rc = 0 ] || { cat "$dir/first"; exit 1; }
say "$(head -n 1 "$dir/first"), $(date -u +%Y-%m-%d)"

tar -xJf "$here/models/small.tar.xz" -C "$dir"
try repeatability "$build/bin/bench-gpu" --device="$device" --repeat=20
try graphs "$build/bin/bench-gpu" --device="$device" --graphs="$graphs"
for precision in f32 tf32:0.004 f16:0.004 bf16:0.03; do
	try "small models, $precision" "$build/bin/bench-gpu" --device="$device" --precision="$precision" --step="$step" \
	    --effort=2 "$dir"/small/*/model.onnx
done

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -n "$sanitizer" ] && [ "${device#cuda:}" != "$device" ]; then
	for tool in memcheck racecheck; do
		try "$tool" "$sanitizer" --tool "$tool" --target-processes all --error-exitcode 9 "$build/bin/bench-gpu" \
		    --device="$device" --graphs=20
	done
else
	say "SKIP sanitizer: no compute-sanitizer, or no real device"
fi

# Whole models: tuned by a private daemon with the GPU's worker, then run.
for onnx in ${models:+"$models"/*/model.onnx}; do
	for precision in f32 tf32 f16; do
		name=$(basename "$(dirname "$onnx")") plan=$dir/plan.korch
		start=$SECONDS
		if ! "$build/bin/korch-submit" --device "${KORCH_GPU_CLASS:-cuda}" --precision "$precision" --budget "$budget" \
		    -q -o "$plan" "$onnx" >"$dir/out" 2>&1; then
			failed=$((failed + 1))
			say "$name $precision: FAILED: $(tail -n 1 "$dir/out")"
			continue
		fi
		say "$name $precision: tuned in $((SECONDS - start)) s: $(tail -n 1 "$dir/out")"
		say "$name $precision: $("$build/bin/korch-run" --json "$plan" 2>&1 | tail -n 1)"
	done
done
echo "figures are in $figures; $failed failed"
[ $failed = 0 ]
