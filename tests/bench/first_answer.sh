#!/usr/bin/env bash
# tests/bench/first_answer.sh [--rounds N] [--threads N] [--small] [NAME...]
# How long somebody who has an ONNX file waits for its first answer: `korch run MODEL.onnx`, from the call to its end, on
# an empty data folder (nothing cached: korchd and worker started, the machine looked at, a plan made, its kernels
# compiled, run); again at once (the same korchd, the plan from the store); and again after that korchd has left.  Each
# the least of N rounds (default 3).  With --repeat 1, as an answer is one run (of which a short one is timed again): without
# it a third of a second is spent on telling the time of a run.  The stages are those of korchd's log in the first case,
# in seconds from the call: the job is known (programs started, the model sent), the worker is there, the choice stands,
# the plan is there; then it is fetched, opened and run.
# Last, what the same takes with onnxruntime, python3 started and its session made included, on as many threads
# ($KORCH_TEST_PYTHON has it; "-": it is not there).
# Names: those of korch-make-model (default: all but yolov4, whose file has more than 50 MB).  $KORCH_BIN: the programs.
set -eu
cd "$(dirname "$0")/../.."
bin=$(realpath "${KORCH_BIN:-build/bin}") rounds=3 threads=0 small=
names=()
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) exec sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" ;;
	--rounds) rounds=$2 && shift ;;
	--threads) threads=$2 && shift ;;
	--small) small=--small ;;
	-*)
		echo "first_answer.sh: $1: see --help" >&2
		exit 2
		;;
	*) names+=("$1") ;;
	esac
	shift
done
[ ${#names[@]} -gt 0 ] || names=(candy yolox_nano efficientvit_b1 segformer_b0 efficientvit)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data XDG_CACHE_HOME=$work/cache
unset KORCH_DAEMON KORCH_DATA KORCH_BUDGET
export KORCH_TRAIN=never # a daemon that has measured would train beside what comes next
field() { sed -n "s/.*\"$1\": *\"\{0,1\}\([^,}\"]*\).*/\1/p"; }
seconds() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.2f", b - a}'; }
at() { date -u -d "$1" +%s.%N; }

# ask: one call; its seconds to $work/wall, its JSON to $work/json
ask() {
	local from to
	from=$(date +%s.%N)
	"$bin/korch" run "$work/m.onnx" --threads "$threads" --repeat 1 --json >"$work/json" 2>"$work/err" || {
		cat "$work/err" >&2
		exit 1
	}
	to=$(date +%s.%N)
	echo "$(seconds "$from" "$to")" >"$work/wall"
	echo "$from" >"$work/from"
}

# peer: the seconds of onnxruntime's answer to $work/wall; "-" where it is not there
peer() {
	local from to
	from=$(date +%s.%N)
	"${KORCH_TEST_PYTHON:-python3}" - "$work/m.onnx" "$threads" 2>"$work/err" <<'END' || { echo - >"$work/wall"; return; }
import sys
import numpy as np
import onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = int(sys.argv[2])
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
kind = {"tensor(float)": "f4", "tensor(int64)": "i8", "tensor(int32)": "i4", "tensor(bool)": "?"}
session.run(None, {i.name: np.ones([d if isinstance(d, int) else 1 for d in i.shape], kind[i.type])
                   for i in session.get_inputs()})
END
	to=$(date +%s.%N)
	echo "$(seconds "$from" "$to")" >"$work/wall"
}

# gone: the private korchd has left, 10 s after its last client
gone() { flock "$XDG_DATA_HOME/korch/lock" true; }

# stages: of the job in the log, as numbers of seconds
stages() {
	local log=$XDG_DATA_HOME/korch/korchd.log from
	from=$(cat "$work/from")
	for event in job.new 'hello role=worker' 'lease.grant' 'to=done'; do
		seconds "$from" "$(at "$(grep -m1 -- "$event" "$log" | cut -d' ' -f1)")"
		echo
	done | tr '\n' ' '
}

least() { sort -n | head -n 1; }

printf '%-16s %5s | %7s  %-28s | %7s %7s | %7s | %8s %8s\n' model MB first 'known worker chosen there' again later onnxrt run/ms kernels
for name in "${names[@]}"; do
	"$bin/korch-make-model" "$name" "$work/m.onnx" $small >/dev/null 2>&1
	rm -f "$work"/first "$work"/again "$work"/later "$work"/peer
	for ((i = 0; i < rounds; i++)); do
		rm -rf "$XDG_DATA_HOME"
		ask
		echo "$(cat "$work/wall") $(stages)" >>"$work/first"
		ask
		cat "$work/wall" >>"$work/again"
		gone
		ask
		cat "$work/wall" >>"$work/later"
		gone
		peer
		cat "$work/wall" >>"$work/peer"
	done
	read -r first known worker chosen there < <(least <"$work/first")
	printf '%-16s %5.1f | %7.2f  %-28s | %7.2f %7.2f | %7s | %8.2f %8s\n' "$name" \
		"$(stat -c %s "$work/m.onnx" | awk '{print $1 / 1e6}')" "$first" "$known $worker $chosen $there" \
		"$(least <"$work/again")" "$(least <"$work/later")" "$(least <"$work/peer")" \
		"$(awk -v n="$(field median_ns <"$work/json")" 'BEGIN {print n / 1e6}')" "$(field chosen <"$work/json")"
done
