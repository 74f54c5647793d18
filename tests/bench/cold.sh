#!/usr/bin/env bash
# tests/bench/cold.sh [--budget S] [--threads N] [--small] [--retune] OLD NEW [NAME...]
# How long a cold search takes until its plan is good: each model is tuned on an empty cache by the programs in the folder
# OLD and by those in NEW (say, build/bin of two commits), one after the other.  Told are the seconds, from the planner's
# start, until the least sum of measured kernels is within 2 % of the one that OLD ends with; NEW's over OLD's; the sums and
# whole plans that both end with; kernels and schedules that both measured.  Last the geometric mean of the ratios.
# --retune: each model at two resolutions (--shape): the second one tuned by OLD on an empty cache, and by NEW over the
# cache that its own job at the first one left (OLD and NEW may be one build).
# Names: those of korch-make-model (default: all but yolov4, whose file has more than 50 MB), or FILE.onnx; with --retune
# FILE.onnx:FIRST:SECOND, both as --shape takes them, or FIRST.onnx:SECOND.onnx.  A ratio above .45 (.25 with --retune) is
# marked.  Two runs on a quiet machine differ by a tenth.
set -eu
cd "$(dirname "$0")/../.."
budget=600 threads=1 small='' retune=
names=()
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help) exec sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" ;;
	--budget) budget=$2 && shift ;;
	--threads) threads=$2 && shift ;;
	--small) small=--small ;;
	--retune) retune=1 ;;
	-*)
		echo "cold.sh: $1: see --help" >&2
		exit 2
		;;
	*) names+=("$1") ;;
	esac
	shift
done
[ ${#names[@]} -ge 2 ] || { echo "cold.sh: two folders of programs are wanted, OLD and NEW; see --help" >&2 && exit 2; }
old=$(realpath "${names[0]}") new=$(realpath "${names[1]}")
names=("${names[@]:2}")
[ ${#names[@]} -gt 0 ] || names=(candy yolox_nano efficientvit_b1 segformer_b0 efficientvit)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
unset KORCH_DAEMON KORCH_DATA KORCH_BUDGET
export KORCH_TRAIN=never # a daemon that has measured would train beside what comes next
most=0.45
[ -z "$retune" ] || most=0.25

# tune BIN DATA OUT MODEL [OPTION...]: its progress, a JSON line an event, to $work/OUT
tune() {
	local bin=$1 data=$2 out=$3
	shift 3
	XDG_DATA_HOME=$work/$data "$bin/korch-submit" "$@" -o "$work/$out.korch" --threads "$threads" \
		--budget "$budget" --json >"$work/$out" 2>"$work/err" || {
		cat "$work/err" >&2
		exit 1
	}
}

# told NAME BEFORE AFTER: a line of the table
told() {
	python3 - "$1" "$work/$2" "$work/$3" "$most" "$work/ratios" <<'END'
import json, sys

name, before, after, most, ratios = sys.argv[1:]


def events(path):
    out = [json.loads(line).get("progress") for line in open(path) if line.startswith("{")]
    return [p for p in out if p]


def reached(ev, ns):
    return next((p["seconds"] for p in ev if 0 < p["latency_ns"] <= ns), None)


a, b = events(before), events(after)
limit = 1.02 * a[-1]["latency_ns"]
s, t = reached(a, limit), reached(b, limit)
whole = lambda p: f'{p["measured_ns"] / 1e6:.3f}' if p["measured_ns"] else "-"
row = [name, f"{s:.1f}", "-" if t is None else f"{t:.1f}", "never" if t is None else f"{t / s:.2f}"]
row += [f'{p[-1]["latency_ns"] / 1e6:.3f}' for p in (a, b)] + [whole(p[-1]) for p in (a, b)]
row += [str(p[-1]["measured"]) for p in (a, b)] + [f'{p[-1]["seconds"]:.0f}' for p in (a, b)]
print("| " + " | ".join(row) + " |" + (" above" if t is None or t / s > float(most) else ""), flush=True)
if t is not None:
    open(ratios, "a").write(f"{t / s}\n")
END
}

echo "| model | s until within 2 %: old | new | ratio | sum ms: old | new | whole ms: old | new | kernels: old | new | s in all: old | new |"
echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
for name in "${names[@]}"; do
	rm -rf "$work/one" "$work/two"
	IFS=: read -r file first second <<<"$name"
	if [ "${file%.onnx}" = "$file" ]; then
		"$new/korch-make-model" "$file" "$work/m.onnx" ${small:+"$small"} >/dev/null
		file=$work/m.onnx
	fi
	if [ -z "$retune" ]; then
		tune "$old" one before "$file"
		tune "$new" two after "$file"
	elif [ -n "${second-}" ]; then
		tune "$old" one before "$file" --shape "$second"
		tune "$new" two first "$file" --shape "$first"
		tune "$new" two after "$file" --shape "$second"
	else
		tune "$old" one before "$first"
		tune "$new" two first "$file"
		tune "$new" two after "$first"
	fi
	told "$(basename "$name")" before after
done
[ ! -s "$work/ratios" ] ||
	awk '{s += log($1)} END {printf "geometric mean of %d ratios: %.2f\n", NR, exp(s / NR)}' "$work/ratios"
