#!/bin/bash
# korch-plan explain is true: nodes picked at random in the five small models, margins against the cache,
# bounds against the plan's program, every neighbour of the ONNX file; korch-plan dot is a graph of all
# kernels.  The device is fake and some kernels fail on it.  label: e2e
# KORCH_SEED picks other nodes.
. "$(dirname "$0")/env.inc"
fake_device=fake:seed=3,wrong=500000
. "$(dirname "$0")/farm.inc"
if ! command -v python3 >/dev/null; then
	echo "SKIP no python3"
	exit 77
fi
tar xJf tests/models/small.tar.xz -C "$tmp"
seed=${KORCH_SEED:-1}

# submit MODEL PLAN OPTIONS...
submit() { korch-submit "$1" $farm --device fake -q -o "$2" "${@:3}" >"$tmp/out" 2>"$tmp/err" || bad "submit $1: $(cat "$tmp/err")"; }
for name in candy segformer_b0 efficientvit_b1 yolov4 yolox_nano; do
	model=$tmp/small/${name}_small/model.onnx plan=$tmp/$name.korch
	prove=
	[ "$name" = candy ] && prove=--prove # bounds rule out what is left
	submit "$model" "$plan" --budget 100 $prove
	submit "$model" "$plan" --budget 0 $prove # what came in late is in the cache: now plan and cache say the same
	if python3 tests/e2e/explain_check.py "$bin" "$model" "$plan" "$data/korch.db" 10 "$seed" >"$tmp/out" 2>&1; then
		ok
	else
		bad "$name: $(cat "$tmp/out")"
	fi
	if korch-plan explain "$plan" >"$tmp/words" && [ "$(grep -c '^step ' "$tmp/words")" = "$(korch-plan show --json "$plan" | field chosen)" ]; then
		ok
	else
		bad "$name: explain does not tell of every step"
	fi
done

# What the five together must have met, so that no kind of reason goes untested.
for name in candy segformer_b0 efficientvit_b1 yolov4 yolox_nano; do korch-plan explain --json "$tmp/$name.korch"; done >"$tmp/all"
for why in '"why":"slower"' '"why":"open"' '"ruled_out":true' '"failed":{' '"why":"infeasible"'; do
	if grep -q "$why" "$tmp/all"; then ok; else bad "no neighbours are apart by $why"; fi
done

# By kernel, in words, and what is not there.
plan=$tmp/candy.korch
spec=$(korch-plan show --json "$plan" | grep -oE '"spec":"[0-9a-f]{64}"' | sed -n 2p | cut -d'"' -f4)
if korch-plan explain "$plan" "${spec:0:8}" | grep -q "^step 1: kernel ${spec:0:12} .* us +- "; then ok; else bad "explain by a kernel's hash"; fi
if korch-plan explain "$plan" /conv1/Relu | grep -q '^/conv1/Relu (Relu): computed'; then ok; else bad "explain by a node"; fi
korch-plan explain "$plan" Relu >"$tmp/out" 2>"$tmp/err"
if [ $? = 2 ] && grep -q 'is no node of this model .* like it: /conv1/Relu' "$tmp/err"; then ok; else bad "an unknown node: $(cat "$tmp/err")"; fi
# Each pair of steps is said once, in words and as JSON; the error is a median's, far below the spread.
n=$(python3 -c 'import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM apart WHERE of_steps").fetchone()[0])' "$plan")
if [ "$n" -gt 5 ] && [ "$(korch-plan explain "$plan" | grep -c 'not one kernel with step')" = "$n" ] &&
	[ "$(korch-plan explain --json "$plan" | grep -oE '"side":"(maker|reader)"' | wc -l)" = "$n" ]; then ok; else bad "pairs are not said once: $n"; fi
korch-plan explain "$plan" one two >"$tmp/out" 2>"$tmp/err"
if [ $? = 2 ]; then ok; else bad "two nodes are one too many"; fi

# The picture: a cluster a kernel; --steps cuts it; Graphviz reads it where it is installed.
n=$(korch-plan show --json "$plan" | field chosen)
if [ "$(korch-plan dot "$plan" | grep -c 'subgraph cluster')" = "$n" ]; then ok; else bad "dot has other clusters than kernels"; fi
if [ "$(korch-plan dot "$plan" --steps 3 | grep -c 'subgraph cluster')" = 3 ]; then ok; else bad "dot --steps 3"; fi
if ! command -v dot >/dev/null || korch-plan dot "$plan" | dot -Tsvg >"$tmp/svg" 2>"$tmp/err"; then ok; else bad "Graphviz: $(cat "$tmp/err")"; fi

# A plan says so when it was made under a condition.
model=$tmp/small/candy_small/model.onnx
korch-submit "$model" $farm --device fake -q --forbid "$spec" -o "$tmp/what_if.korch" >/dev/null 2>"$tmp/err" || bad "$(cat "$tmp/err")"
if korch-plan show "$tmp/what_if.korch" | grep -q "^what if .*without ${spec:0:12}: +"; then ok; else bad "show does not name the condition"; fi
if korch-plan explain "$tmp/what_if.korch" | grep -q "^this plan was made under a condition: without ${spec:0:12}"; then ok; else
	bad "explain does not name the condition"
fi
finish
