#!/usr/bin/env bash
# Records of jobs that cannot be read, as a broken disk or another hand leaves them: korchd starts, the other jobs are
# listed, shown, watched and go on; the broken ones say what they are, and one that was not done yet ends.  label: e2e
. "$(dirname "$0")/env.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
model=$tmp/small/candy_small/model.onnx farm="--daemon ipc://$tmp/s"
mkfifo "$tmp/ready"
start() {
	korchd --data "$tmp/d" --listen "ipc://$tmp/s" -q --ready-fd 3 3>"$tmp/ready" 2>>"$tmp/korchd.err" &
	korchd_pid=$!
	read -r _ <"$tmp/ready"
}
trap 'kill $korchd_pid $worker_pid 2>/dev/null; wait; rm -rf "$tmp"' EXIT
start
korch-worker --daemon "ipc://$tmp/s" --device fake:seed=1 -q 2>"$tmp/worker.err" &
worker_pid=$!
for i in 1 2; do # two that end, two that wait for a device that nobody has
	korch-submit "$model" $farm --device fake --budget 0 -o "$tmp/$i.korch" -q >"$tmp/out" 2>&1 || bad "$(cat "$tmp/out")"
done
for i in 3 4; do
	korch-submit "$model" $farm --device 'fake:none' -d --name "waits $i" >"$tmp/out" 2>&1 || bad "$(cat "$tmp/out")"
done
kill $korchd_pid
wait $korchd_pid
python3 - "$tmp/d/korch.db" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
for job, how in (1, "substr(record, 1, length(record) / 2)"), (3, "x'93'"):
    db.execute(f"UPDATE job SET record = {how} WHERE id = ?", (job,))
db.commit()
END
start

# says STATUS REGEX COMMAND...
says() {
	local status=$1 regex=$2 got
	shift 2
	"$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	got=$?
	if [ $got = "$status" ] && { [ -z "$regex" ] || cat "$tmp/out" "$tmp/err" | grep -q -- "$regex"; }; then ok; else bad "$*: status $got, not $status with '$regex': $(head -c 400 "$tmp/out" "$tmp/err")"; fi
}
until korch-jobs list --all $farm | grep -q '^ *3  failed'; do kill -0 $korchd_pid || { bad "korchd has left: $(cat "$tmp/korchd.err")"; finish; }; done
says 0 '^ *1  done .* model.onnx .*its record cannot be read: ' korch-jobs list --all $farm
says 0 '^ *2  done .* model.onnx ' korch-jobs list --all $farm
says 0 '^ *3  failed .* model.onnx .*its record cannot be read: .*; submit the model again' korch-jobs list --all $farm
says 0 '^ *4  [qw].* waits 4 ' korch-jobs list $farm
says 0 '^{.*"id":1,.*"reason":"its record cannot be read: ' korch-jobs list --all --json $farm
says 0 '^ *2  done' korch-jobs show 2 $farm
says 0 'done' korch-jobs watch 2 $farm
says 0 '' korch-jobs fetch 2 -o "$tmp/again.korch" $farm
cmp -s "$tmp/2.korch" "$tmp/again.korch" && ok || bad "the plan that was fetched is another"
says 1 'job 1: its record cannot be read: ' korch-jobs show 1 $farm
says 1 'job 1: its record cannot be read: ' korch-jobs watch 1 $farm
says 1 'job 1: its record cannot be read: ' korch-jobs fetch 1 -o "$tmp/none.korch" $farm
says 1 'its record cannot be read' korch-jobs watch 3 $farm
[ -e "$tmp/none.korch" ] && bad "a plan of a job that cannot be read" || ok
says 0 '' korch-jobs cancel 4 $farm
says 0 '' korch-submit "$model" $farm --device fake --budget 0 -o "$tmp/new.korch"
finish
