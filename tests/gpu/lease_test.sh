#!/bin/bash
# tests/gpu/lease_test.sh BUILD: the pack holds what it must and nothing that it must not, and its programs stand on its own
# libraries; lease.sh walks through its phases on a fake GPU, keeps figures at once, survives a phase that hangs, goes on
# where it was; what is handed on elsewhere (an installation) is clean, too.
set -u
build=$(cd "${1:?lease_test.sh BUILD}" && pwd) || exit 2
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/korch-lease-test-XXXXXX")
trap 'rm -rf "$dir"' EXIT INT TERM
export TMPDIR=$dir XDG_RUNTIME_DIR=$dir
unset KORCH_CUDA_LIB KORCH_PACK KORCH_DATA KORCH_DAEMON KORCH_LIBEXEC
passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAILED $*"; }
# must STATUS PATTERN COMMAND...
must() {
	local status=$1 pattern=$2 got
	shift 2
	"$@" >"$dir/said" 2>&1 </dev/null
	got=$?
	if [ $got = "$status" ] && grep -qE -- "$pattern" "$dir/said"; then ok; else bad "$*: exit $got, not $status with '$pattern': $(tail -n 5 "$dir/said")"; fi
}
has() { grep -qE -- "$1" "$2" && ok || bad "no '$1' in ${2##*/}: $(tail -n 30 "$2")"; }

# ---- the pack ------------------------------------------------------------------------------------------------------
pack=$dir/pack
must 0 ' KiB; on the GPU host' "$here/pack.sh" "$build" "$pack"
[ $failed = 0 ] || { grep -q 'link.txt' "$dir/said" && echo "SKIP lease: no build of Makefiles" && exit 77; exit 1; }
must 0 'pack: [0-9]+ files' "$here/licence.sh" "$pack"
[ "$(du -sk --apparent-size "$pack" | cut -f1)" -le $((46 * 1024)) ] && ok || bad "the pack is larger than 46 MiB"
for program in "$pack"/bin/*; do
	ldd "$program" | grep -q libdnnl && bad "$program wants oneDNN"
	strays=$(ldd "$program" | sed -n 's|.* => \(/[^ ]*\) .*|\1|p' | grep -v "^$pack/bin/\.\./lib/" | grep -Ev '/(lib(c|m|dl|rt|pthread|resolv)\.so|ld-linux)')
	[ -z "$strays" ] && ok || bad "${program##*/} takes libraries of the host: $strays"
	readelf -S "$program" | grep -q '\.symtab' && bad "${program##*/} is not stripped"
done
# what is not ours is found under any name
mkdir -p "$dir/others/bin" && cp "$pack/bin/korch-jail" "$dir/others/bin/ptxas" && printf 'x' >"$dir/others/k.cubin"
must 1 'bin/ptxas may not be handed on' "$here/licence.sh" "$dir/others"
must 1 'k.cubin may not be handed on' "$here/licence.sh" "$dir/others"
rm "$dir/others/bin/ptxas" "$dir/others/k.cubin"
printf '\177ELF nvdisasm fatal   : no input' >"$dir/others/tool"
must 1 'tool may not be handed on' "$here/licence.sh" "$dir/others"
must 0 'Installing' cmake --install "$build" --prefix "$dir/prefix"
must 0 'prefix: [0-9]+ files' "$here/licence.sh" "$dir/prefix"
must 2 'usage' "$here/pack.sh"

# ---- calls that are wrong ----------------------------------------------------------------------------------------------
must 2 'OUT' "$pack/lease.sh"
must 2 "no option '--form=3'" "$pack/lease.sh" "$dir/out" --form=3
must 2 "'soon' is no number" "$pack/lease.sh" "$dir/out" --seconds=soon
must 2 "PHASE:SECONDS" "$pack/lease.sh" "$dir/out" --limit=5
must 2 'it is 2, 3 or 4' "$pack/lease.sh" "$dir/out" --then=5
must 78 'pack.sh BUILD makes one' env KORCH_PACK=/nowhere bash -c "cp '$pack/lease.sh' '$dir/alone.sh' && '$dir/alone.sh' '$dir/out'"
if [ ! -e /dev/nvidia0 ]; then
	must 1 'phase 2 \(calibration\): failed' "$pack/lease.sh" "$dir/none" --only=2
	has 'calibration: FAILED with 78: bench-gpu: no GPU can be used' "$dir/none/figures.txt"
fi

