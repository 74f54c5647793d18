#!/bin/bash
# korch-submit --forbid and --force: chosen again from the cache, nothing measured; the price is the
# difference of the plans' sums, and a plan without a chosen kernel is not cheaper.  label: e2e
. "$(dirname "$0")/env.inc"
. "$(dirname "$0")/farm.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
model=$tmp/small/candy_small/model.onnx base=$tmp/base.korch

# submit STATUS ARGUMENTS...: into $tmp/out and $tmp/err
submit() {
	local want=$1
	shift
	korch-submit "$model" $farm --device fake --json -q "$@" >"$tmp/out" 2>"$tmp/err"
	local got=$?
	if [ "$got" = "$want" ]; then ok; else bad "submit $*: exit $got, wanted $want: $(tail -n 1 "$tmp/err")"; fi
}
# says PATTERN: stderr of the last call
says() { if grep -qE "$1" "$tmp/err"; then ok; else bad "no '$1' in: $(cat "$tmp/err")"; fi; }
# specs PLAN: the hashes of its kernels, each once, in order of use
specs() { korch-plan show --json "$1" | grep -oE '"spec":"[0-9a-f]{64}"' | cut -d'"' -f4 | awk '!seen[$0]++'; }
has() { specs "$1" | grep -q "^$2"; }
latency() { korch-plan show --json "$1" | field latency_ns; }

submit 0 -o "$base" --budget 0
submit 4 --forbid "$(specs "$base" | head -n 1)"
says 'knows no plan of measured kernels'
submit 0 -o "$base" --budget 100
# What a price is counted from: the best plan by all that is stored, with what was still being timed when that job ended.
submit 0 --forbid "$(specs "$base" | head -n 1)"
base_ns=$(field without_conditions_ns <"$tmp/out")
if [ "$base_ns" -gt 0 ] && [ "$base_ns" -le "$(latency "$base")" ]; then ok; else
	bad "without conditions $base_ns ns, but the job found $(latency "$base")"
fi

# Each of three chosen kernels forbidden: the price alone, then the plan.
n_measured=$(korch-cache stats --json $farm | field measurements)
for spec in $(specs "$base" | sed -n '1p;4p;9p'); do
	rm -f "$tmp/price.korch"
	submit 0 --forbid "${spec:0:12}"
	if [ "$(field measured <"$tmp/out")" = 0 ]; then ok; else bad "--forbid measured something"; fi
	price=$(field price_ns <"$tmp/out")
	if [ "$price" -ge 0 ]; then ok; else bad "without $spec the plan costs $price ns less"; fi
	submit 0 --forbid "${spec:0:12}" -o "$tmp/price.korch"
	if [ "$price" = "$(field price_ns <"$tmp/out")" ]; then ok; else bad "with -o another price"; fi
	if has "$tmp/price.korch" "$spec"; then bad "a plan without $spec holds it"; else ok; fi
	if [ $(($(latency "$tmp/price.korch") - base_ns)) = "$price" ]; then ok; else
		bad "price $price ns, but $(latency "$tmp/price.korch") - $base_ns"
	fi
	if korch-plan verify "$tmp/price.korch" >"$tmp/out" 2>&1; then ok; else bad "$(cat "$tmp/out")"; fi
done

# A loser forced: measured, and in no chosen place.
lost=
for spec in $(korch-cache list --json $farm | grep -oE '"spec":"[0-9a-f]{64}"' | cut -d'"' -f4 | sort -u); do
	has "$base" "$spec" && continue
	korch-submit "$model" $farm --device fake --json -q --force "$spec" >"$tmp/out" 2>"$tmp/err" || continue
	lost="$lost $spec"
	price=$(field price_ns <"$tmp/out")
	[ "$(wc -w <<<"$lost")" = 6 ] && break
done
if [ -n "$lost" ]; then ok; else bad "no measured kernel outside the plan could be forced: $(cat "$tmp/err")"; fi
submit 0 --force "${spec:0:16}" -o "$tmp/forced.korch"
if has "$tmp/forced.korch" "$spec"; then ok; else bad "$spec was forced and is not in the plan"; fi
if [ $(($(latency "$tmp/forced.korch") - base_ns)) = "$price" ] && [ "$price" -ge 0 ]; then ok; else
	bad "forced $spec: price $price ns, but $(latency "$tmp/forced.korch") - $base_ns"
fi
if korch-plan verify "$tmp/forced.korch" >"$tmp/out" 2>&1; then ok; else bad "$(cat "$tmp/out")"; fi

# What cannot be: two that exclude each other, both at once, no such name, too short a name.
found=
for a in $lost; do
	for b in $lost $(specs "$base"); do
		[ "$a" = "$b" ] && continue
		korch-submit "$model" $farm --device fake -q --force "$a" --force "$b" >/dev/null 2>"$tmp/err"
		[ $? = 2 ] && grep -q 'exclude each other' "$tmp/err" && found=yes && break 2
	done
done
if [ -n "$found" ]; then ok; else bad "no two forced kernels exclude each other: $lost"; fi
submit 2 --force "$spec" --forbid "${spec:0:8}"
says 'cannot be both forced and forbidden'
submit 2 --forbid 01234567890abcdef
says "none of this model's [0-9]+ kernels has a hash that begins so; korch-plan show and explain"
submit 2 --force abc
says 'wanted the first 4 to 64 digits'
submit 2 --force xyz?
says 'none of this model'
if [ "$n_measured" = "$(korch-cache stats --json $farm | field measurements)" ]; then ok; else bad "what-if measured something"; fi

# Of a model of which little is measured, the measured kernels are soon no plan any more: others stand at what is expected
# of them, in the price and in a plan that is checked as any other.
tar xJf tests/models/small.tar.xz -C "$tmp" small/yolov4_small
model=$tmp/small/yolov4_small/model.onnx
submit 0 -o "$tmp/few.korch" --budget 10
n_measured=$(korch-cache stats --json $farm | field measurements)
without=()
for spec in $(specs "$tmp/few.korch"); do
	without+=(--forbid "${spec:0:16}")
	korch-submit "$model" $farm --device fake --json -q "${without[@]}" >"$tmp/out" 2>"$tmp/err" || break
	[ "$(field guessed <"$tmp/out")" != 0 ] && break
done
if [ "$(field guessed <"$tmp/out")" -gt 0 ]; then ok; else bad "no unmeasured kernel took a place: $(cat "$tmp/err")"; fi
if [ "$(field latency_ns <"$tmp/out")" -gt "$(field bound_ns <"$tmp/out")" ]; then ok; else bad "$(cat "$tmp/out")"; fi
submit 0 "${without[@]}" -o "$tmp/guessed.korch"
if korch-plan verify "$tmp/guessed.korch" >"$tmp/out" 2>&1; then ok; else bad "$(cat "$tmp/out")"; fi
if [ "$n_measured" = "$(korch-cache stats --json $farm | field measurements)" ]; then ok; else bad "that measured something"; fi
finish
