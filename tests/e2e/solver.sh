#!/bin/bash
# --solver: lp_solve and Clp choose plans of equal cost, each proved, over the same measurements; the certificate of both
# holds, and the search, repeated, finds nothing better than what lp_solve chose.
# label: e2e
. "$(dirname "$0")/env.inc"
. "$(dirname "$0")/farm.inc"
tar xJf tests/models/small.tar.xz -C "$tmp"

for name in efficientvit_small yolox_nano_small; do
	model=$tmp/small/$name/model.onnx
	for solver in clp lp_solve clp; do # the third time over what both asked for
		must 0 . korch-submit "$model" $farm --device fake -q --prove --budget 600 --solver $solver --json -o "$tmp/$solver.korch"
		field latency_ns <"$tmp/out" >"$tmp/$solver.ns"
		must 0 'resolve +the search, repeated, finds nothing below' korch-plan verify --resolve "$tmp/$solver.korch"
		if [ "$(korch-plan show --json "$tmp/$solver.korch" | field proved)" = true ]; then ok; else bad "$name by $solver: not proved"; fi
	done
	if [ -s "$tmp/clp.ns" ] && cmp -s "$tmp/clp.ns" "$tmp/lp_solve.ns"; then ok; else
		bad "$name: $(cat "$tmp/clp.ns") ns by Clp, $(cat "$tmp/lp_solve.ns") ns by lp_solve"
	fi
done
must 2 'clp or lp_solve' korch-submit "$model" $farm --device fake --solver cplex -o "$tmp/p.korch"
finish
