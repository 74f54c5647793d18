#!/bin/sh
# bundle.sh BUILD OUT [SM...]: puts korch-worker and korch-measure for hosts with nothing installed
# but glibc into OUT: third-party libraries are linked from their archives.  For each architecture
# named (70, 80, 90 ...) the NVRTC that knows it comes from PyPI into OUT/nvrtcN; start the worker
# with KORCH_CUDA_LIB=OUT/nvrtcN.  A host that has the CUDA toolkit needs none.
#
# The hosts need glibc 2.28 or later where old_glibc.sh can build for it (it needs the network once), else 2.34,
# which it says.  KORCH_BUNDLE_GLIBC=2.34 does not try; 2.28 takes nothing else.
set -eu
if [ $# -lt 2 ]; then
	echo "usage: deploy/bundle.sh BUILD OUT [SM...]: a configured build folder, where to put the bundle, and the GPUs (70, 80, ...) that need NVRTC" >&2
	exit 2
fi
build=$1 out=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
glibc=${KORCH_BUNDLE_GLIBC:-}
mkdir -p "$out"
if [ "$glibc" != 2.34 ]; then
	if "$here/old_glibc.sh" "$build" "$out"; then
		glibc=2.28
	elif [ "$glibc" = 2.28 ]; then
		exit 78
	else
		echo "bundle.sh: built for glibc 2.34 instead: RHEL 8 and Ubuntu 20.04 hosts cannot join with it" >&2
		glibc=2.34
	fi
fi
libs=$(gcc -print-file-name=libuv_a.a)
[ "$glibc" = 2.28 ] || [ -f "$libs" ] || { echo "bundle.sh: no static libraries here: apt-get install libuv1-dev and those of deploy/packages.txt" >&2; exit 78; }
libs=$(dirname "$libs")
mkdir -p "$out"
out=$(cd "$out" && pwd)

# A build with oneDNN gives a bundle without: this object stands before the library's own, so that nothing asks for it.
root=$(cd "$(dirname "$0")/.." && pwd)
plain=$out/cpu_library.o
gcc -std=gnu11 -O2 -fPIC -D_GNU_SOURCE -c "$root/kernels/vendor/cpu_library.c" -o "$plain"
trap 'rm -f "$plain"' EXIT

# link FOLDER PROGRAM OBJECT: the link line that CMake made, with archives in place of shared libraries.
link() {
	line=$(sed -e "s|-o [^ ]*bin/$2|$3 -o '$out/$2'|" -e "s|[^ ]*/libdnnl\.[^ ]*||" \
	    -e "s|-lnng|$libs/libnng.a $libs/libmbedtls.a $libs/libmbedx509.a $libs/libmbedcrypto.a|" \
	    -e "s|-lmbedcrypto|$libs/libmbedcrypto.a|" -e "s|-lmsgpackc|$libs/libmsgpackc.a|" \
	    -e "s|-lsqlite3|$libs/libsqlite3.a|" -e "s|-lzstd|$libs/libzstd.a|" -e "s|-luv|$libs/libuv_a.a|" \
	    "$build/$1/CMakeFiles/$2.dir/link.txt")
	(cd "$build/$1" && eval "$line -static-libgcc -s")
}
if [ "$glibc" = 2.34 ]; then
	link worker korch-worker "'$plain'"
	link worker korch-measure "'$plain'"
	link kernels korch-jail ""
fi
echo "for hosts with glibc $glibc or later"

# CUDA 13 has dropped Volta; 12.4 is a quarter of the size of later ones and knows up to sm_90.
nvrtc() {
	case $1 in
	12) set -- nvidia-cuda-nvrtc-cu12==12.4.127 nvrtc12 ;;
	13) set -- nvidia-cuda-nvrtc==13.0.88 nvrtc13 ;;
	esac
	[ -d "$out/$2" ] && return 0
	wheel=$(mktemp -d)
	python3 -m pip download -q --no-deps --only-binary=:all: -d "$wheel" "$1"
	python3 -m zipfile -e "$wheel"/*.whl "$wheel/x"
	mkdir -p "$out/$2"
	find "$wheel/x" -name 'libnvrtc*.so*' ! -name '*.alt*' -exec cp {} "$out/$2/" \;
	rm -rf "$wheel"
}
for sm in "$@"; do
	case $sm in
	[5-9][0-9]) nvrtc 12 ;;
	*) nvrtc 13 ;;
	esac
done
ls -l "$out"
