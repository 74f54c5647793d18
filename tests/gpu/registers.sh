#!/bin/bash
# tests/gpu/registers.sh BUILD: what kernels/sass says each instruction of the golden machine code reads and writes is what
# nvdisasm says, no GPU needed; and a disassembler that lies about one register is noticed. KORCH_NVDISASM names the
# disassembler, several with ':': that of CUDA 13 reads its own cubins alone, and no sm_70. Without one it is skipped.
set -u
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
if [ -z "${KORCH_NVDISASM:-}" ]; then
	echo "SKIP: KORCH_NVDISASM names no nvdisasm"
	exit 77
fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/korch-registers-XXXXXX")
trap 'rm -rf "$dir"' EXIT INT TERM

# The first of those named that reads it; the lie: the first FFMA writes nothing.
cat >"$dir/liar" <<'END'
#!/bin/bash
IFS=: read -ra tools <<<"$KORCH_TEST_NVDISASM"
for tool in "${tools[@]}"; do
	text=$("$tool" "$@" 2>/dev/null) && break
done
awk '/ FFMA .*\/\/ .*x/ && !lied {sub(/x/, ":", $0); lied = 1} {print}' <<<"$text"
END
chmod +x "$dir/liar"
export KORCH_TEST_NVDISASM=$KORCH_NVDISASM
if KORCH_NVDISASM=$dir/liar "$build/bin/bench-registers" "$here/golden/sass/gemm_f32_1_sm80.cubin" >"$dir/out" || ! grep -q ' 1 wrong$' "$dir/out"; then
	cat "$dir/out"
	grep -q "no disassembler" "$dir/out" && echo "SKIP: none of $KORCH_NVDISASM reads the golden machine code" && exit 77
	echo "a register that is not written was not missed"
	exit 1
fi
"$build/bin/bench-registers" "$here"/golden/sass/{attention,layernorm,gemm_f16,conv_tf32}*.cubin | tee "$dir/out"
[ "${PIPESTATUS[0]}" = 0 ]
