#!/bin/bash
# tests/gpu/lease.sh OUT [OPTION...]: what a GPU that is there for ten minutes is asked, in phases, each under a time limit of
# its own; what is not done by 9:00 is left for the next call.  Figures are in OUT/figures.txt as soon as there are any,
# all that the programs said is in OUT/log.txt, what the tuned models' kernels took in OUT/rows.cache (korch-cache import), which phases are
# done in OUT/done.txt: the same call again goes on behind them.  It sets nothing on the device and never resets it.
#
#   --from=N        begin at phase N, done or not          --only=N,N     these phases alone
#   --then=2|3|4    the calls after the first: 2 a whole model at each precision (--model=FILE.onnx), 3 machine code
#                   perturbed (--model too), 4 the failed phases of the first call once more, with twice the time
#   --device=D      cuda:0, or a fake one (cuda-fake:gpu=h200,seed=1), on which little of each phase is done
#   --seconds=N     of the whole call (540)                --limit=N:S    S seconds for phase N
#
# It stands in a pack (tests/gpu/pack.sh), or finds one in .gpu of its checkout or in KORCH_PACK.  KORCH_CUDA_LIB: the folder
# of libnvrtc.so; otherwise it is looked for.  KORCH_TEST_PYTHON: the python3 that has torch.  Ends with 0 when no phase
# failed, 1 when one did, 75 when some are left, 78 without a pack.
set -u
self=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
here=${self%/*}
usage() { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$self"; }

out= from= only= then_=1 device=cuda:0 seconds=540 limit=0:0 model= phase=
for arg in "$@"; do
	value=${arg#*=}
	case $arg in
	-h | --help) usage; exit 0 ;;
	--from=*) from=$value ;; --only=*) only=,$value, ;; --then=*) then_=$value ;; --device=*) device=$value ;;
	--seconds=*) seconds=$value ;; --limit=*) limit=$value ;; --model=*) model=$value ;; --phase=*) phase=$value ;;
	-*) echo "lease.sh: no option '$arg'; --help lists them" >&2; exit 2 ;;
	*) out=$arg ;;
	esac
done
for number in "${from:-0}" "$seconds"; do
	case $number in '' | *[!0-9]*) echo "lease.sh: '$number' is no number" >&2; exit 2 ;; esac
done
[[ $limit =~ ^[0-9]+:[0-9]+$ ]] || { echo "lease.sh: --limit=$limit: it is PHASE:SECONDS, as 4:60" >&2; exit 2; }
case $then_ in [1234]) ;; *) echo "lease.sh: --then=$then_: it is 2, 3 or 4" >&2; exit 2 ;; esac
[ -n "$out" ] || { usage >&2; exit 2; }
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
pack=${KORCH_PACK:-$here}
[ -d "$pack/bin" ] || pack=$here/../../.gpu
[ -x "$pack/bin/bench-gpu" ] || { echo "lease.sh: no pack here: tests/gpu/pack.sh BUILD makes one, in .gpu" >&2; exit 78; }
pack=$(cd "$pack" && pwd)
figures=$out/figures.txt log=$out/log.txt done_=$out/done.txt
python=${KORCH_TEST_PYTHON:-python3}
case $device in cuda:*) fake= ;; *) fake=1 ;; esac

export PATH=$pack/bin:$PATH KORCH_LIBEXEC=$pack/bin PYTHONUNBUFFERED=1
export KORCH_SANDBOX_READ=$pack/lib${KORCH_SANDBOX_READ:+:$KORCH_SANDBOX_READ}
# What the programs keep for themselves is no result, and outlasts a call.
data=${TMPDIR:-/tmp}/korch-lease-$(id -u)
mkdir -p -m 0700 "$data" && [ -O "$data" ] || { echo "lease.sh: $data is not ours" >&2; exit 1; }
export XDG_DATA_HOME=$data XDG_CACHE_HOME=$data XDG_CONFIG_HOME=$data
unset KORCH_DAEMON KORCH_DATA KORCH_DEVICE KORCH_GPU

# ---- words -----------------------------------------------------------------------------------------------------
figure() { printf '%s: %s\n' "$name" "$*" | tee -a "$figures"; }
skip() { figure "SKIP: 1 part: $*"; }
# On the device, or so little of it that a fake one has done soon.
some() { if [ -z "$fake" ]; then echo "$1"; else echo "$2"; fi; }
# do_ PATTERN COMMAND...: its lines that fit are figures at once, all of them go to the log.  Its status.
do_() {
	local pattern=$1 status
	shift
	echo "== $name: $*" >>"$log"
	"$@" 2>&1 </dev/null | tee -a "$log" | while IFS= read -r line; do
		line=${line//$pack\//} line=${line//$data\//}
		[ -z "$model" ] || line=${line//$model/${model##*/}}
		[[ $line =~ $pattern ]] && figure "${line//$data/.}"
	done
	status=${PIPESTATUS[0]}
	[ "$status" = 0 ] || figure "FAILED with $status: $(tail -n 1 "$log")"
	return "$status"
}
# The first folder with an NVRTC: the one named, the loader's, CUDA's, one that came with python, the pack's.
find_nvrtc() {
	local dir
	for dir in "${KORCH_CUDA_LIB:-}" /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 /usr/local/cuda*/targets/*/lib \
	    $(ldconfig -p 2>/dev/null | sed -n 's|.*=> \(.*\)/libnvrtc\.so.*|\1|p') \
	    $("$python" -c 'import sys; print("\n".join(p + "/nvidia/" + d for p in sys.path for d in ("cuda_nvrtc/lib", "cu13/lib", "cu12/lib")))' 2>/dev/null); do
		if [ -n "$dir" ] && ls "$dir"/libnvrtc.so* >/dev/null 2>&1; then echo "$dir"; return; fi
	done
	if [ -f "$pack/nvrtc12.tar.gz" ]; then
		mkdir -p "$data/nvrtc12" && tar xzf "$pack/nvrtc12.tar.gz" -C "$data/nvrtc12" && echo "$data/nvrtc12"
	fi
}
bench() { # PATTERN ARGUMENT...
	local pattern=$1
	shift
	do_ "$pattern" bench-gpu --device="$device" "$@"
}

# ---- the first call ---------------------------------------------------------------------------------------------
p_starts() {
	local program missing bad=0
	for program in "$pack"/bin/*; do
		missing=$(ldd "$program" 2>&1 | grep -E 'not found|not a dynamic' | tr -s '\t\n ' ' ')
		[ -z "$missing" ] || { figure "FAILED: ${program##*/} does not start: $missing"; bad=1; }
	done
	[ $bad = 0 ] && figure "all $(ls "$pack/bin" | wc -l) programs find their libraries"
	if command -v nvidia-smi >/dev/null; then
		do_ '^ *(Product Name|Driver Version|CUDA Version|Compute Mode|Persistence Mode|MIG Mode|Current Power Limit|Default Power Limit|Max Customer Boost Clocks|Processes) *:' \
		    nvidia-smi -q || bad=1
	else
		skip "no nvidia-smi here"
	fi
	if [ -n "${KORCH_CUDA_LIB:-}" ]; then figure "NVRTC in $KORCH_CUDA_LIB"; else skip "no NVRTC found but where the loader looks"; fi
	ldconfig -p 2>/dev/null | grep -q libnvidia-ml && figure "NVML is here" || skip "no NVML where the loader looks"
	rm -f "$data/sandbox-off"
	if ! bench '^(device|driver=|calibration|random graphs)' --graphs=1; then
		# no GPU has met the sandbox's list of what a driver may call: is it that?
		export KORCH_SANDBOX=off
		if bench '^(device|driver=|calibration|random graphs)' --graphs=1; then
			figure "FAILED in the sandbox, and works without it (KORCH_SANDBOX=off): so do the phases behind this one; log.txt says what was refused"
			: >"$data/sandbox-off"
		fi
		bad=1
	fi
	return $bad
}
p_calibration() { bench '^(calibration|repeats)' --repeat="$(some 5 2)"; }
p_graphs() {
	local bad=0
	bench '^(random graphs|schedule|task)' --graphs="$(some 40 3)" || bad=1
	for precision in tf32:0.004 f16:0.004 bf16:0.03; do
		figure "$precision"
		bench '^(random graphs|schedule|task)' --graphs="$(some 20 1)" --precision=$precision || bad=1
	done
	return $bad
}
p_kernels() { bench '^(row|task)|specs,' --effort="$(some 3 1)" --specs="$pack/kernels/$(some kernels small).txt"; }
p_sanitizer() {
	local tool bad=0 sanitizer
	sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
	if [ -n "$fake" ] || [ -z "$sanitizer" ]; then
		skip "compute-sanitizer: no real device, or it is not here"
		return 0
	fi
	for tool in memcheck racecheck; do
		do_ '^(=+ (ERROR|Error|RACECHECK|Invalid)|random graphs)' timeout 28 "$sanitizer" --tool $tool --target-processes all \
		    --error-exitcode 9 bench-gpu --device="$device" --graphs=2 || bad=1
	done
	return $bad
}
# tune MODEL PRECISION SECONDS: to the end of the chain, and whether its answers are the reference's
tune() {
	local folder=$pack/models/$1 plan=$data/$1-$2.korch bad=0
	do_ . korch-submit --data "$data/data" --device "$device" --precision "$2" --budget "$3" \
	    --threads 1 -q -o "$plan" "$folder/model.onnx" || return 1
	do_ '^(plan|device|precision|kernels|expected|bound)' korch-plan show "$plan" --top 1
	if [ -n "$fake" ]; then
		skip "$1 $2: a plan runs on no fake device"
		return 0
	fi
	do_ '^(agrees|differs|.*off by)' korch-run "$plan" --data "$data/data" --check "$folder" --gpu "${device#cuda:}" $([ "$2" = f32 ] || echo --rel 1e-2) || bad=1
	do_ '^(median|  )' korch-run "$plan" --data "$data/data" --repeat 50 --profile --top 10 --gpu "${device#cuda:}" || bad=1
	return $bad
}
# What was measured, for a cache elsewhere: the device is gone with this call.
keep_rows() { do_ . korch-cache export -o "$out/rows.cache" --data "$data/data"; }
p_models() {
	local bad=0
	tune candy_small f32 "$(some 30 10)" || bad=1
	tune efficientvit_b1_small f16 "$(some 30 2)" || bad=1
	keep_rows || bad=1
	return $bad
}
p_peers() {
	do_ '^(peer|SKIP)' "$python" -B "$pack/peers_time.py" --device="$(some cuda cpu)" $([ -z "$fake" ] || echo --small --seconds=3)
}

