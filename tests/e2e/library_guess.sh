#!/usr/bin/env bash
# A plan that nobody measured anything for calls a library where that has the kernel: its answers are right, a repeat
# gives the same file, the plan names the schedule that was built; none in a strict plan, nor where the worker offers no
# library.  label: e2e
. "$(dirname "$0")/env.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/yolov4_small small/efficientvit_small
cd "$tmp" || exit 1
calls() { korch-plan show "$1" | grep -c 'lib=onednn'; }
# plan DATA MODEL OUT OPTION...: with nothing measured
plan() {
	local data=$1 model=$2 out=$3
	shift 3
	must 0 '' korch-submit "small/$model/model.onnx" --budget 0 -o "$out" --data "$data" "$@"
	must 0 '^agrees: 1 data set' korch-run "$out" --check "small/$model" --quiet --trust "$data/sign.pub"
}
has_library=
ldd "$bin/korch-measure" | grep -q dnnl && has_library=1
n=0
# A kernel has a call where this machine's calibration expects it to win: about ten of YOLOv4's, few or none of the other's.
for model in yolov4_small efficientvit_small; do
	plan own $model $model.korch
	n=$((n + $(calls $model.korch)))
	plan own $model again.korch
	cmp -s $model.korch again.korch && ok || bad "$model: a repeat gives another plan"
done
if [ -n "$has_library" ]; then [ "$n" -gt 0 ]; else [ "$n" = 0 ]; fi && ok || bad "$n calls in the two plans"
# Several threads share a call's rows.
plan own yolov4_small two.korch --threads 2
plan own yolov4_small strict.korch --strict
[ "$(calls strict.korch)" = 0 ] && ok || bad "a strict plan calls a library"
KORCH_LIBRARIES=none plan bare yolov4_small bare.korch
[ "$(calls bare.korch)" = 0 ] && ok || bad "a worker without a library was asked for its calls"
[ -n "$has_library" ] || echo "SKIP e2e/library_guess: built without oneDNN (cmake -DKORCH_ONEDNN=ON): that calls are taken"
finish
