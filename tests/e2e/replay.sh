#!/bin/bash
# A planner that dies (killed at its n-th message, out of memory) leaves a folder that one command runs again: it dies at
# the same place, or, without the cause, does what was recorded up to there; a whole run is the same to the end. The
# number of folders is bounded.  label: e2e
. "$(dirname "$0")/env.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small small/yolov4_small
model=$tmp/small/candy_small/model.onnx

# submit SEAM KORCHD-ARGS...: a daemon of its own with that KORCH_KILL_AT; what korch-submit says is in $tmp/out
submit() {
	local seam=$1
	shift
	rm -f "$tmp/ready"
	mkfifo "$tmp/ready"
	KORCH_KILL_AT=$seam korchd --data "$tmp/d" --listen "ipc://$tmp/s" -q --ready-fd 3 "$@" 3>"$tmp/ready" 2>"$tmp/korchd.err" &
	daemon=$!
	read -r _ <"$tmp/ready"
	korch-worker --daemon "ipc://$tmp/s" --device fake:seed=1 -q 2>"$tmp/worker.err" &
	worker=$!
	korch-submit --daemon "ipc://$tmp/s" --device fake "$model" -o "$tmp/plan" --budget 20 -q >"$tmp/out" 2>&1
	status=$?
	kill $worker $daemon
	wait $worker $daemon
}
# replays SEAM STATUS PATTERN: of the folder that $tmp/out names
replays() {
	command=$(grep -o 'korch-planner --replay [^ ]*' "$tmp/out")
	KORCH_KILL_AT=$1 $command >"$tmp/said" 2>&1
	local got=$?
	if [ "$got" = "$2" ] && grep -qE "$3" "$tmp/said"; then ok; else bad "$command: exit $got, wanted $2: $(tail -n 2 "$tmp/said")"; fi
}

# Killed at a seam; aborted at another; each is died again, and without the cause the tape ends as it did then.
for seam in planner.heard:2 planner.heard:5:6 planner.heard:9:11; do
	signal=${seam##*:}
	[ "$signal" != "${seam#*:}" ] || signal=9
	submit $seam
	if [ $status = 1 ] && grep -q "ended by signal $signal " "$tmp/out"; then ok; else bad "$seam: exit $status: $(cat "$tmp/out")"; fi
	replays $seam $((128 + signal)) 'runs job [0-9]* \(model.onnx\) again'
	replays '' 1 'as recorded'
	if grep -q 'not as recorded' "$tmp/said"; then bad "$seam: $(cat "$tmp/said")"; else ok; fi
done
dir=${command##* }
for part in how.txt work/korch-tape model/model.onnx; do
	if [ -s "$dir/$part" ]; then ok; else bad "$dir has no $part"; fi
done
if grep -q '^environment device=fake' "$dir/how.txt" && grep -q '"budget_ns":20000000000' "$dir/how.txt"; then ok; else bad "how.txt: $(cat "$dir/how.txt")"; fi

# Stages of a replayed run.
if korch-planner --replay "$dir" --dump fission,specs --dump-dir "$tmp/stages" >"$tmp/said" 2>&1; then bad "a replay of a dead planner ended well"; fi
if [ -s "$tmp/stages/fission.txt" ] && [ -s "$tmp/stages/specs.txt" ]; then ok; else bad "no stages: $(cat "$tmp/said")"; fi

# Out of memory, then and now.  The sanitizers' shadow memory needs all of the address space.
if ! grep -aq __asan_init "$bin/korchd"; then
	model=$tmp/small/yolov4_small/model.onnx
	submit '' --planner-memory 120
	if [ $status = 1 ] && grep -q 'out of memory' "$tmp/out"; then ok; else bad "out of memory: exit $status: $(cat "$tmp/out")"; fi
	replays '' 134 'out of memory'
	model=$tmp/small/candy_small/model.onnx
fi

# At most eight are kept, the newest.
for job in 90 91 92 93 94 95 96 97 98; do mkdir -p "$tmp/d/failed/$((job - 90 + 1000))"; done
submit planner.heard:1
if [ "$(ls "$tmp/d/failed" | wc -l)" = 8 ]; then ok; else bad "kept: $(ls "$tmp/d/failed" | tr '\n' ' ')"; fi

# And 1 GiB of them in all: from the one on that is over it, the older ones go.
truncate -s 2G "$tmp/d/failed/1006/big"
submit planner.heard:1
if [ "$(ls "$tmp/d/failed" | tr '\n' ' ')" = '1007 1008 ' ]; then ok; else bad "kept by size: $(ls "$tmp/d/failed" | tr '\n' ' ')"; fi

# What is no such folder.
korch-planner --replay "$tmp" >"$tmp/said" 2>&1
if [ $? = 1 ] && grep -q 'korch-tape: cannot open' "$tmp/said"; then ok; else bad "no tape: $(cat "$tmp/said")"; fi
mkdir -p "$tmp/none/work" && echo noise >"$tmp/none/work/korch-tape"
korch-planner --replay "$tmp/none" >"$tmp/said" 2>&1
if [ $? = 1 ] && grep -q "is no planner's tape" "$tmp/said"; then ok; else bad "noise for a tape: $(cat "$tmp/said")"; fi
korch-planner --dump fission >"$tmp/said" 2>&1
if [ $? = 2 ] && grep -q 'replay DIR runs one again' "$tmp/said"; then ok; else bad "without --replay: $(cat "$tmp/said")"; fi
finish
