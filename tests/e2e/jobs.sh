#!/bin/bash
# korch-jobs: a table with a head, names, times and budgets; what a queued job waits behind.  label: e2e
. "$(dirname "$0")/env.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
model=$tmp/small/candy_small/model.onnx farm="--daemon ipc://$tmp/s"
# A planner that never ends: one job is planned, the others stand in line.  It is a script, for which no jail has a shell.
printf '#!/bin/sh\nexec sleep 1000000\n' >"$tmp/planner"
chmod +x "$tmp/planner"
mkfifo "$tmp/ready"
korchd --data "$tmp/d" --listen "ipc://$tmp/s" -q --planner "$tmp/planner" --sandbox off --max-planners 1 --ready-fd 3 3>"$tmp/ready" 2>"$tmp/korchd.err" &
pids=$!
trap 'kill $pids 2>/dev/null; wait; rm -rf "$tmp"' EXIT
read -r _ <"$tmp/ready"
korch-worker --daemon "ipc://$tmp/s" --device fake:seed=1 -q 2>"$tmp/worker.err" &
pids="$pids $!"

evil=$(printf 'an\033[2Jevil\nname')
for name in "" "second job" "$evil"; do
	korch-submit "$model" $farm --device fake -d --budget 1234 --name "$name" >>"$tmp/numbers" 2>"$tmp/err" || bad "$(cat "$tmp/err")"
done
if [ "$(tr '\n' ' ' <"$tmp/numbers")" = "1 2 3 " ]; then ok; else bad "numbers: $(cat "$tmp/numbers")"; fi

# of JOB: its state and reason
of() { korch-jobs show "$1" --json $farm | python3 -c 'import json,sys; j = json.load(sys.stdin); print(j["state"], j["reason"], sep=": ")'; }
wants() {
	until [ "$(of "$1")" = "$2" ]; do
		[ "$(of "$1")" = "queued: " ] || [ "$(of "$1" | cut -c 1-7)" = queued: ] || [ "$(of "$1" | cut -c 1-7)" = waiting ] || break
	done
	if [ "$(of "$1")" = "$2" ]; then ok; else bad "job $1 is '$(of "$1")' and not '$2'"; fi
}
wants 1 'planning: '
wants 2 'queued: behind job 1, which is being planned'
wants 3 'queued: behind job 1, which is being planned, and 1 job that came before'
: >"$tmp/err"
korch-submit "$model" $farm --device fake --budget 1 2>>"$tmp/err" >"$tmp/out" &
submit=$!
grep -qm1 'queued: behind job 1, which is being planned, and 2 jobs that came before' < <(tail -n +1 -f --pid=$submit "$tmp/err") && ok || bad "submit does not say behind what: $(cat "$tmp/err")"
kill $submit
wait $submit
korch-jobs list $farm >"$tmp/list" 2>&1
if head -n 1 "$tmp/list" | grep -q '^ *JOB  STATE  *NAME  *SUBMITTED  *RAN  *BUDGET  *BEST  *GAP, CLASS AND REASON$'; then ok; else bad "no head: $(head -n 1 "$tmp/list")"; fi
row() { grep -qE "$1" "$tmp/list" && ok || bad "no '$1' in: $(cat -v "$tmp/list")"; }
row '^ +1  planning   model.onnx +[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}  +[0-9]+ s  21 min  -'
row '^ +2  queued     second job +2[0-9-]+ [0-9:]+       -  21 min  - +behind job 1, which is being planned$'
row '^ +3  queued     an\?\[2Jevil\?name '
if [ "$(wc -l <"$tmp/list")" = 5 ]; then ok; else bad "a name makes lines: $(cat -v "$tmp/list")"; fi
korch-jobs cancel 1 $farm || bad "cancel"
wants 2 'planning: '
wants 3 'queued: behind job 2, which is being planned'
korch-jobs workers $farm >"$tmp/list" 2>&1
if head -n 1 "$tmp/list" | grep -q '^NAME  *CLASS  *STATE  *LEASES  *DONE  *FAULTS  *REASON$' && grep -q ' fake ' "$tmp/list"; then ok; else bad "workers: $(cat "$tmp/list")"; fi
finish
