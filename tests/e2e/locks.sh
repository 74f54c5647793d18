#!/bin/bash
# Another process holds the lock of measuring: the worker's log and korch-jobs say who, a second SIGTERM ends the
# wait, a time limit does; a folder that is not the user's alone is refused, and nothing is measured.  label: e2e
. "$(dirname "$0")/env.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
model=$tmp/small/candy_small/model.onnx
unset KORCH_LOCK_DIR KORCH_LOCK_TIMEOUT
export XDG_RUNTIME_DIR=$tmp/run
mkdir -m 0700 "$tmp/run"
lock=$tmp/run/korch/cpu.lock
pids=
trap 'kill $pids 2>/dev/null; wait; rm -rf "$tmp"' EXIT


# hold: a strange process has the lock
hold() {
	flock -F "$lock" sh -c 'echo >"$1"; exec sleep 1000000' - "$tmp/held" &
	holder=$!
	pids="$pids $holder"
	read -r _ <"$tmp/held"
}

# let_go
let_go() {
	kill $holder
	wait $holder
}

mkfifo "$tmp/ready" "$tmp/up" "$tmp/held"
korchd --data "$tmp/daemon" --listen "ipc://$tmp/s" -q --ready-fd 3 3>"$tmp/ready" 2>"$tmp/korchd.err" &
pids=$!
read -r _ <"$tmp/ready"
korch-worker --daemon "ipc://$tmp/s" --data "$tmp/frozen" --name one --ready-fd 3 3>"$tmp/up" 2>"$tmp/worker.err" &
worker=$!
pids="$pids $worker"
read -r _ <"$tmp/up"
if [ "$(stat -c %a "$tmp/run/korch")/$(stat -c %a "$lock")" = 700/600 ]; then ok; else bad "modes $(ls -la "$tmp/run/korch")"; fi

hold
korch-submit "$model" -d --threads 1 --budget 60 --daemon "ipc://$tmp/s" >"$tmp/out" 2>"$tmp/err" || bad "$(cat "$tmp/err")"
wait_line 'lock.waits lock=cpu.lock' "$tmp/worker.err" $worker
until korch-jobs workers --daemon "ipc://$tmp/s" >"$tmp/workers" && grep -q "waiting.*waits for cpu.lock, held by pid $holder (.*, s[a-z]*)" "$tmp/workers"; do
	kill -0 $worker || { bad "the worker has ended"; break; }
done
ok
korch-jobs list --daemon "ipc://$tmp/s" >"$tmp/list"
if grep -q "planning.*one waits for cpu.lock, held by pid $holder" "$tmp/list"; then ok; else bad "the job: $(cat "$tmp/list")"; fi
if grep 'lock.waits' "$tmp/worker.err" | grep -q "holder=\"pid $holder "; then ok; else bad "$(cat "$tmp/worker.err")"; fi

# The first signal finishes what is in hand, the second hands it back though the lock stays held.
kill -TERM $worker
wait_line 'a second signal leaves at once' "$tmp/worker.err" $worker
kill -TERM $worker
wait $worker
status=$?
if [ $status = 0 ] && grep -q 'lock.waited.*got=no' "$tmp/worker.err"; then ok; else bad "second signal: $status $(tail -n 3 "$tmp/worker.err")"; fi
while korch-jobs list --daemon "ipc://$tmp/s" >"$tmp/list" && grep -q 'waits for' "$tmp/list"; do :; done
if grep -q model.onnx "$tmp/list"; then ok; else bad "the job is gone: $(cat "$tmp/list")"; fi

# A worker that starts meanwhile: a time limit ends it, with the holder's name; else it has its turn later.
korch-worker --daemon "ipc://$tmp/s" --data "$tmp/frozen" --lock-timeout 0.2 -q 2>"$tmp/err"
status=$?
if [ $status = 1 ] && grep -q "the lock cpu.lock was held by pid $holder .* for all of the 0.2 s" "$tmp/err"; then ok; else bad "time limit: $status $(cat "$tmp/err")"; fi
korch-worker --daemon "ipc://$tmp/s" --data "$tmp/frozen" --name two --ready-fd 3 3>"$tmp/up" 2>"$tmp/two.err" &
worker=$!
pids="$pids $worker"
exec 4<"$tmp/up"
wait_line 'lock.waits' "$tmp/two.err" $worker
let_go
read -r _ <&4
if grep -q 'lock.waited.*got=yes' "$tmp/two.err"; then ok; else bad "$(cat "$tmp/two.err")"; fi
kill -TERM $worker
wait_line 'a second signal leaves at once' "$tmp/two.err" $worker
kill -TERM $worker 2>/dev/null

# Folders in which anybody could hold it.
# refuses FOLDER WORD
refuses() {
	korch-worker --daemon "ipc://$tmp/s" --data "$tmp/frozen" --lock-dir "$1" -q 2>"$tmp/err"
	status=$?
	if [ $status = 78 ] && grep -q "$2" "$tmp/err"; then ok; else bad "$1: $status $(cat "$tmp/err")"; fi
}
mkdir -m 1777 "$tmp/all"
ln -s "$tmp/run/korch" "$tmp/link"
refuses "$tmp/all" 'anybody could hold a lock'
refuses "$tmp/link" 'it is a link'
refuses "$tmp/none" 'install -d -m 3770'
finish
