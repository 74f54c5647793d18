#!/bin/bash
# --memory: what may be given, that it reaches the process that runs kernels, by way of a private daemon too, and that
# a search within a narrow one ends with a plan.  label: e2e
. "$(dirname "$0")/env.inc"
. "$(dirname "$0")/farm.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
model=$tmp/small/candy_small/model.onnx

must 2 '--memory 100: it is MiB, 512 to' korch-submit "$model" -o "$tmp/p" --memory 100
must 2 '--memory -1: it is MiB' korch-worker --daemon "ipc://$tmp/s" --memory -1
korchd --data "$tmp/own" -q --ready-fd 3 3>"$tmp/ready" 2>"$tmp/own.err" &
own_pid=$!
read -r _ <"$tmp/ready"
must 2 'is not private; its workers have what korch-worker --memory' korch-submit "$model" -o "$tmp/p" --data "$tmp/own" --memory 700
kill $own_pid
wait $own_pid
must 2 'it is of the worker that korch-submit starts itself' korch-submit "$model" -o "$tmp/p" $farm --memory 700

# A process's words, one a line: of those that hold all the arguments.
words() {
	local p text w
	for p in /proc/[0-9]*/cmdline; do
		text=$({ tr '\0' ' ' <"$p"; } 2>/dev/null) || continue
		for w in "$@"; do
			case $text in *"$w"*) ;; *) continue 2 ;; esac
		done
		echo "${p%/cmdline}"
	done
}
# MiB of addresses that the measuring child of the process in the /proc folder $1 may have: korch-jail stands between.
space() {
	local child limit
	for child in $(cat "$1"/task/*/children 2>/dev/null); do
		case $(readlink "/proc/$child/exe") in
		*/korch-measure) limit=$(sed -n 's/^Max address space *\([0-9]*\).*/\1/p' "/proc/$child/limits") ;;
		*/korch-jail) space "/proc/$child" && return ;;
		esac
		[ -n "${limit:-}" ] && echo $((limit / 1048576)) && return
	done
	return 1
}
# between LOW HIGH VALUE WHAT
between() { if [ "${3:-0}" -ge "$1" ] && [ "${3:-0}" -le "$2" ]; then ok; else bad "$4: '$3', not $1 to $2"; fi; }

# What it starts with comes on top: programs, libraries.
mkfifo "$tmp/worker"
korch-worker --daemon "ipc://$tmp/s" --device cpu --memory 600 --ready-fd 3 -q 3>"$tmp/worker" 2>"$tmp/worker.err" &
cpu_pid=$!
trap 'kill $cpu_pid $worker_pid $korchd_pid 2>/dev/null; wait; rm -rf "$tmp"' EXIT
read -r _ <"$tmp/worker"
between 600 2600 "$(space "/proc/$cpu_pid")" "a worker's child with --memory 600"
kill $cpu_pid
wait $cpu_pid

# The worker of a private daemon; another limit is heard by the one that is there, which ends what it holds: what
# the second search has to measure is measured by its successor.
for mib in 600 800; do
	if korch-submit "$model" -o "$tmp/p$mib" -q --threads 1 --budget 12 --effort $((mib / 100 - 5)) --memory $mib >"$tmp/out" 2>&1; then ok; else
		bad "--memory $mib: $(tail -n 2 "$tmp/out")"
	fi
	if [ -n "$(words korch-worker "$tmp/data" "--memory $mib")" ]; then ok; else
		bad "no worker with --memory $mib: $(words korch-worker "$tmp/data")"
	fi
	if korch-run "$tmp/p$mib" --check "$tmp/small/candy_small" >"$tmp/out" 2>&1; then ok; else bad "$(tail -n 1 "$tmp/out")"; fi
done
for p in $(words korchd "$tmp/data"); do kill "${p#/proc/}"; done
finish
