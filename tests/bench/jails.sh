#!/usr/bin/env bash
# tests/bench/jails.sh [--rounds N] [NAME]
# What the jails cost: the same with --sandbox best and --sandbox off, in turns, medians of N rounds (default: 15).
#   start      a compiler that only says its version: what a jail's start adds to a process
#   compile    a plan's C code compiled as a worker compiles it
#   plan       korch-submit --budget 0 on an empty cache: planner, compiler and measuring child start in their jails
# NAME: of those of korch-make-model (default: candy), at its small size.  $KORCH_BIN: the programs (default: build/bin).
set -eu
cd "$(dirname "$0")/../.."
bin=$(realpath "${KORCH_BIN:-build/bin}") rounds=15 name=candy
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) exec sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" ;;
	--rounds) rounds=$2 && shift ;;
	-*)
		echo "jails.sh: $1: see --help" >&2
		exit 2
		;;
	*) name=$1 ;;
	esac
	shift
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/home XDG_CACHE_HOME=$work/cache KORCH_THREADS=1
unset KORCH_DAEMON KORCH_DATA KORCH_BUDGET KORCH_SANDBOX
cc=$(command -v "${KORCH_CC:-cc}")
median_of() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

# submit MODE: on an empty cache, but for the host's calibration, which takes long and is the same
submit() {
	rm -rf "$work/data"
	mkdir -m 700 "$work/data"
	cp "$work"/calibration-* "$work/data/" 2>/dev/null || true
	"$bin/korch-submit" "$work/m.onnx" -o "$work/plan.korch" --budget 0 --data "$work/data" --sandbox "$1" -q >"$work/out" 2>&1 || {
		cat "$work/out" >&2
		exit 1
	}
}
# leave: the private korchd of the last submit has gone
leave() {
	kill "$(cat "$work/data/lock")"
	flock "$work/data/lock" true
}
jailed() { KORCH_SANDBOX=$1 "$bin/korch-jail" compile --scratch "$work/scratch" --dir "$work/scratch" -- "${@:2}" >/dev/null; }

"$bin/korch-make-model" "$name" "$work/m.onnx" --small
submit best
cp "$work"/data/calibration-* "$work/" 2>/dev/null || true
leave
mkdir "$work/scratch"
"$bin/korch-plan" source "$work/plan.korch" -o "$work/scratch/k.c" --data "$work/data"

start() { jailed "$1" "$cc" --version; }
compile() { jailed "$1" "$cc" -O2 -march=native -fPIC -shared -w -o k.so k.c; }
plan() { submit "$1"; }

# once WHAT MODE: a row of its times, in microseconds
once() {
	local from=${EPOCHREALTIME/[.,]/}
	"$1" "$2"
	echo $((${EPOCHREALTIME/[.,]/} - from)) >>"$work/$1.$2"
	[ "$1" != plan ] || leave
}
printf '%-8s  %12s  %12s  %10s\n' what 'in a jail ms' 'without ms' 'difference'
for what in start compile plan; do
	for ((i = 0; i < rounds; i++)); do
		once $what best
		once $what off
	done
	awk -v what=$what -v best="$(median_of <"$work/$what.best")" -v off="$(median_of <"$work/$what.off")" \
		'BEGIN {printf "%-8s  %12.1f  %12.1f  %7.1f ms\n", what, best / 1e3, off / 1e3, (best - off) / 1e3}'
done
