#!/bin/bash
# tests/gpu/licence.sh WHAT...: nothing of it (folders, wheels, source distributions) is a tool of NVIDIA's or machine code
# of others, which may not be handed on: by name, and by what NVIDIA's programs say of themselves.  NVRTC may go along.
# The machine code under tests/golden/sass and tests/fuzz/corpus is of this generator's own kernels.  Prints how many files it saw.
set -u
bad=0 dir=$(mktemp -d "${TMPDIR:-/tmp}/korch-licence-XXXXXX")
trap 'rm -rf "$dir"' EXIT INT TERM
for what in "$@"; do
	folder=$what
	case $what in
	*.whl | *.zip) folder=$dir/x && rm -rf "$folder" && python3 -m zipfile -e "$what" "$folder" || exit 1 ;;
	*.tar.gz | *.tar.xz) folder=$dir/x && rm -rf "$folder" && mkdir "$folder" && tar xf "$what" -C "$folder" || exit 1 ;;
	esac
	[ -d "$folder" ] || { echo "licence.sh: no $what" >&2; exit 2; }
	n=$(find "$folder" -type f | wc -l)
	[ "$n" -gt 0 ] || { echo "$what: is empty"; bad=1; }
	named=$(find "$folder" -type f | grep -Ei '/(lib)?(nvdisasm|cuobjdump|ptxas|nvlink|fatbinary|cicc|cudafe[^/]*|nvcc|nvprune|cuda-gdb|compute-sanitizer)(\.[^/]*)?$')
	code=$(find "$folder" -type f \( -name '*.cubin' -o -name '*.fatbin' \) ! -path '*/tests/golden/sass/*' ! -path '*/tests/fuzz/corpus/*')
	inside=$(find "$folder" -type f ! -name 'libnvrtc*' ! -name '*.sh' ! -name '*.py' -exec grep -laE 'NVIDIA \(R\) (Cuda compiler|Ptx|CUDA disassembler|cuobjdump|fatbin|nvlink)|nvdisasm fatal' {} +)
	for file in $named $code $inside; do
		echo "$what: ${file#"$folder"/} may not be handed on"
		bad=1
	done
	echo "$(basename "$what"): $n files"
done
exit $bad