# ---- the calls after it -----------------------------------------------------------------------------------------
p_model_f32() { whole f32; }
p_model_tf32() { whole tf32; }
p_model_f16() { whole f16; }
p_model_own() { whole f16 --libraries none; }
whole() { # PRECISION WORDS...
	local precision=$1 plan bad=0
	shift
	[ -n "$model" ] || model=$pack/models/efficientvit_b1_small/model.onnx
	plan=$data/whole-$precision.korch
	if [ $# -gt 0 ]; then # libraries are the worker's choice
		export KORCH_LIBRARIES=none
	fi
	do_ . korch-submit --data "$data/data$#" --device "$device" --precision "$precision" \
	    --budget "$(some 100 2)" --threads 1 -q -o "$plan" "$model" || return 1
	[ -z "$fake" ] || { skip "a plan runs on no fake device"; return 0; }
	do_ '^(median|  )' korch-run "$plan" --data "$data/data$#" --repeat 100 --profile --top 20 --gpu "${device#cuda:}" || bad=1
	return $bad
}
p_perturb() {
	local precision plan
	if ! korch-submit --help 2>&1 | grep -q -- --perturb; then
		skip "this korch-submit knows no --perturb"
		return 0
	fi
	export KORCH_LIBRARIES=none # a library's call is not ours to perturb
	for precision in $(some "f32 f16" f32); do
		plan=$data/perturbed-$precision.korch
		do_ . korch-submit --data "$data/own" --device "$device" --precision $precision --perturb="$(some 90 6)" \
		    --budget "$(some 170 50)" $(some '' '--effort 1 --fusion operator') --threads 1 -q -o "$plan" \
		    "${model:-$pack/models/candy_small/model.onnx}" || return 1
		do_ '^ *perturbed:' korch-plan explain "$plan" --data "$data/own" || return 1
	done
}

# number, seconds, name of the phases of a call
phases() {
	case $then_ in
	2) printf '%s\n' "1 135 model_f32" "2 135 model_tf32" "3 135 model_f16" "4 135 model_own" ;;
	3) printf '%s\n' "1 30 starts" "2 400 perturb" ;;
	*) printf '%s\n' "1 40 starts" "2 20 calibration" "3 90 graphs" "4 150 kernels" "5 60 sanitizer" "6 90 models" "7 90 peers" ;;
	esac
}

