#!/bin/bash
# Classes of CPUs as a person meets them: a pattern fits two models, each job has one of them, and the programs say
# which; what fits none says what there is.  label: e2e
. "$(dirname "$0")/env.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
model=$tmp/small/candy_small/model.onnx farm="--daemon ipc://$tmp/s"
a=cpu:AMD-EPYC-9B14-avx512 b=cpu:Intel-Xeon-Gold-6230-avx2
# A planner that never ends: a device that has a job keeps it.  It is a script, for which no jail has a shell.
printf '#!/bin/sh\nexec sleep 1000000\n' >"$tmp/planner"
chmod +x "$tmp/planner"
mkfifo "$tmp/ready" "$tmp/ready.a" "$tmp/ready.b"
korchd --data "$tmp/d" --listen "ipc://$tmp/s" -q --planner "$tmp/planner" --sandbox off --max-planners 9 --ready-fd 3 3>"$tmp/ready" 2>"$tmp/korchd.err" &
pids=$!
trap 'kill $pids 2>/dev/null; wait; rm -rf "$tmp"' EXIT
read -r _ <"$tmp/ready"
for w in a b; do
	korch-worker --daemon "ipc://$tmp/s" --device "fake:seed=1,class=${!w}" -q --ready-fd 3 3>"$tmp/ready.$w" 2>"$tmp/worker.$w" &
	pids="$pids $!"
	read -r _ <"$tmp/ready.$w"
done
korch-jobs workers $farm >"$tmp/workers"
if grep -qF " $a " "$tmp/workers" && grep -qF " $b " "$tmp/workers"; then ok; else bad "workers: $(cat "$tmp/workers")"; fi

# job DEVICE CLASS: it is bound to that class
job() {
	local n
	n=$(korch-submit "$model" $farm --device "$1" -d 2>"$tmp/err") || { bad "--device $1: $(cat "$tmp/err")"; return; }
	: >"$tmp/watch" # here, not by the command below: tail may be there first
	korch-jobs watch "$n" $farm 2>>"$tmp/watch" >/dev/null &
	local watch=$!
	if grep -qm1 "^for devices of class $2$" < <(tail -n +1 -f --pid=$watch "$tmp/watch"); then ok; else bad "--device $1: $(cat "$tmp/watch")"; fi
	kill $watch
	wait $watch
	if korch-jobs list $farm | grep -q "^ *$n  planning .*  $2$"; then ok; else bad "list: $(korch-jobs list $farm)"; fi
	if [ "$(korch-jobs show "$n" --json $farm | python3 -c 'import json,sys; print(json.load(sys.stdin)["class"])')" = "$2" ]; then ok; else bad "show $n"; fi
}
job cpu $a
job cpu $b
job 'cpu:*' $a
job 'cpu:*xeon*' $b
job $a $a
korch-submit "$model" $farm --device 'cpu:*-neon' --unplaceable-timeout 0.1 -o "$tmp/p" >"$tmp/out" 2>"$tmp/err"
if [ $? = 5 ] && grep -q "no connected worker is of device class 'cpu:\*-neon' (there are: .*$a.*korch-worker --daemon URL --device cpu$" "$tmp/err"; then ok; else bad "nobody: $(cat "$tmp/err")"; fi
finish
