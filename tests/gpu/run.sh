#!/bin/bash
# tests/gpu/run.sh BUILD [MODELS]: all that needs a GPU.  MODELS: a folder NAME/model.onnx of full-size models,
# tuned for KORCH_GPU_BUDGET seconds each (default 600).  KORCH_GPU: the device, "cuda:0" unless said otherwise.
# KORCH_GPU_STEP=N takes every N-th spec of the small models (default 1), KORCH_GPU_GRAPHS=N random graphs (default
# 500).  The bundle is built, and its korch-measure is the one that measures.  One line a figure, kept in
# BUILD/gpu-figures.txt.
set -u
build=${1:?tests/gpu/run.sh BUILD [MODELS]} models=${2:-}
device=${KORCH_GPU:-cuda:0} step=${KORCH_GPU_STEP:-1} graphs=${KORCH_GPU_GRAPHS:-500} budget=${KORCH_GPU_BUDGET:-600}
here=$(cd "$(dirname "$0")/.." && pwd)
figures=$build/gpu-figures.txt
failed=0
unset KORCH_GPU # for the programs it is the setting --gpu, a number
export KORCH_LIBEXEC=${KORCH_LIBEXEC:-$build/bin}
dir=$(mktemp -d "${TMPDIR:-/tmp}/korch-gpu-XXXXXX")
trap 'rm -rf "$dir"' EXIT INT TERM

say() { echo "$*" | tee -a "$figures"; }

# try NAME COMMAND...: its last lines are figures; a failure is counted.
try() {
	local name=$1 rc
	shift
	KORCH_LIBEXEC=$children "$@" >"$dir/out" 2>&1
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

# The bundle's measuring child does the work, where it can be built.
children=$KORCH_LIBEXEC
KORCH_BUNDLE_GLIBC=${KORCH_BUNDLE_GLIBC:-2.34} "$here/../deploy/bundle.sh" "$build" "$dir/bundle" >"$dir/out" 2>&1
case $? in
0) children=$dir/bundle; say "bundle: $(grep '^for hosts' "$dir/out")" ;;
78) say "SKIP bundle: $(tail -n 1 "$dir/out")" ;;
*) failed=$((failed + 1)); say "bundle: FAILED: $(tail -n 1 "$dir/out")" ;;
esac

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
		if ! "$build/bin/korch-submit" --data "$dir/data" --device "$device" --precision "$precision" \
		    --budget "$budget" -q -o "$plan" "$onnx" >"$dir/out" 2>&1; then
			failed=$((failed + 1))
			say "$name $precision: FAILED: $(tail -n 1 "$dir/out")"
			continue
		fi
		say "$name $precision: tuned in $((SECONDS - start)) s: $(tail -n 1 "$dir/out")"
		if [ "${device#cuda:}" = "$device" ]; then
			say "SKIP $name $precision: not run: no real device"
		elif "$build/bin/korch-run" --json --gpu "${device#cuda:}" "$plan" >"$dir/out" 2>&1; then
			say "$name $precision: $(tail -n 1 "$dir/out")"
		else
			failed=$((failed + 1))
			say "$name $precision: FAILED: $(tail -n 1 "$dir/out")"
		fi
	done
done
echo "figures are in $figures; $failed failed"
[ $failed = 0 ]
