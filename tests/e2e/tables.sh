#!/bin/bash
# A model of many tables, which specs hold by value: what the planner asks of the store is more than a message may hold, and goes in
# several.  label: e2e
. "$(dirname "$0")/env.inc"
. "$(dirname "$0")/farm.inc"
python3 - "$(dirname "$0")" "$tmp/tables.onnx" <<'PY' || bad "no model"
import random
import sys

sys.path.insert(0, sys.argv[1])
from onnx_write import F32, I64, graph, model, node, tensor, value

random.seed(1)
nodes, tables, last = [], [], "x"
for i in range(30):
    tables.append(tensor(f"t{i}", I64, [64, 64], [random.randrange(-99999, 99999) for _ in range(4096)]))
    nodes += [node("Cast", [f"t{i}"], [f"f{i}"], to=1), node("Mul", [last, f"f{i}"], [f"m{i}"]),
              node("ReduceMax", [f"m{i}"], [f"r{i}"], keepdims=1), node("Sub", [f"m{i}", f"r{i}"], [f"s{i}"])]
    last = f"s{i}"
with open(sys.argv[2], "wb") as f:
    f.write(model(graph(nodes, [value(last, F32, [64, 64])], [value("x", F32, [64, 64])], tables)))
PY
must 0 '' korch-submit "$tmp/tables.onnx" $farm --device fake --budget 0 -o "$tmp/p.korch"
must 0 '120 operators' korch-plan show "$tmp/p.korch"
finish