# ---- a phase that hangs is ended, what it said is kept, the rest goes on -----------------------------------------------
fake="--device=cuda-fake:gpu=h200,seed=1"
mv "$pack/bin/bench-gpu" "$pack/bin/bench-real"
cat >"$pack/bin/bench-gpu" <<'END'
#!/bin/sh
case "$*" in
*--specs=*) echo "row before | default | f32 | 1 ns"; exec tail -f /dev/null ;;
*) exec "$(dirname "$0")/bench-real" "$@" ;;
esac
END
chmod +x "$pack/bin/bench-gpu"
must 1 'phase 4 \(kernels\): failed: ended by its limit of 10 s' "$pack/lease.sh" "$dir/out" "$fake" --only=4,5 --limit=4:10
has '^kernels: row before' "$dir/out/figures.txt"
has '^lease: phase 5 \(sanitizer\): ok' "$dir/out/figures.txt"
has '^1 4 failed' "$dir/out/done.txt"
# ---- a sandbox that keeps the driver from working: found out, said, and gone on without -------------------------------
cat >"$pack/bin/bench-gpu" <<'END'
#!/bin/sh
[ "${KORCH_SANDBOX:-}" = off ] || { echo "bench-gpu: no GPU can be used: Operation not permitted" >&2; exit 78; }
exec "$(dirname "$0")/bench-real" "$@"
END
must 1 'phase 2 \(calibration\): ok' "$pack/lease.sh" "$dir/jailed" "$fake" --only=1,2
has '^starts: FAILED in the sandbox, and works without it' "$dir/jailed/figures.txt"
mv "$pack/bin/bench-real" "$pack/bin/bench-gpu"

# ---- the whole of it, in two calls; what is done is not done again -----------------------------------------------------
must 75 'no time left for phase 4 \(kernels\): go on with --from=4' "$pack/lease.sh" "$dir/late" "$fake" --seconds=0
must 0 '[0-9] phases passed, 0 failed, 0 left' "$pack/lease.sh" "$dir/out" "$fake" --only=4
must 0 'phases passed, 0 failed, 0 left' "$pack/lease.sh" "$dir/out" "$fake"
for line in '^starts: all [0-9]+ programs find their libraries' '^starts: device cuda:Fake-H200' '^calibration: calibration: [0-9.]+ us a launch' \
    '^calibration: repeats: 2 medians' '^graphs: random graphs: 3 specs, [0-9]+ kernels, [0-9]+ right and timed, 0 specs without any' '^graphs: f16:0.004' \
    '^kernels: row gemm . trace=1 . f32 . [0-9]+ ns . [0-9.]+ (TFLOP|GB)/s . bound [0-9]+ . predicted 2000 .*regs 32 . blocks 32' \
    '^kernels: row gemm . tm=2 tn=2 ' '^sanitizer: SKIP: 1 part' '^models: .*candy_small-f32.korch (takes|runs in) ' '^peers: (SKIP: 1 part|peer )'; do
	has "$line" "$dir/out/figures.txt"
done
[ "$(grep -c '^lease: phase 4 ' "$dir/out/figures.txt")" = 2 ] && ok || bad "phase 4 was done again, or never"
[ "$(find "$dir/out" -type f | wc -l)" -le 8 ] && ok || bad "more than figures in OUT: $(ls "$dir/out")"
must 0 '0 phases passed, 0 failed, 0 left' "$pack/lease.sh" "$dir/out" "$fake"
must 0 '^sanitizer: SKIP.*' "$pack/lease.sh" "$dir/out" "$fake" --only=5
# the calls after it: what failed in the first is done once more; nothing is left to do for the others without a device
echo '1 2 failed with 1' >>"$dir/out/done.txt"
must 0 'phase 2 \(calibration\): ok' "$pack/lease.sh" "$dir/out" "$fake" --then=4
[ "$(grep -c 'phase .*: ok' "$dir/said")" = 1 ] && ok || bad "--then=4 did more: $(cat "$dir/said")"
must 0 'phase 1 \(starts\): ok' "$pack/lease.sh" "$dir/out" "$fake" --then=3 --only=1
# machine code perturbed: of a model so small that its search ends by itself
(cd "$here/../e2e" && python3 -B - "$dir/two.onnx") <<'END' || bad "no model"
import sys
sys.path.insert(0, ".")
from onnx_write import F32, graph, model, node, tensor, value
w = [((7 * i) % 13 - 6) / 16 for i in range(32 * 32)]
nodes = [node("MatMul", ["x", "w"], ["a"], "first"), node("Exp", ["a"], ["y"], "exp")]
open(sys.argv[1], "wb").write(model(graph(nodes, [value("y", F32, [64, 32])], [value("x", F32, [64, 32])],
                                          [tensor("w", F32, [32, 32], w)])))
END
must 0 'phase 2 \(perturb\): ok' "$pack/lease.sh" "$dir/out" "$fake" --then=3 --only=2 --model="$dir/two.onnx"
has '^perturb: [1-9][0-9]* of [1-9][0-9]* kernels are faster with their instructions in another order' "$dir/out/figures.txt"
has '^perturb: +perturbed: [1-9][0-9]* moves? of its instructions, [0-9.]+ % faster than as compiled' "$dir/out/figures.txt"
! grep -q "$dir" "$dir/out/figures.txt" && ok || bad "figures name folders: $(grep "$dir" "$dir/out/figures.txt")"
grep -h 'SKIP: 1 part' "$dir/out/figures.txt" | sed 's/^[a-z]*: //' | sort -u
echo "$passed passed, $failed failed"
[ $failed = 0 ]
