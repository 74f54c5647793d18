#!/bin/bash
# The number of threads where none is named: the cores that the process may use, for tuning and for running; on a named
# daemon the device's. A plan that runs on another number than it was tuned for says so, and computes the same.  label: e2e
. "$(dirname "$0")/env.inc"
. "$(dirname "$0")/farm.inc"
unset KORCH_THREADS
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
case=$tmp/small/candy_small model=$tmp/small/candy_small/model.onnx
first=$(taskset -pc $$ | sed 's/.*: \([0-9]*\).*/\1/') # a core that we may use

tuned() { korch-plan show --json "$1" | field threads; }
# submit PLAN OPTION...
submit() {
	local plan=$1
	shift
	if "${bound[@]}" korch-submit "$model" -o "$plan" --budget 0 -q "$@" >/dev/null 2>"$tmp/err"; then ok; else bad "$*: $(tail -n 1 "$tmp/err")"; fi
}
same() { if [ "$1" = "$2" ]; then ok; else bad "$3: '$1', not '$2'"; fi; }

bound=()
submit "$tmp/all"
all=$(tuned "$tmp/all")
if [ "${all:-0}" -ge 1 ] && [ "$all" -le "$(nproc)" ]; then ok; else bad "the default is '$all' of $(nproc)"; fi
bound=(taskset -c "$first")
submit "$tmp/one"
same "$(tuned "$tmp/one")" 1 "bound to one core"
submit "$tmp/two" --threads 2
same "$(tuned "$tmp/two")" 2 "two are asked for"
"${bound[@]}" korch-submit "$model" -o "$tmp/two" --budget 0 --threads 2 >/dev/null 2>"$tmp/err"
if grep -q 'this process may use 1 core, so threads take turns' "$tmp/err"; then ok; else bad "two on one core: $(cat "$tmp/err")"; fi
bound=()
submit "$tmp/farm" $farm --device fake
same "$(tuned "$tmp/farm")" 1 "the fake device has one core"
submit "$tmp/farm2" $farm --device fake --threads 2
same "$(tuned "$tmp/farm2")" 2 "two on a farm"

# runs WORDS PATTERN COMMAND...: what is said of threads; "": nothing
runs() {
	local pattern=$1
	shift
	"$@" --repeat 1 --seed 3 --output-dir "$tmp/o" >"$tmp/out" 2>"$tmp/err" || bad "$*: $(tail -n 1 "$tmp/err")"
	if [ -n "$pattern" ] && grep -qE "$pattern" "$tmp/err"; then ok
	elif [ -z "$pattern" ] && ! grep -q tuned "$tmp/err"; then ok
	else bad "$*: $(cat "$tmp/err")"; fi
	cp "$tmp/o/outputImage.npy" "$tmp/now.npy"
	[ -e "$tmp/first.npy" ] || cp "$tmp/now.npy" "$tmp/first.npy"
	if cmp -s "$tmp/first.npy" "$tmp/now.npy"; then ok; else bad "$*: another result"; fi
}
runs "" korch-run "$tmp/one" --threads 1
runs 'tuned for 1 thread and run on 3; --threads 1 runs it as it was tuned' korch-run "$tmp/one" --threads 3
runs "" korch-run "$tmp/one" --threads 3 --quiet
runs "" taskset -c "$first" korch-run "$tmp/one"
if [ "$all" -gt 1 ]; then runs "tuned for 1 thread and run on $all" korch-run "$tmp/one"; else runs "" korch-run "$tmp/one"; fi
for p in /proc/[0-9]*; do # the private daemon leaves only 10 s after its last client
	case $({ tr '\0' ' ' <"$p/cmdline"; } 2>/dev/null) in *korchd*"$tmp/data"*) kill "${p#/proc/}" ;; esac
done
finish
