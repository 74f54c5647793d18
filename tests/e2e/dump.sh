#!/bin/bash
# --dump: every stage of a job is there as text, and the pass of korch-opt that each file names reads it and prints
# what the next stage is; of a job that fails, the stages before its end.  label: e2e
. "$(dirname "$0")/env.inc"
. "$(dirname "$0")/farm.inc"
tar xJf tests/models/small.tar.xz -C "$tmp"
stages=$(sed -n 's/^	X(\([a-z]*\), "\([^"]*\)".*/\1=\2/p' kernels/base/stage.h)
[ "$(wc -w <<<"$stages")" -ge 11 ] || bad "no stages found in kernels/base/stage.h"
file_of() { sed -n "s/^$1=//p" <<<"$stages"; }
# what stages are compared by: no comments, and not the seeds of weights, which folding changes
plain() { grep -v '^#' "$1" | sed -E 's/ ~[0-9a-f]{16}//'; }

# reads_all DIR: each file by its own command
reads_all() {
	local stage file line command makes
	for stage in $stages; do
		file=${stage#*=} stage=${stage%%=*}
		if [ "${file%/}" != "$file" ]; then # golden files
			if tests/golden/run "$bin" "$1/$file" >"$tmp/said" 2>&1; then ok; else bad "$1/$file: $(tail -n 3 "$tmp/said")"; fi
			continue
		fi
		line=$(grep -m 1 '^# korch-opt ' "$1/$file")
		command=$(sed -E 's/^# //; s/ # .*//' <<<"$line")
		makes=$(sed -nE 's/.* # prints the next stage: //p' <<<"$line")
		if (cd "$1" && eval "$command") >"$tmp/have" 2>"$tmp/said"; then ok; else
			bad "$1: $command: $(cat "$tmp/said")"
			continue
		fi
		[ -n "$makes" ] || continue
		if diff <(plain "$tmp/have") <(plain "$1/$(file_of "$makes")") >"$tmp/diff"; then ok; else
			bad "$1: '$command' is not stage $makes: $(head -n 4 "$tmp/diff")"
		fi
	done
}

for model in candy_small segformer_b0_small yolox_nano_small; do
	onnx=$tmp/small/$model/model.onnx
	if korch-submit $farm --device fake "$onnx" -o "$tmp/plan" --budget 0 -q --dump all --dump-dir "$tmp/$model" >"$tmp/out" 2>&1; then ok; else
		bad "$model: $(tail -n 1 "$tmp/out")"
		continue
	fi
	reads_all "$tmp/$model"
done

# Two of them, in the default folder; a repeat, whose plan is known, writes the same.
cd "$tmp" || exit
cp small/candy_small/model.onnx two.onnx
for turn in 1 2; do
	if korch-submit $farm --device fake two.onnx -o plan --budget 0 -q --dump fission,choice >out 2>&1 &&
		[ "$(ls two.dump | tr '\n' ' ')" = 'choice.txt fission.txt ' ]; then ok; else bad "turn $turn: $(tail -n 1 out) $(ls two.dump)"; fi
	mv two.dump "turn$turn"
done
if diff -r turn1 turn2 >out; then ok; else bad "a repeat dumps otherwise: $(head -n 3 out)"; fi
cd - >/dev/null || exit

# Side by side, one kernel a primitive, strict: other arguments of the passes.
for how in '--threads 2' '--fusion none' '--fusion operator' '--strict --rewrites off'; do
	# shellcheck disable=SC2086
	if korch-submit $farm --device fake "$tmp/two.onnx" -o "$tmp/plan" --budget 0 -q --dump all --dump-dir "$tmp/how" $how >"$tmp/out" 2>&1; then ok; else
		bad "$how: $(tail -n 1 "$tmp/out")"
	fi
	reads_all "$tmp/how"
	rm -rf "$tmp/how"
done

# A stage that is none; a job that fails, of whose model the text is there.
korch-submit $farm --device fake "$tmp/two.onnx" -o "$tmp/plan" --dump fision >"$tmp/out" 2>&1
if [ $? = 2 ] && grep -q 'fision: it is some of all, model, fission' "$tmp/out"; then ok; else bad "a stage that is none: $(cat "$tmp/out")"; fi
korch-submit $farm --device fake "$tmp/two.onnx" -o "$tmp/plan" --budget 0 -q --dump all --dump-dir "$tmp/failed" --forbid 1234567890 >"$tmp/out" 2>&1
if [ $? = 2 ] && [ -s "$tmp/failed/rewrite.txt" ] && [ ! -e "$tmp/failed/plan.txt" ]; then ok; else bad "a failed job: $(tail -n 1 "$tmp/out") $(ls "$tmp/failed")"; fi
finish
