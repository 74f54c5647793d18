#!/bin/sh
# old_glibc.sh BUILD OUT: korch-worker and korch-measure for hosts with glibc 2.28 (RHEL 8, Ubuntu 20.04) and
# later, into OUT.  BUILD is a configured build folder, for its kind of build alone.  Needs the network once: the
# compiler is Zig's (PyPI's ziglang: clang with the symbols of every glibc), the libraries are Debian's source
# packages, built by it into a cache ($XDG_CACHE_HOME/korch/glibc-2.28).  Ends with 78 where that cannot be had.
set -eu
if [ $# -lt 2 ]; then
	echo "usage: deploy/old_glibc.sh BUILD OUT: a configured build folder and where to put the programs" >&2
	exit 2
fi
build=$1 out=$2
glibc=2.28 zig_version=0.13.0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/korch/glibc-$glibc
prefix=$cache/prefix
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$cache/src" "$cache/bin" "$cache/build" "$out"
out=$(cd "$out" && pwd)
build=$(cd "$build" && pwd)
export ZIG_GLOBAL_CACHE_DIR="$cache/zig-cache" ZIG_LOCAL_CACHE_DIR="$cache/zig-cache"
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER

cannot() {
	echo "old_glibc.sh: $1" >&2
	exit 78
}

get_zig() {
	[ -x "$cache/zig/ziglang/zig" ] && return 0
	python3 -m pip download -q --no-deps --only-binary=:all: -d "$cache" "ziglang==$zig_version" ||
		cannot "no compiler: PyPI gives no ziglang"
	python3 -m zipfile -e "$cache"/ziglang-*.whl "$cache/zig"
	rm -f "$cache"/ziglang-*.whl
	chmod +x "$cache/zig/ziglang/zig"
}

tool() { # name, words for zig
	printf '#!/bin/sh\nexec %s %s "$@"\n' "$cache/zig/ziglang/zig" "$2" >"$cache/bin/$1"
	chmod +x "$cache/bin/$1"
}

# Debian's sources by a configuration of its own: the system's lists stay as they are.
get_sources() {
	[ -f "$cache/src/.all" ] && return 0
	mkdir -p "$cache/apt/lists/partial" "$cache/apt/cache/archives/partial"
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main" \
		>"$cache/apt/sources.list"
	cat >"$cache/apt/apt.conf" <<-EOF
	Dir::Etc::sourcelist "$cache/apt/sources.list";
	Dir::Etc::sourceparts "-";
	Dir::State::lists "$cache/apt/lists";
	Dir::Cache "$cache/apt/cache";
	EOF
	(cd "$cache/src" && export APT_CONFIG="$cache/apt/apt.conf" && apt-get -qq update && rm -rf ./*/ &&
		apt-get -qq source --only-source nng msgpack-c libuv1 sqlite3 mbedtls libzstd) ||
		cannot "no sources: deb.debian.org gives none"
	touch "$cache/src/.all"
}

with_cmake() { # folder below src, options
	dir=$(cd "$cache/src" && cd $1 && pwd)
	name=$(echo "$1" | cut -d- -f1)
	shift
	[ -f "$cache/build/$name.done" ] && return 0
	cmake -S "$dir" -B "$cache/build/$name" -DCMAKE_C_COMPILER="$cache/bin/cc" -DCMAKE_AR="$cache/bin/ar" \
		-DCMAKE_RANLIB="$cache/bin/ranlib" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
		-DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF "$@" >"$cache/build/$name.log" 2>&1 &&
		cmake --build "$cache/build/$name" -j"$(nproc)" --target install >>"$cache/build/$name.log" 2>&1 ||
		cannot "$name does not build: see $cache/build/$name.log"
	touch "$cache/build/$name.done"
}

with_sqlite() {
	[ -f "$cache/build/sqlite3.done" ] && return 0
	command -v tclsh >/dev/null || cannot "SQLite's sources need tclsh (apt-get install tcl)"
	mkdir -p "$cache/build/sqlite3" "$prefix/lib" "$prefix/include"
	(cd "$cache/build/sqlite3" && "$cache"/src/sqlite3-*/configure --disable-tcl --disable-shared && make sqlite3.c sqlite3.h &&
		"$cache/bin/cc" -O2 -DSQLITE_THREADSAFE=1 -c sqlite3.c -o sqlite3.o &&
		"$cache/bin/ar" rcs "$prefix/lib/libsqlite3.a" sqlite3.o && cp sqlite3.h "$prefix/include/") \
		>"$cache/build/sqlite3.log" 2>&1 || cannot "SQLite does not build: see $cache/build/sqlite3.log"
	touch "$cache/build/sqlite3.done"
}

get_zig
tool cc "cc -target x86_64-linux-gnu.$glibc"
tool ar ar
tool ranlib ranlib
get_sources
with_cmake "mbedtls-*" -DENABLE_TESTING=OFF -DENABLE_PROGRAMS=OFF
with_cmake "nng-*" -DNNG_TESTS=OFF -DNNG_TOOLS=OFF -DNNG_ENABLE_NNGCAT=OFF -DNNG_ENABLE_TLS=ON -DNNG_TLS_ENGINE=mbed \
	-DMBEDTLS_ROOT_DIR="$prefix"
with_cmake "msgpack-c-*" -DMSGPACK_BUILD_TESTS=OFF -DMSGPACK_BUILD_EXAMPLES=OFF -DMSGPACK_ENABLE_SHARED=OFF
with_cmake "libuv1-*" -DLIBUV_BUILD_TESTS=OFF -DLIBUV_BUILD_BENCH=OFF
with_cmake "libzstd-*/build/cmake" -DZSTD_BUILD_PROGRAMS=OFF -DZSTD_BUILD_SHARED=OFF -DZSTD_BUILD_TESTS=OFF
with_sqlite
rm -f "$prefix"/lib/libuv.so*
ln -f "$prefix/lib/libuv_a.a" "$prefix/lib/libuv.a"

# libgcc.a knows the processor's features; Zig's own run-time library does not.
PKG_CONFIG_PATH="$prefix/lib/pkgconfig" cmake -S "$here" -B "$build/glibc-$glibc" -DCMAKE_BUILD_TYPE=Release \
	-DCMAKE_C_COMPILER="$cache/bin/cc" -DCMAKE_AR="$cache/bin/ar" -DCMAKE_RANLIB="$cache/bin/ranlib" \
	-DCMAKE_C_FLAGS="-I$prefix/include -w" -DCMAKE_EXE_LINKER_FLAGS="-L$prefix/lib -s" \
	-DCMAKE_C_STANDARD_LIBRARIES="-lmbedtls -lmbedx509 -lmbedcrypto $(gcc -print-libgcc-file-name)" \
	>"$cache/build/korch.log" 2>&1 &&
	cmake --build "$build/glibc-$glibc" -j"$(nproc)" --target korch-worker --target korch-measure --target korch-jail >>"$cache/build/korch.log" 2>&1 ||
	cannot "the programs do not build: see $cache/build/korch.log"
for program in korch-worker korch-measure korch-jail; do
	cp "$build/glibc-$glibc/bin/$program" "$out/"
done
