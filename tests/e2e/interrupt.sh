#!/bin/bash
# Ctrl-C: on a private korchd it cancels the job, a second one leaves at once; on one that stays it says how to come
# back and how to end the job, and the commands work as they are printed.  A korchd without workers says so at once.
# label: e2e
. "$(dirname "$0")/env.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
model=$tmp/small/candy_small/model.onnx
pids=
trap 'kill $pids 2>/dev/null; wait; rm -rf "$tmp"' EXIT


# begin ARGUMENTS...: korch-submit in the background; what an earlier one said is gone before
begin() {
	: >"$tmp/err"
	korch-submit "$@" 2>>"$tmp/err" >"$tmp/out" &
	submit=$!
}

# A private korchd whose worker never says hello: the job waits until it is ended.
export KORCH_LIBEXEC=$tmp/bin
mkdir "$tmp/bin"
for p in korchd korch-planner korch-jail; do ln -s "$(realpath "$bin/$p")" "$tmp/bin/$p"; done
printf '#!/bin/sh\nexec sleep 1000000\n' >"$tmp/bin/korch-worker"
chmod +x "$tmp/bin/korch-worker"
begin "$model" -o "$tmp/p"
wait_line "^waiting: this machine's worker is starting" "$tmp/err" $submit
owner=$(cat "$XDG_DATA_HOME/korch/lock")
kill -INT $submit
wait $submit
if [ $? = 130 ] && grep -q 'job 1 is cancelled; what was measured is kept' "$tmp/err"; then ok; else bad "Ctrl-C on a private korchd: $(tail -n 2 "$tmp/err")"; fi
if korch-jobs show 1 | grep -q cancelled; then ok; else bad "its job is $(korch-jobs show 1)"; fi
if [ ! -e "$tmp/p" ]; then ok; else bad "a plan of a cancelled job"; fi

# The second one: the korchd does not answer the first.
begin "$model" -o "$tmp/p"
wait_line '^waiting' "$tmp/err" $submit
kill -STOP "$owner"
kill -INT $submit
wait_line 'cancelling job 2; Ctrl-C again leaves at once' "$tmp/err" $submit
kill -INT $submit
wait $submit
if [ $? = 130 ] && grep -q 'left before job 2 was cancelled' "$tmp/err"; then ok; else bad "the second Ctrl-C: $(tail -n 2 "$tmp/err")"; fi
kill -CONT "$owner"
if korch-submit "$model" -d 2>"$tmp/err" >"$tmp/out"; [ $? = 2 ] && grep -q -e '-d needs --daemon' "$tmp/err"; then ok; else bad "-d to a private korchd: $(tail -n 1 "$tmp/err")"; fi
kill "$owner"
unset KORCH_LIBEXEC

# One that stays.
daemon() {
	rm -f "$tmp/ready"
	mkfifo "$tmp/ready"
	korchd -q --ready-fd 3 "$@" 3>"$tmp/ready" 2>"$tmp/korchd.err" &
	pids="$pids $!"
	read -r _ <"$tmp/ready"
}
daemon --data "$tmp/named dir" --listen "ipc://$tmp/s"
for where in "--daemon ipc://$tmp/s"; do
	begin "$model" -o "$tmp/it's a plan" $where
	wait_line '^waiting' "$tmp/err" $submit
	kill -INT $submit
	wait $submit
	if [ $? = 130 ] && grep -q 'job 1 goes on without you' "$tmp/err"; then ok; else bad "Ctrl-C on a korchd: $(tail -n 2 "$tmp/err")"; fi
	if korch-jobs show 1 $where | grep -q waiting; then ok; else bad "its job is $(korch-jobs show 1 $where)"; fi
	fetch=$(sed -n 's/.*take its plan with: \(.*\), end it with: .*/\1/p' "$tmp/err")
	eval "$fetch" 2>"$tmp/err2"
	if [ $? = 1 ] && grep -q 'job 1 has no plan' "$tmp/err2"; then ok; else bad "$fetch: $(cat "$tmp/err2")"; fi
	eval "$(sed -n 's/.*end it with: //p' "$tmp/err")" 2>"$tmp/err2" || bad "end it: $(cat "$tmp/err2")"
	eval "$(sed -n 's/.*come back with: \(.*\), take its plan with: .*/\1/p' "$tmp/err")" 2>"$tmp/err2"
	if [ $? = 6 ] && grep -q 'cancelled on request' "$tmp/err2"; then ok; else bad "come back: $(cat "$tmp/err2")"; fi
done

# One over the data folder that stays, and has no worker.
daemon --data "$tmp/named dir/two"
korch-submit "$model" -o "$tmp/p" --data "$tmp/named dir/two" 2>"$tmp/err" >"$tmp/out"
if [ $? = 5 ] && grep -q "korchd (process ${pids##* }) over $tmp/named dir/two has no worker of device class 'cpu' and starts none; start one with: korch-worker --daemon ipc://.*korchd.sock --device cpu, or end it with: kill ${pids##* }" "$tmp/err"; then ok; else bad "no worker: $(tail -n 2 "$tmp/err")"; fi
begin "$model" -o "$tmp/p" --data "$tmp/named dir/two" --unplaceable-timeout 1000
wait_line '^waiting' "$tmp/err" $submit
kill -INT $submit
wait $submit
if grep -q 'starts none.*; waiting for one' "$tmp/err"; then ok; else bad "it waits without a word: $(cat "$tmp/err")"; fi
eval "$(sed -n 's/.*end it with: //p' "$tmp/err" | tail -n 1)" 2>"$tmp/err2" || bad "end it: $(cat "$tmp/err2")"
if korch-jobs show 1 --data "$tmp/named dir/two" | grep -q cancelled; then ok; else bad "the commands do not lead to --data"; fi

# A folder that nobody can write into is named.
echo file >"$tmp/file"
for folder in "$tmp/file/below" /proc/self/nothing /sys/kernel; do
	korch-submit "$model" -o "$tmp/p" --data "$folder" 2>"$tmp/err" >"$tmp/out"
	if [ $? = 1 ] && grep -qE "^korch-submit: .*(the data folder.*$folder|$folder.*the data folder)" "$tmp/err"; then ok; else bad "$folder: $(tail -n 1 "$tmp/err")"; fi
done
finish
