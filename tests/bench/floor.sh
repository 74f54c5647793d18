#!/usr/bin/env bash
# tests/bench/floor.sh [--budget S] [--threads N] [--turns N] MODEL.onnx...
# Is a tuned plan ever slower than what was there before it?  On an empty cache each model gets the plan that is to be had for
# nothing (--budget 0), then a tuned one (--budget, default 60); both run in turns (default 15), and a turn's ratio is that of
# two medians.  Printed: both times, tuned over nothing as the median of the ratios, its standard error, and whose plan was
# written where it was not that of the least sum.  At the end the geometric mean; status 1 where a ratio is above 1 by more
# than two errors.  $KORCH_BIN: the programs (default: build/bin).
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${KORCH_BIN:-build/bin} budget=60 threads=1 turns=15
models=()
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) exec sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" ;;
	--budget) budget=$2 && shift ;;
	--threads) threads=$2 && shift ;;
	--turns) turns=$2 && shift ;;
	-*)
		echo "floor.sh: $1: see --help" >&2
		exit 2
		;;
	*) models+=("$1") ;;
	esac
	shift
done
[ ${#models[@]} -gt 0 ] || {
	echo "floor.sh: no model; see --help" >&2
	exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset KORCH_DAEMON KORCH_DATA KORCH_BUDGET
export KORCH_TRAIN=never # a daemon that has measured would train beside what comes next
export XDG_CACHE_HOME=$work/cache
field() { sed -n "s/.*\"$1\": *\"\{0,1\}\([^,}\"]*\).*/\1/p"; }

# tune MODEL BUDGET PLAN: its last JSON line
tune() {
	"$bin/korch-submit" "$1" -o "$3" --budget "$2" --threads "$threads" --json >"$work/said" 2>"$work/err" || {
		echo "floor.sh: $1: $(tail -n 1 "$work/err")" >&2
		exit 1
	}
	tail -n 1 "$work/said"
}
# run_ns PLAN RUNS: the median of so many
run_ns() { "$bin/korch-run" "$1" --repeat "$2" --warmup 3 --threads "$threads" --json | tail -n 1 | field median_ns; }

printf '%-24s %11s %11s %7s %7s  %s\n' model nothing/us tuned/us ratio error written
for i in "${!models[@]}"; do
	model=${models[$i]} name=$(basename "${models[$i]}" .onnx)
	[ "$name" != model ] || name=$(basename "$(dirname "$model")")
	export XDG_DATA_HOME=$work/data$i # the last one's korchd is still there
	tune "$model" 0 "$work/zero.korch" >/dev/null
	tune "$model" "$budget" "$work/plan.korch" >"$work/json"
	first=$(run_ns "$work/zero.korch" 3)
	# half a second of runs
	runs=$(awk -v n="$first" 'BEGIN {r = int(5e8 / n); print (r < 3 ? 3 : (r > 2000 ? 2000 : r))}')
	: >"$work/pairs"
	for turn in $(seq "$turns"); do
		zero=$(run_ns "$work/zero.korch" "$runs")
		plan=$(run_ns "$work/plan.korch" "$runs")
		echo "$plan $zero" >>"$work/pairs"
	done
	awk -v name="$name" -v winner="$(field winner <"$work/json")" '
		function median(v, n,   i, j, x) {
			for (i = 2; i <= n; i++) {
				x = v[i]
				for (j = i - 1; j > 0 && v[j] > x; j--)
					v[j + 1] = v[j]
				v[j + 1] = x
			}
			return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
		}
		{plan[NR] = $1; zero[NR] = $2; ratio[NR] = $1 / $2; sum += $1 / $2; squares += ($1 / $2) ^ 2}
		END {
			spread = NR > 1 ? (squares - sum * sum / NR) / (NR - 1) : 0
			error = 1.2533 * sqrt((spread > 0 ? spread : 0) / NR)
			printf "%-24s %11.1f %11.1f %7.3f %7.3f  %s\n", name, median(zero, NR) / 1e3, median(plan, NR) / 1e3,
				median(ratio, NR), error, winner
		}' "$work/pairs" | tee -a "$work/table"
done
awk '{n++; logs += log($4); slower += $4 > 1 + 2 * $5}
	END {printf "geometric mean %.3f; slower by more than two errors: %d of %d\n", exp(logs / n), slower, n; exit slower > 0}' "$work/table"
