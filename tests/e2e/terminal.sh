#!/bin/bash
# What korch-submit draws on a terminal, and that elsewhere a failure is said once too.  label: e2e
. "$(dirname "$0")/env.inc"
. "$(dirname "$0")/farm.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
model=$tmp/small/candy_small/model.onnx
mkfifo "$tmp/ready2"
korchd --data "$tmp/empty" --listen "ipc://$tmp/e" -q --ready-fd 3 3>"$tmp/ready2" 2>"$tmp/empty.err" &
trap 'kill $! $worker_pid $korchd_pid 2>/dev/null; wait; rm -rf "$tmp"' EXIT
read -r _ <"$tmp/ready2"
python3 "$(dirname "$0")/terminal.py" "$model" "ipc://$tmp/s" "ipc://$tmp/e" >"$tmp/out" 2>&1
if [ $? = 0 ] && ! grep -q FAILED "$tmp/out" && grep -q '^ok' "$tmp/out"; then ok; else bad "$(head -c 2000 "$tmp/out")"; fi
korch-submit "$model" $farm --device fake --forbid 0123456789abcdef >"$tmp/out" 2>&1
if [ "$(grep -c "none of this model's" "$tmp/out")" = 1 ]; then ok; else bad "not said once: $(cat "$tmp/out")"; fi
finish
