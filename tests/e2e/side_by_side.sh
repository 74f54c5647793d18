#!/bin/bash
# Tuning for two threads: independent small kernels side by side are candidates, one thread has none; plans
# say how many they were chosen among, and compute what the model does.  label: e2e
. "$(dirname "$0")/env.inc"
. "$(dirname "$0")/farm.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/yolox_nano_small
model=$tmp/small/yolox_nano_small

# pairs PLAN: how many its limits tell of
pairs() { korch-plan explain "$1" /pafpn/p3/conv/Conv | grep -oE '[0-9]+ pairs side by side' | cut -d' ' -f1; }
# check PLAN
check() { if korch-plan verify "$1" >"$tmp/out" 2>&1; then ok; else bad "does not verify: $(tail -n 2 "$tmp/out")"; fi; }

# By the fake device's times
for threads in 1 2; do
	korch-submit "$model/model.onnx" $farm --device fake -q --threads $threads --budget 100 -o "$tmp/p$threads" >/dev/null 2>"$tmp/err" ||
		bad "$threads threads: $(tail -n 1 "$tmp/err")"
	check "$tmp/p$threads"
done
one=$(pairs "$tmp/p1") two=$(pairs "$tmp/p2")
if [ "$one" = 0 ]; then ok; else bad "one thread has '$one' pairs"; fi
if [ "${two:-0}" -gt 20 ]; then ok; else bad "two threads have '$two' pairs"; fi

# By this host's, and what the plan computes
if korch-submit "$model/model.onnx" -o "$tmp/plan" -q --threads 2 --budget 8 --effort 1 >/dev/null 2>"$tmp/err"; then
	check "$tmp/plan"
	if korch-run "$tmp/plan" --check "$model" --rel 1e-3 >"$tmp/out" 2>&1; then ok; else
		bad "differs from its reference: $(tail -n 3 "$tmp/out")"
	fi
else
	bad "submit: $(tail -n 1 "$tmp/err")"
fi
finish