name=${phase:-lease}
if [ -n "$phase" ]; then
	KORCH_CUDA_LIB=$(find_nvrtc)
	export KORCH_CUDA_LIB
	[ -n "$KORCH_CUDA_LIB" ] && KORCH_SANDBOX_READ=$KORCH_SANDBOX_READ:$KORCH_CUDA_LIB || unset KORCH_CUDA_LIB
	[ ! -f "$data/sandbox-off" ] || export KORCH_SANDBOX=off
	"p_$phase"
	exit $?
fi

# ---- one call -----------------------------------------------------------------------------------------------------
is_done() { grep -qs "^$then_ $1 ok" "$done_"; }
is_wanted() {
	if [ $then_ = 4 ]; then # what failed when it was last done in the first call
		[[ $(grep -s "^1 $1 " "$done_" | tail -n 1) = *failed* ]] && ! is_done "$1"
		return
	fi
	[ -z "$only" ] || { [[ $only = *,$1,* ]]; return; }
	[ -z "$from" ] || { [ "$1" -ge "$from" ]; return; }
	! is_done "$1"
}
passed=0 failed=0 left=0
figure "call $then_ on $device, $(date -u +%Y-%m-%dT%H:%MZ), $(uname -m), $(ldd --version 2>/dev/null | sed -n '1s/.* //p') of libc"
[ $then_ = 1 ] && [ -z "$only$from" ] && figure "written down before: on an H100 GEMM 4096 takes 0.63 ms at f16, 1.1 at TF32, 4.2 at f32; torch's f16 0.19; softmax 50-57 us (floor 40), LayerNorm 15-20 (floor 10)"
while read -r number most title; do
	is_wanted "$number" || continue
	[ $then_ != 4 ] || most=$((2 * most))
	[ "$number" != "${limit%%:*}" ] || most=${limit#*:}
	if [ $((seconds - SECONDS)) -lt $((most < 10 ? most : 10)) ]; then
		figure "no time left for phase $number ($title): go on with --from=$number"
		left=$((left + 1))
		continue
	fi
	most=$((most < seconds - SECONDS ? most : seconds - SECONDS)) start=$SECONDS
	timeout -k 5 "$most" "$BASH" "$self" "$out" --phase="$title" --device="$device" --then=$then_ --model="$model" </dev/null
	status=$?
	case $status in
	0) passed=$((passed + 1)) word=ok ;;
	124 | 137) failed=$((failed + 1)) word="failed: ended by its limit of $most s" ;;
	*) failed=$((failed + 1)) word="failed with $status" ;;
	esac
	echo "$then_ $number $word" >>"$done_"
	figure "phase $number ($title): $word, $((SECONDS - start)) s"
done < <(phases)
figure "$passed phases passed, $failed failed, $left left; SKIPs are counted above"
[ $failed = 0 ] || exit 1
[ $left = 0 ] || exit 75
