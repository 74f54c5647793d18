#!/bin/bash
# The two baselines, --fusion operator and --fusion none: Candy at its full size and small models; the plans
# verify, fewer fused kernels make more steps, and explain says that steps stand apart because it is a baseline.
# label: e2e
. "$(dirname "$0")/env.inc"
korchd_log=--log-level=info
. "$(dirname "$0")/farm.inc"
tar xJf tests/models/small.tar.xz -C "$tmp"
korch-make-model candy "$tmp/candy.onnx" >/dev/null 2>"$tmp/err" || bad "$(cat "$tmp/err")"

for model in "$tmp/candy.onnx" "$tmp"/small/{segformer_b0,efficientvit_b1}_small/model.onnx; do
	before=0
	for fusion in full operator none; do
		plan=$tmp/$fusion.korch
		if korch-submit "$model" $farm --device fake -q --fusion $fusion -o "$plan" >"$tmp/out" 2>"$tmp/err" && korch-plan verify -q "$plan"; then
			ok
		else
			bad "$model --fusion $fusion: $(cat "$tmp/err")"
			continue
		fi
		n=$(korch-plan show --json "$plan" | field chosen)
		if [ "$n" -gt "$before" ]; then ok; else bad "$model --fusion $fusion: $n kernels after $before"; fi
		before=$n
		korch-plan explain "$plan" >"$tmp/words" || bad "explain of $model --fusion $fusion"
		if [ "$(grep -c "baseline: --fusion $fusion" "$tmp/words")" -gt 0 ] || [ $fusion = full ]; then ok; else bad "$model --fusion $fusion without its reason"; fi
	done
done

# A plan that a baseline ended with takes part in the race of whole plans of a job with more freedoms, as it is; not the other
# way round.  Which of them comes second is by their times: who took part is in the daemon's log.  Sums are well below the
# 2 ms from which only plans of near sums take part.
model=$tmp/small/efficientvit_b1_small/model.onnx
for fusion in operator full; do
	from=$(wc -l <"$tmp/korchd.err")
	must 0 . korch-submit "$model" $farm --device fake -q --fusion $fusion --tolerance 2e-3 -o "$tmp/$fusion.korch"
	tail -n "+$((from + 1))" "$tmp/korchd.err" | grep "plans timed in turns" >"$tmp/raced.$fusion"
done
if grep -q "an earlier job with --fusion operator" "$tmp/raced.full"; then ok; else bad "raced: $(cat "$tmp/raced.full")"; fi
if [ -s "$tmp/raced.operator" ] && ! grep -q "an earlier job" "$tmp/raced.operator"; then ok; else bad "beside a baseline: $(cat "$tmp/raced.operator")"; fi
finish
