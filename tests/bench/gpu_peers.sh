#!/bin/sh
# Machine code of others, for programs that read it: tests/bench/gpu_peers.sh OUT [--only NAME-PART].  Needs no GPU.
# Triton's kernels (triton_kernels.py, by KORCH_TEST_PYTHON, an interpreter that has triton; else python3) and CUTLASS's
# (cutlass_kernels.py: nvcc in PATH and the headers of the PyPI package nvidia-cutlass, or KORCH_CUTLASS=FOLDER) as
# OUT/*.cubin, and a line each in OUT/peers.list:
#
#     FILE SM WARPS STAGES REGISTERS SHARED-BYTES BLOCKS-PER-MULTIPROCESSOR
#
# Warps are those of a block; lines that begin with # are words.  Ends with 77 where neither is at hand.
set -u
out=${1:?usage: gpu_peers.sh OUT [--only NAME-PART]}
shift
here=$(cd "$(dirname "$0")" && pwd)
python=${KORCH_TEST_PYTHON:-python3}
mkdir -p "$out" || exit 1
rm -f "$out/triton.list" "$out/cutlass.list" "$out/peers.list"
end=77
for maker in triton cutlass; do
	TRITON_CACHE_DIR="${TRITON_CACHE_DIR:-$out/.triton}" "$python" "$here/${maker}_kernels.py" "$out" "$@"
	case $? in
	0) [ "$end" = 1 ] || end=0 ;;
	77) ;;
	*) end=1 ;;
	esac
done
if [ "$end" = 0 ]; then
	cat "$out"/triton.list "$out"/cutlass.list 2>/dev/null | sed '2,${/^#/d}' >"$out/peers.list"
fi
rm -rf "$out/.triton"
exit "$end"
