#!/usr/bin/env bash
# What cuda_library.def and cuda_value.def of kernels/vendor say of cuBLASLt and cuDNN is what NVIDIA's headers say: every
# argument of the same size and kind, every constant of the same value.  SKIP where the headers are not.
set -u
cd "$(dirname "$0")/../.."
include=${CUDA_HOME:-/usr/local/cuda}/include
for need in cublasLt.h cudnn_graph.h; do
	[ -f "$include/$need" ] || { echo "SKIP: no $include/$need"; exit 77; }
done
command -v c++ >/dev/null || { echo "SKIP: no C++ compiler"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A row a line: field|arguments|the first of its names.
names() {
	sed -n '/^'"$1"'(/,/")$/p' kernels/vendor/cuda_library.def | tr '\n' ' ' | sed 's/") */")\n/g' |
		sed -n 's/^'"$1"'(\([a-z_]*\), (\(.*\)), *M[A-Z]*, *"\([A-Za-z]*\)[^"]*")$/\1|\2|\3/p'
}
{
	cat <<-'EOF'
	#include <cstddef>
	#include <cstdint>
	#include <type_traits>
	#include <cublasLt.h>
	#include <cudnn_graph.h>
	template <class A, class B> constexpr bool alike = sizeof(A) == sizeof(B) &&
	    std::is_pointer<A>::value == std::is_pointer<B>::value && std::is_floating_point<A>::value == std::is_floating_point<B>::value;
	template <class R, class... A, class S, class... B> constexpr bool same(R (*)(A...), S (*)(B...))
	{
		if constexpr (sizeof...(A) != sizeof...(B) || !alike<R, S>)
			return false;
		else
			return (alike<A, B> && ...);
	}
	#define LT_VALUE(OURS, V, THEIRS) static_assert((V) == (int)(THEIRS), #THEIRS);
	#define DNN_VALUE(OURS, V, THEIRS) static_assert((V) == (int)(THEIRS), #THEIRS);
	#include "kernels/vendor/cuda_value.def"
	struct found { uint64_t algo[8]; size_t workspace; int state; float waves; int reserved[4]; };
	static_assert(sizeof(found) == sizeof(cublasLtMatmulHeuristicResult_t), "heuristic result");
	static_assert(offsetof(found, workspace) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize), "workspace");
	static_assert(offsetof(found, state) == offsetof(cublasLtMatmulHeuristicResult_t, state), "state");
	static_assert(sizeof(cublasLtMatmulAlgo_t) == 64, "algorithm");
	EOF
	for lib in LT DNN; do
		names $lib | while IFS='|' read -r field args name; do
			echo "static_assert(same((int (*)($args))nullptr, &$name), \"$field: $name\");"
		done
	done
} >"$work/check.cpp"
n=$(grep -c 'static_assert(same(' "$work/check.cpp")
want=$(grep -cE '^(LT|DNN)\(' kernels/vendor/cuda_library.def)
[ "$n" = "$want" ] || { echo "$n of $want functions were understood"; exit 1; }
c++ -std=c++17 -w -I"$include" -I. -c "$work/check.cpp" -o "$work/check.o" || { echo "1 faults"; exit 1; }
echo "$n functions, $(grep -cE '^(LT|DNN)_VALUE\(' kernels/vendor/cuda_value.def) constants: 0 faults"
