#!/usr/bin/env bash
# tests/bench/rows.sh OUT.cache [--threads N] [--search S] [--samples S] [--data FOLDER] MODEL.onnx...
# Rows for the predictor (kernels/predict/trained): each model is tuned for --search seconds (default 25), which measures what a
# plan may want, and then sampled for --samples (default 20), which measures kernels as unlike as can be (korch-submit --predict
# --samples).  All in one data folder, so that one calibration stands for all of them: nothing else may run, at its beginning
# least of all.  Told of each model: how many rows there are so far.
# OUT.cache is the export, without what the host disturbed: rows beside whose class reference it was more than a tenth off what it
# was beside most rows, or whose slow tenth took 1.3 times the middle.  KORCH_ISA=avx2 holds host and rows to AVX2; $KORCH_BIN: the programs; --data: goes on with a folder.
set -eu
threads=1 search=25 samples=20 data=
names=()
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) exec sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" ;;
	--threads) threads=$2 && shift ;;
	--search) search=$2 && shift ;;
	--samples) samples=$2 && shift ;;
	--data) data=$2 && shift ;;
	-*)
		echo "rows.sh: $1: see --help" >&2
		exit 2
		;;
	*) names+=("$1") ;;
	esac
	shift
done
[ ${#names[@]} -ge 2 ] || { echo "rows.sh: a file for the rows and a model are wanted; see --help" >&2 && exit 2; }
out=$(realpath -m "${names[0]}")
names=("${names[@]:1}")
bin=$(realpath "${KORCH_BIN:-$(dirname "$0")/../../build/bin}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=${data:-$work/data} XDG_CACHE_HOME=$work/cache
unset KORCH_DAEMON KORCH_DATA KORCH_BUDGET
export KORCH_TRAIN=never # a daemon that has measured would train beside what comes next
mkdir -p "$XDG_DATA_HOME"

# submit MODEL SECONDS [OPTION...]: what fails is said, and the next model comes
submit() {
	local model=$1 seconds=$2
	shift 2
	"$bin/korch-submit" "$model" -o "$work/plan.korch" --threads "$threads" --budget "$seconds" "$@" >"$work/out" 2>&1 || {
		echo "$model: $(tail -n 1 "$work/out")" >&2
		return 0
	}
}

class=
for model in "${names[@]}"; do
	submit "$model" "$search"
	[ -n "$class" ] || [ ! -e "$work/plan.korch" ] || class=$("$bin/korch-plan" show "$work/plan.korch" --json |
		python3 -c 'import json, sys; print(json.load(sys.stdin)["class"])')
	[ -z "$class" ] || submit "$model" "$samples" --device "$class" --predict --samples 3000
	echo "$(date +%T) $model: $("$bin/korch-cache" stats | sed -n 's/^holds *\([0-9]* measurements\).*/\1/p')"
done
[ -n "$class" ] || { echo "rows.sh: no model could be tuned: nothing to export" >&2 && exit 1; }
mkdir -p "$work/calm/korch"
python3 - "$XDG_DATA_HOME/korch" "$work/calm/korch" <<'EOF'
import glob, shutil, sqlite3, sys

of, to = sys.argv[1:]
for name in glob.glob(of + "/calibration-*"):
    shutil.copy(name, to)
calm = sqlite3.connect(to + "/korch.db")
sqlite3.connect(of + "/korch.db").backup(calm)
clock = sorted(r for r, in calm.execute("SELECT clock_ratio FROM measurement WHERE fail = 0 AND clock_ratio <> 1"))
usual = clock[len(clock) // 2] if clock else 1  # 1: timed without a reference
n = calm.execute("DELETE FROM measurement WHERE fail <> 0 OR p90_ns > 1.3 * median_ns OR "
                 "(clock_ratio <> 1 AND abs(clock_ratio / ? - 1) > 0.1)", (usual,)).rowcount
calm.execute("DELETE FROM predictor")
left, = calm.execute("SELECT count(*) FROM measurement").fetchone()
calm.commit()
print(f"{left} rows; left out as disturbed or failed: {n}")
EOF
XDG_DATA_HOME=$work/calm "$bin/korch-cache" export -o "$out" --class "$class"
