#!/usr/bin/env bash
# tests/bench/budgets.sh [--budgets "3 10 20 60"] [--threads "1 2"] [--small] [--twice] [NAME...]
# What a budget is worth: each model tuned on an empty cache with each budget; the seconds that the job took, what it
# measured, and the plan's time beside that of the plan which is to be had for nothing (--budget 0 on an empty cache), both
# run in turns.  --threads: on each of these numbers (default: 1), every time on an empty cache.  --small: the small models.
# --twice: each is submitted a second time over the same cache, and goes on.
# Names: those of korch-make-model (default: candy yolox_nano).  $KORCH_BIN: the programs (default: build/bin).
set -eu
cd "$(dirname "$0")/../.."
bin=${KORCH_BIN:-build/bin} budgets="3 10 20 60" many=1 small= twice=
names=()
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) exec sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" ;;
	--budgets) budgets=$2 && shift ;;
	--threads) many=$2 && shift ;;
	--small) small=--small ;;
	--twice) twice=1 ;;
	-*)
		echo "budgets.sh: $1: see --help" >&2
		exit 2
		;;
	*) names+=("$1") ;;
	esac
	shift
done
[ ${#names[@]} -gt 0 ] || names=(candy yolox_nano)
[ -x "$bin/korch-submit" ] || {
	echo "budgets.sh: no programs in $bin; build them, or name their folder by KORCH_BIN" >&2
	exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
unset KORCH_DAEMON KORCH_DATA KORCH_BUDGET
export KORCH_TRAIN=never # a daemon that has measured would train beside what comes next
export KORCH_TRUST=any # plans of several data folders, all made here
field() { sed -n "s/.*\"$1\": *\"\{0,1\}\([^,}\"]*\).*/\1/p"; }

# tune MODEL BUDGET PLAN DATA: its last JSON line
tune() { XDG_DATA_HOME=$4 "$bin/korch-submit" "$1" -o "$3" --budget "$2" --threads "$threads" --json 2>"$work/err" | tail -n 1; }
median_of() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
run_ms() { "$bin/korch-run" "$1" --repeat 5 --warmup 1 --threads "$threads" --json | tail -n 1 | sed -n 's/.*"median_ns": *\([0-9]*\).*/\1/p'; }

# one: the model with budget $b on $threads threads; a line of the table, or two
one() {
	rm -rf "$work/data"
	for round in 1 ${twice:+2}; do
		tune "$work/m.onnx" "$b" "$work/plan.korch" "$work/data" >"$work/json"
		: >"$work/plan.ns" && : >"$work/zero.ns"
		for turn in 1 2 3 4 5; do
			run_ms "$work/plan.korch" >>"$work/plan.ns"
			run_ms "$work/zero.korch" >>"$work/zero.ns"
		done
		took=$(field seconds <"$work/json")
		printf '%-12s %7s %7s %8.1f %5.0f%% %9s %10.2f %10.2f  %s\n' "$name" "$threads" "$b" "$took" \
			"$(awk -v t="$took" -v b="$b" 'BEGIN {print 100 * (t / b - 1)}')" "$(field measured <"$work/json")" \
			"$(awk -v n="$(median_of <"$work/plan.ns")" 'BEGIN {print n / 1e6}')" \
			"$(awk -v n="$(median_of <"$work/zero.ns")" 'BEGIN {print n / 1e6}')" "$(field stop <"$work/json")"
	done
}

printf '%-12s %7s %7s %8s %6s %9s %10s %10s  %s\n' model threads budget took over measured plan/ms "budget 0" ended
for name in "${names[@]}"; do
	"$bin/korch-make-model" "$name" "$work/m.onnx" $small >/dev/null 2>&1
	for threads in $many; do
		rm -rf "$work/zero"
		tune "$work/m.onnx" 0 "$work/zero.korch" "$work/zero" >/dev/null
		for b in $budgets; do
			one
		done
	done
done
