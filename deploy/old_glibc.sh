#!/bin/sh
# old_glibc.sh BUILD OUT: korch-worker and korch-measure for hosts with glibc 2.28 (RHEL 8, Ubuntu 20.04) and
# later, into OUT.  BUILD is a configured build folder, for its kind of build alone.  Compiler and libraries are those
# of old_glibc_libs.sh.  Ends with 78 where they cannot be had.
set -eu
if [ $# -lt 2 ]; then
	echo "usage: deploy/old_glibc.sh BUILD OUT: a configured build folder and where to put the programs" >&2
	exit 2
fi
build=$1 out=$2
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)
build=$(cd "$build" && pwd)/glibc-2.28
toolchain=$("$here/deploy/old_glibc_libs.sh")
mkdir -p "$build"
unset CMAKE_C_COMPILER_LAUNCHER
cmake -S "$here" -B "$build" --toolchain "$toolchain" -DCMAKE_BUILD_TYPE=Release >"$build/log" 2>&1 &&
	cmake --build "$build" -j"$(nproc)" --target korch-worker --target korch-measure --target korch-jail >>"$build/log" 2>&1 || {
	echo "old_glibc.sh: the programs do not build: see $build/log" >&2
	exit 78
}
for program in korch-worker korch-measure korch-jail; do
	cp "$build/bin/$program" "$out/"
done
