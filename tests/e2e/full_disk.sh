#!/usr/bin/env bash
# A full disk under korchd: the job fails and says so, reads still work, and the daemon goes on
# by itself once there is room.  Needs a file system of its own: root, else skipped.
if [ -z "${KORCH_OWN_MOUNTS-}" ]; then
	KORCH_OWN_MOUNTS=1 unshare -m "$0" "$@"
	status=$?
	[ $status = 1 ] && ! unshare -m true 2>/dev/null && { echo "SKIP: no file system of its own without root"; exit 77; }
	exit $status
fi
. "$(dirname "$0")/env.inc"
mkdir "$tmp/full"
mount -t tmpfs -o size=600k none "$tmp/full" 2>/dev/null || { echo "SKIP: tmpfs cannot be mounted"; exit 77; }
tar -xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
model=$tmp/small/candy_small/model.onnx
url=ipc://$tmp/sock
mkfifo "$tmp/ready"
korchd --quiet --data "$tmp/full/data" --listen "$url" --ready-fd 3 3>"$tmp/ready" 2>"$tmp/daemon.log" &
daemon=$!
read -r _ <"$tmp/ready"

# A worker that comes when there is no room is not taken; the job that waits for it says why.
korch-submit "$model" -o "$tmp/plan" --daemon "$url" --device fake >"$tmp/out" 2>"$tmp/err" &
submit=$!
until korch-jobs list --daemon "$url" 2>/dev/null | grep -q model.onnx; do
	kill -0 $submit 2>/dev/null || break
done
dd if=/dev/zero of="$tmp/full/filler" bs=4k 2>/dev/null
mkfifo "$tmp/taken"
exec 4<>"$tmp/taken"
korch-worker --daemon "$url" --device fake:seed=1 --ready-fd 3 3>&4 4>&- 2>"$tmp/worker.log" &
worker=$!
exec 5<"$tmp/taken" 4>&- # a line, or the end of the worker
wait $submit
status=$?
if [ $status = 1 ] && grep -q "class 'fake' cannot be taken.*full" "$tmp/err"; then ok; else bad "worker on a full disk: status $status: $(tail -n 1 "$tmp/err")"; fi
if [ "$(grep -c 'not_taken .*full' "$tmp/worker.log")" = 1 ]; then ok; else bad "a worker at the door does not say so once: $(cat "$tmp/worker.log")"; fi
mount -o remount,size=4m "$tmp/full"
if read -r _ <&5; then ok; else bad "the worker is not taken with room again"; fi

# A job that finds no room fails.
dd if=/dev/zero of="$tmp/full/filler" bs=4k oflag=append conv=notrunc 2>/dev/null
korch-submit "$model" -o "$tmp/plan" --daemon "$url" --device fake --budget 300 >"$tmp/out" 2>"$tmp/err"
status=$?
if [ $status = 1 ] && grep -qi 'full' "$tmp/err"; then ok; else bad "full disk: status $status: $(tail -n 1 "$tmp/err")"; fi
if [ ! -e "$tmp/plan" ]; then ok; else bad "a plan of a failed job"; fi
if korch-cache stats --daemon "$url" >"$tmp/stats" 2>&1 && grep -q measurements "$tmp/stats"; then ok; else bad "stats on a full disk"; fi
# Its end is known, though its row could not be written: in the list, and to the next korchd, which does not run it again.
last_of() { korch-jobs list --all --json --daemon "$url" 2>/dev/null | tr '{' '\n' | grep -m 1 '"state":' | sed 's/.*"state": *"\([a-z]*\)".*/\1/'; }
state=$(last_of)
if [ "$state" = failed ]; then ok; else bad "a job that failed on a full disk is listed as '$state'"; fi
kill -9 $daemon
wait $daemon 2>/dev/null
mount -o remount,size=200m "$tmp/full"
korchd --data "$tmp/full/data" --listen "$url" --ready-fd 3 3>"$tmp/ready" 2>"$tmp/daemon.log" &
daemon=$!
read -r _ <"$tmp/ready"
state=$(last_of)
if [ "$state" = failed ]; then ok; else bad "after a restart a job whose client was told that it failed is '$state'"; fi
if ! grep -q 'job.resume' "$tmp/daemon.log"; then ok; else bad "a job that had failed runs again: $(grep job.resume "$tmp/daemon.log")"; fi
until [ -z "$(ls "$tmp/full/data/jobs")" ] || ! kill -0 $daemon 2>/dev/null; do :; done # its row is saved now
if [ "$(last_of)" = failed ]; then ok; else bad "the state that was saved late is '$(last_of)'"; fi
if korch-submit "$model" -o "$tmp/plan" --daemon "$url" --device fake --effort 1 --budget 2 >"$tmp/out" 2>"$tmp/err" && [ -s "$tmp/plan" ]; then ok; else bad "with room again: $(tail -n 1 "$tmp/err")"; fi
kill $worker $daemon
wait $worker && ok || bad "korch-worker left with $?"
wait $daemon && ok || bad "korchd left with $?"
umount -l "$tmp/full"
finish
