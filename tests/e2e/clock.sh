#!/bin/bash
# Whole plans that run at another clock than calibration's: the time is what the user sees now, what it is off the sum and
# what is learned from it are of one clock; where nobody knows the clock nothing is said of it.  label: e2e
. "$(dirname "$0")/env.inc"
fake_device=fake:seed=1,clock=80
. "$(dirname "$0")/farm.inc"
tar xJf tests/models/small.tar.xz -C "$tmp"

# submit NAME OPTIONS...: the small model of that name, its words into $tmp/NAME.words
submit() {
	korch-submit "$tmp/small/${1}_small/model.onnx" $farm --device fake -o "$tmp/$1.korch" --budget 100 "${@:2}" \
	    >"$tmp/$1.words" 2>&1 || bad "submit $1: $(tail -n 2 "$tmp/$1.words")"
}
# says NAME PATTERN, lacks NAME PATTERN: the words of that model's job
says() { if grep -qE "$2" "$tmp/$1.words"; then ok; else bad "$1: no '$2' in: $(cat "$tmp/$1.words")"; fi; }
lacks() { if grep -qE "$2" "$tmp/$1.words"; then bad "$1: '$2' in: $(grep -E "$2" "$tmp/$1.words")"; else ok; fi; }
# of NAME FIELD: of the plan; its kernels, further on, have fields of that name too
of() { korch-plan show --json "$tmp/$1.korch" | grep -oE "\"$2\":[0-9.]+" | head -n 1 | cut -d: -f2; }
# between LOW A B HIGH: LOW per cent <= A / B <= HIGH per cent
between() {
	if [ $((100 * $2)) -ge $(($1 * $3)) ] && [ $((100 * $2)) -le $(($4 * $3)) ]; then ok; else bad "$2 over $3 is not in $1 to $4 %"; fi
}

# A fake plan takes 98 % of its sum at calibration's clock, so 122 % of it at this one.
time='[0-9.]+ (ns|us|ms)'
submit candy
says candy "measured $time \\($time at calibration's clock\\)"
lacks candy 'off the sum'
between 120 "$(of candy measured_ns)" "$(of candy latency_ns)" 125
must 0 '"clock_ratio":0.8[,}]' korch-plan show --json "$tmp/candy.korch"
must 0 '"clock_ratio":0.8[,}]' korch-plan explain --json "$tmp/candy.korch"
must 0 "^measured +$time \\($time at calibration's clock\\), the whole plan" korch-plan show "$tmp/candy.korch"

# The next model's plan is expected to take what its kernels do, less those 2 %.
submit yolox_nano
if [ "$(of yolox_nano expected_of)" -gt 0 ]; then ok; else bad "nothing was learned from the first plan"; fi
between 95 "$(of yolox_nano expected_ns)" "$(of yolox_nano latency_ns)" 100

# The same again says the same, from what is stored.
submit candy
says candy "measured $time \\($time at calibration's clock\\)"

# A session that does not know its clock.
kill $worker_pid
wait $worker_pid
korch-worker --daemon "ipc://$tmp/s" --device fake:seed=1 -q 2>"$tmp/worker.err" &
worker_pid=$!
submit efficientvit_b1
says efficientvit_b1 "measured $time"
lacks efficientvit_b1 "calibration's clock"
must 0 '"clock_ratio":0[,}]' korch-plan show --json "$tmp/efficientvit_b1.korch"
between 95 "$(of efficientvit_b1 measured_ns)" "$(of efficientvit_b1 latency_ns)" 100
finish
