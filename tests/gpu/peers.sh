#!/bin/bash
# tests/gpu/peers.sh BUILD: machine code of others (tests/bench/gpu_peers.sh) is made, and its list says what it is: the
# blocks a multiprocessor holds by known answers; where Triton (KORCH_TEST_PYTHON) or nvcc with CUTLASS's headers is at
# hand, two of their kernels each, their registers read off the cubin.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d "${TMPDIR:-/tmp}/korch-peers-XXXXXX")
trap 'rm -rf "$dir"' EXIT INT TERM
python=${KORCH_TEST_PYTHON:-python3}

# sm, warps, registers, bytes of shared memory: blocks, as CUDA's occupancy calculator has them
"$python" -B - "$here/bench" <<'END' || exit 1
import sys
sys.path.insert(0, sys.argv[1])
import cubin_list
KNOWN = [((80, 4, 228, 65536), 2), ((80, 8, 170, 0), 1), ((80, 8, 128, 0), 2), ((80, 8, 32, 0), 8), ((80, 1, 16, 0), 32),
         ((80, 4, 64, 81920), 2), ((80, 4, 64, 82945), 1), ((86, 8, 32, 0), 6), ((90, 4, 168, 73728), 3), ((70, 8, 64, 49152), 2)]
bad = [(k, cubin_list.blocks(*k), n) for k, n in KNOWN if cubin_list.blocks(*k) != n]
if bad:
    sys.exit(f"cubin_list.blocks: {bad}")
END

for maker in triton cutlass; do
	"$python" -B "$here/bench/${maker}_kernels.py" "$dir" --only gemm_f32 >"$dir/out" 2>"$dir/err"
	status=$?
	if [ $status = 77 ]; then
		echo "SKIP: 1 part: $(sed -n "s/^skipped: //p" "$dir/err")"
		continue
	fi
	if [ $status != 0 ] || ! [ -s "$dir/$maker.list" ]; then
		cat "$dir/out" "$dir/err"
		exit 1
	fi
	grep -v '^#' "$dir/$maker.list" | while read -r file sm warps _ registers _ blocks more; do
		if [ "$(head -c 4 "$dir/$file" | tail -c 3)" != ELF ] || [ -n "$more" ] || [ "$registers" -lt 16 ] || [ "$registers" -gt 255 ] ||
			[ "$blocks" -lt 1 ] || [[ $file != "${maker}"_*_w"${warps}"_*_sm"$sm".cubin ]]; then
			echo "$file: not as its line says: $sm $warps $registers $blocks $more"
			exit 1
		fi
		echo "$file: $registers registers, $blocks blocks a multiprocessor"
	done || exit 1
done
