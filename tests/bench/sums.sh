#!/usr/bin/env bash
# Sums of kernels beside whole plans, over models: each is tuned, for a small budget, into one data folder; then
# bench-heat times every plan's kernels and the plan itself in turns. The column "expected" is what each plan's file says of it as a
# whole, learned from the models before it in the list.
#
#   tests/bench/sums.sh [--threads N] [--budget SECONDS] [--rounds N] [--data DIR] [--bin DIR] MODEL.onnx...
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
threads=1 budget=120 rounds=3 data='' bin=$here/build/bin
usage() { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
while [ $# -gt 0 ]; do
	case $1 in
		--threads|--budget|--rounds|--data|--bin)
			[ $# -gt 1 ] || usage
			printf -v "${1#--}" %s "$2"
			shift 2 ;;
		-*) usage ;;
		*) break ;;
	esac
done
[ $# -gt 0 ] || usage
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
export XDG_DATA_HOME=${data:-$tmp/data}
plans=()
for model; do
	name=$(basename "$model" .onnx)
	[ "$name" = model ] && name=$(basename "$(dirname "$model")")
	if "$bin/korch-submit" "$model" --threads "$threads" --budget "$budget" -q -o "$tmp/$name.korch" >"$tmp/out" 2>&1; then
		plans+=("$tmp/$name.korch")
	else
		echo "sums.sh: $model: $(tail -1 "$tmp/out")" >&2
	fi
done
[ ${#plans[@]} -gt 0 ] || exit 1
echo "load $(cut -d' ' -f1-3 /proc/loadavg), $(date -u +%F)"
"$bin/bench-heat" --threads="$threads" --rounds="$rounds" "${plans[@]}"
