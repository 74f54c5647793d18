#!/bin/bash
# What can be done with a plan: korch-run with files in and out, profile and JSON; korch-plan's
# words; damage, newer formats and rebuilding.  label: e2e
. "$(dirname "$0")/env.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
case=$tmp/small/candy_small set=$tmp/small/candy_small/test_data_set_0 plan=$tmp/plan.korch

# hit FILE OFFSET BYTE
hit() { printf "\\$(printf %o "$3")" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; }

must 0 '"latency_ns"' korch-submit "$case/model.onnx" -o "$plan" --budget 0 --json
must 0 'sum of its kernels, [0-9]+ of them never measured and counted' korch-submit "$case/model.onnx" -o "$plan" --budget 0

must 0 '^agrees: 1 data set, 1 outputs' korch-run "$plan" --check "$case"
must 0 '^agrees' korch-run "$plan" --check "$set" --rel 1e-4
must 1 'elements differ' korch-run "$plan" --check "$set" --rtol 0 --atol 1e-30
must 0 '"median_ns":[0-9]+,"min_ns":[0-9]+,"cpu_ns":[0-9]+,"samples":3' korch-run "$plan" --repeat 3 --json
must 0 '"profile":\[\{"kernel"' korch-run "$plan" --repeat 3 --profile --json
must 0 'share +bound +MFLOP +KiB +GFLOP/s +heat +schedule +ONNX nodes' korch-run "$plan" --repeat 3 --profile
must 0 '^bound: the least that a kernel takes with its operands there' korch-run "$plan" --repeat 3 --profile
# show and profile: the same columns, the same hash for the same step; --top takes the longest, longest first.
korch-plan show "$plan" | sed -n '/^step/,$p' >"$tmp/shown"
korch-run "$plan" --repeat 3 --profile | sed -n '/^step/,$p' >"$tmp/profiled"
if [ "$(head -n 1 "$tmp/shown")" = "$(head -n 1 "$tmp/profiled")" ]; then ok; else bad "other columns: $(head -n 1 "$tmp/shown" "$tmp/profiled")"; fi
hashes() { awk '$1 ~ /^[0-9]+$/ && length($2) == 12 && $2 !~ /[^0-9a-f]/ {print $1, $2}' "$1"; }
if [ "$(hashes "$tmp/shown" | wc -l)" -gt 20 ] && [ "$(hashes "$tmp/shown")" = "$(hashes "$tmp/profiled")" ]; then ok; else bad "other hashes"; fi
korch-plan show "$plan" --top 3 | sed -n '/^step/,$p' >"$tmp/top"
if [ "$(hashes "$tmp/top" | wc -l)" = 3 ] && [ "$(awk '$1 ~ /^[0-9]+$/ && length($2) == 12 && $2 !~ /[^0-9a-f]/ {print $3 + 0}' "$tmp/shown" | sort -rn | head -n 3)" = \
	"$(awk '$1 ~ /^[0-9]+$/ && length($2) == 12 && $2 !~ /[^0-9a-f]/ {print $3 + 0}' "$tmp/top")" ]; then ok; else bad "show --top 3: $(cat "$tmp/top")"; fi
must 0 '[0-9]+ more, [0-9.]+% of the time' korch-run "$plan" --repeat 3 --top 2
if [ "$(korch-run "$plan" --repeat 3 --top 2 --json | grep -o '"recorded_ns"' | wc -l)" = 2 ]; then ok; else bad "--top 2 --json"; fi
must 2 'is 0 or more' korch-plan show "$plan" --top -1
# What the times and the bound are of stands beside them.
must 0 '^latency .* the sum of its kernels, each timed with its operands where the plan finds them \(heat\)$' korch-plan show "$plan"
must 0 '^bound .* of that sum \(not proved, gap .*\)$' korch-plan show "$plan"
must 0 'their recorded sum' korch-run "$plan" --repeat 3
must 0 'median .* runs' korch-run "$plan" --threads 3 --repeat 2
must 2 'threads -1: from 1 to 1024' korch-run "$plan" --threads -1
must 2 'from 0 to 8' korch-run "$plan" --streams 9
must 2 'from 0 to 8' korch-run "$plan" --streams -1
must 2 'from 0 to 1023' korch-run "$plan" --gpu -2
must 0 'median' korch-run "$plan" --gpu 3 --repeat 2 # a CPU's plan needs none
must 0 'median' korch-run "$plan" --streams 2 --repeat 2 # no streams on a CPU, and no word of them
if grep -q streams "$tmp/out"; then bad "streams on a CPU: $(cat "$tmp/out")"; else ok; fi

# The same input by file gives the reference's output, which then is an input's wrong shape.
must 0 'median' korch-run "$plan" --input "inputImage=$set/input_0.pb" --output-dir "$tmp/o" --repeat 1
if [ -s "$tmp/o/outputImage.npy" ]; then ok; else bad "no outputImage.npy"; fi
must 0 'median' korch-run "$plan" --input inputImage=random --seed 7 --repeat 1 --output-dir "$tmp/o1"
must 0 'median' korch-run "$plan" --seed 7 --repeat 1 --output-dir "$tmp/o2"
if cmp -s "$tmp/o1/outputImage.npy" "$tmp/o2/outputImage.npy"; then ok; else bad "equal seeds, other outputs"; fi
printf '\223NUMPY\1\0\067\0{"descr": "<f4", "fortran_order": False, "shape": ()} \n\0\0\0\0' >"$tmp/small.npy"
must 2 'is f32\[1,3,56,56\] and was given f32\[\]' korch-run "$plan" --input "inputImage=$tmp/small.npy"

must 0 'ONNX nodes' korch-plan show "$plan"
must 0 '"digest":"[0-9a-f]{64}"' korch-plan show --json "$plan"
must 0 'other candidates make its results' korch-plan explain "$plan"
must 0 '"steps":\[\{"step":0' korch-plan explain --json "$plan"
must 0 'digraph plan' korch-plan dot "$plan"
must 0 'kvec' korch-plan source "$plan"
must 0 '^verdict +holds' korch-plan verify "$plan"
must 0 '"holds":true' korch-plan verify --json "$plan"
must 0 'the search, repeated' korch-plan verify --resolve "$plan"

must 0 'kernels rebuilt' korch-plan rebuild -o "$tmp/again.korch" "$plan"
must 0 '^agrees' korch-run "$tmp/again.korch" --check "$case" --rel 1e-4
must 0 'holds' korch-plan verify "$tmp/again.korch"
KORCH_CC=$tmp/no-compiler must 78 'KORCH_CC' korch-plan rebuild -o "$tmp/none.korch" "$plan"
if [ -e "$tmp/none.korch" ]; then bad "a failed rebuild left a file"; else ok; fi

# One byte of a stored name, the format's version, the application's number.
cp "$plan" "$tmp/bad.korch"
hit "$tmp/bad.korch" "$(grep -abo outputImage "$plan" | head -n 1 | cut -d: -f1)" 88
must 1 'damaged' korch-run "$tmp/bad.korch"
must 1 'damaged' korch-plan verify "$tmp/bad.korch"
cp "$plan" "$tmp/bad.korch"
hit "$tmp/bad.korch" 63 77
must 1 'newer Korch' korch-run "$tmp/bad.korch"
cp "$plan" "$tmp/bad.korch"
hit "$tmp/bad.korch" 70 1
must 1 'is not a plan' korch-plan show "$tmp/bad.korch"
finish
