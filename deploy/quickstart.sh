#!/usr/bin/env bash
# From a clone on a bare Debian 12 to a tuned, checked, runnable plan:
#   deploy/quickstart.sh [MODEL.onnx]
# Installs the packages of deploy/packages.txt that are missing (root or sudo), and the optional ones
# where they can be had (oneDNN, whose kernels then compete), builds Release in build/, tunes the
# given model (or Candy at full size with seeded random weights), runs the plan, and prints what was
# found beside one-kernel-per-operator and one-kernel-per-primitive.
# KORCH_BUDGET sets the seconds of each of its four jobs (default 600); what they cut short a second run goes on with.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
bin=$root/build/bin
out=$root/build/quickstart
budget=${KORCH_BUDGET:-600}
say() { printf '%s\n' "$*" >&2; }

if [ $# -gt 1 ] || [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
	sed -n '2,8s/^# \{0,1\}//p' "$0"
	[ $# -le 1 ] && exit 0 || exit 2
fi
model=${1:-}
if [ -n "$model" ] && [ ! -r "$model" ]; then
	say "quickstart.sh: $model: cannot read it; name an ONNX file, or none for the sample"
	exit 2
fi

"$root/deploy/install-packages.sh"
"$root/deploy/install-packages.sh" --optional
onednn=OFF
dpkg-query -W -f='${Status}' libdnnl-dev 2>/dev/null | grep -q 'install ok installed' && onednn=ON
say "building into build/ ..."
mkdir -p "$out"
if ! { cmake -S "$root" -B "$root/build" -DCMAKE_BUILD_TYPE=Release -DKORCH_ONEDNN=$onednn &&
	cmake --build "$root/build" --target all korch-make-model --parallel "$(nproc)"; } >"$out/build.log" 2>&1; then
	tail -n 20 "$out/build.log" >&2
	say "quickstart.sh: the build failed; all of it is in build/quickstart/build.log"
	exit 1
fi
if [ -z "$model" ]; then
	model=$out/candy.onnx
	[ -f "$model" ] || "$bin/korch-make-model" candy "$model"
fi

name=$(basename "$model" .onnx)
plan() { printf '%s/%s.%s.korch' "$out" "$name" "$1"; }
tune() { "$bin/korch-submit" "$model" -o "$(plan "$1")" --fusion "$1" --budget "$budget" --json >"$out/${2:-$1}.json"; }
say "tuning $model (at most $budget s, and once more behind the baselines; a second run finds all of it in the cache, or goes on where that ended it) ..."
tune full || exit $?
say "the two baselines: one kernel per primitive, one per operator ..."
tune none
tune operator
# What was measured for the baselines may better the plan; a search that its budget ended goes on.
tune full again

field() { tail -n 1 "$out/$1.json" | sed -n "s/.*\"$2\": \([^,}]*\).*/\1/p"; }
median() { "$bin/korch-run" "$(plan "$1")" --repeat 5 --warmup 1 --json | tail -n 1 | sed -n 's/.*"median_ns": *\([0-9]*\).*/\1/p'; }
# Interleaved, so that drift of the machine meets all three; the median of the rounds counts.
: >"$out/times"
for round in 1 2 3 4 5; do
	for f in full operator none; do echo "$f $(median $f)" >>"$out/times"; done
done
middle() { awk -v f="$1" '$1 == f {print $2}' "$out/times" | sort -n | sed -n 3p; }
full=$(middle full) operator=$(middle operator) none=$(middle none)

awk -v model="$model" -v o="$(field full operators)" -v p="$(field full primitives)" \
	-v c="$(field full candidates)" -v d="$(field full distinct)" -v k="$(field full cached)" \
	-v m="$(field full measured)" -v again="$(field again measured)" -v n="$(field again chosen)" \
	-v s="$(field full seconds)" -v more="$(field again seconds)" \
	-v gap="$(field again gap)" -v proved="$(field again proved)" \
	-v full="$full" -v operator="$operator" -v none="$none" -v plan="$(plan full)" \
	-v cache="${XDG_DATA_HOME:-$HOME/.local/share}/korch" 'BEGIN {
	printf "\n%s\n", model
	printf "  operators %d -> primitives %d -> candidates %d -> distinct %d -> measured %d (and %d from the cache) -> kernels %d\n", o, p, c, d, m + again, k, n
	if (m + again == 0 && k > 0) printf "  nothing was measured: the cache knew every kernel that was needed\n"
	printf "  %s, tuned in %.1f s\n", (proved == "true" ? "proved the least total latency over all candidates" : sprintf("within %.1f %% of the proven bound", 100 * gap)), s + more
	printf "  plan                      %9.3f ms\n", full / 1e6
	printf "  one kernel per operator   %9.3f ms   %.2fx the time of the plan\n", operator / 1e6, operator / full
	printf "  one kernel per primitive  %9.3f ms   %.2fx\n", none / 1e6, none / full
	printf "  plan file   %s\n  cache       %s\n\n", plan, cache
	printf "run it:       build/bin/korch-run %s --profile\n", plan
}'
