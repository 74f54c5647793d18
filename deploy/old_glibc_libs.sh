#!/bin/sh
# old_glibc_libs.sh [--solvers]: a compiler for glibc 2.28 and later and the libraries that Korch's programs need, as
# archives; prints the CMake toolchain file that names them.  Needs the network once, a cache after that
# ($XDG_CACHE_HOME/korch/glibc-2.28): the compiler is Zig's (PyPI's ziglang: clang with the symbols of every glibc), the
# libraries are Debian's source packages, built by it.  --solvers: those of the planner too.  Ends with 78 where that
# cannot be had.
set -eu
case $*: in
: | --solvers:) ;;
*)
	echo "usage: deploy/old_glibc_libs.sh [--solvers]" >&2
	exit 2
	;;
esac
solvers=${1:-}
glibc=2.28 zig_version=0.13.0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/korch/glibc-$glibc
prefix=$cache/prefix
mkdir -p "$cache/src" "$cache/bin" "$cache/build" "$prefix/lib" "$prefix/include"
export ZIG_GLOBAL_CACHE_DIR="$cache/zig-cache" ZIG_LOCAL_CACHE_DIR="$cache/zig-cache"
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
exec 9>"$cache/lock"
flock 9

cannot() {
	echo "old_glibc_libs.sh: $1" >&2
	exit 78
}

get_zig() {
	[ -x "$cache/zig/ziglang/zig" ] && return 0
	python3 -m pip download -q --no-deps --only-binary=:all: -d "$cache" "ziglang==$zig_version" >&2 ||
		cannot "no compiler: PyPI gives no ziglang"
	python3 -m zipfile -e "$cache"/ziglang-*.whl "$cache/zig"
	rm -f "$cache"/ziglang-*.whl
	chmod +x "$cache/zig/ziglang/zig"
}

# Whoever calls the compiler later has none of this script's variables.
tool() { # name, words for zig
	printf '#!/bin/sh\nexport ZIG_GLOBAL_CACHE_DIR=%s ZIG_LOCAL_CACHE_DIR=%s\nexec %s %s "$@"\n' \
		"$cache/zig-cache" "$cache/zig-cache" "$cache/zig/ziglang/zig" "$2" >"$cache/bin/$1"
	chmod +x "$cache/bin/$1"
}

# Debian's sources by a configuration of its own: the system's lists stay as they are.
get_sources() { # mark, names of source packages
	mark=$cache/src/.$1
	shift
	[ -f "$mark" ] && return 0
	mkdir -p "$cache/apt/lists/partial" "$cache/apt/cache/archives/partial"
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main" \
		>"$cache/apt/sources.list"
	cat >"$cache/apt/apt.conf" <<-EOT
	Dir::Etc::sourcelist "$cache/apt/sources.list";
	Dir::Etc::sourceparts "-";
	Dir::State::lists "$cache/apt/lists";
	Dir::Cache "$cache/apt/cache";
	EOT
	(cd "$cache/src" && for name in "$@"; do rm -rf "./$name"-*/; done && export APT_CONFIG="$cache/apt/apt.conf" &&
		apt-get -qq update && apt-get -qq source --only-source "$@") >"$mark.log" 2>&1 ||
		cannot "no sources: deb.debian.org gives none (or no dpkg-dev): see $mark.log"
	touch "$mark"
}

# built NAME COMMAND...: once; what it says is kept.
built() {
	name=$1
	shift
	[ -f "$cache/build/$name.done" ] && return 0
	rm -rf "$cache/build/$name"
	mkdir -p "$cache/build/$name"
	("$@") >"$cache/build/$name.log" 2>&1 || cannot "$name does not build: see $cache/build/$name.log"
	touch "$cache/build/$name.done"
}

with_cmake() { # folder below src, options
	dir=$(cd "$cache/src" && cd $1 && pwd)
	name=$(echo "$1" | cut -d- -f1)
	shift
	built "$name" cmake_install "$cache/build/$name" "$dir" "$@"
}

cmake_install() { # build folder, source, options
	to=$1 from=$2
	shift 2
	cmake -S "$from" -B "$to" -DCMAKE_C_COMPILER="$cache/bin/cc" -DCMAKE_AR="$cache/bin/ar" -DCMAKE_RANLIB="$cache/bin/ranlib" \
		-DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
		-DBUILD_SHARED_LIBS=OFF "$@" && cmake --build "$to" -j"$(nproc)" --target install
}

sqlite() {
	cd "$cache/build/sqlite3"
	"$cache"/src/sqlite3-*/configure --disable-tcl --disable-shared && make sqlite3.c sqlite3.h &&
		"$cache/bin/cc" -O2 -DSQLITE_THREADSAFE=1 -c sqlite3.c -o sqlite3.o &&
		"$cache/bin/ar" rcs "$prefix/lib/libsqlite3.a" sqlite3.o && cp sqlite3.h "$prefix/include/"
}

protobuf_c() {
	cd "$cache/build/protobuf-c"
	"$cache/bin/cc" -O2 -I"$cache"/src/protobuf-c-*/ -c "$cache"/src/protobuf-c-*/protobuf-c/protobuf-c.c &&
		"$cache/bin/ar" rcs "$prefix/lib/libprotobuf-c.a" protobuf-c.o && mkdir -p "$prefix/include/protobuf-c" &&
		cp "$cache"/src/protobuf-c-*/protobuf-c/protobuf-c.h "$prefix/include/protobuf-c/"
}

# As Debian's lpsolve55/ccc has it; colamd is a library of its own there, and comes along with the sources.
lpsolve() {
	from=$(echo "$cache"/src/lp-solve-*/)
	flags="-O2 -w -I$from -I$from/shared -I$from/bfp -I$from/bfp/bfp_LUSOL -I$from/bfp/bfp_LUSOL/LUSOL -I$from/colamd
		-DYY_NEVER_INTERACTIVE -DPARSER_LP -DINVERSE_ACTIVE=INVERSE_LUSOL -DRoleIsExternalInvEngine"
	sources=$(sed -n "s/^src='\(.*\)'.*/\1/p" "$from/lpsolve55/ccc")
	cd "$cache/build/lpsolve"
	for source in $sources ../colamd/colamd.c; do
		"$cache/bin/cc" $flags -c "$from/lpsolve55/$source" || return 1
	done
	"$cache/bin/ar" rcs "$prefix/lib/libcolamd.a" colamd.o && rm colamd.o &&
		"$cache/bin/ar" rcs "$prefix/lib/liblpsolve55.a" ./*.o && mkdir -p "$prefix/include/lpsolve" &&
		cp "$from"/lp_*.h "$from"/shared/*.h "$prefix/include/lpsolve/"
}

coin() { # name, options
	name=$1
	shift
	cd "$cache/build/$name"
	PKG_CONFIG_LIBDIR="$prefix/lib/pkgconfig" "$cache"/src/"$name"-*/configure CC="$cache/bin/cc" CXX="$cache/bin/c++" \
		AR="$cache/bin/ar" RANLIB="$cache/bin/ranlib" CFLAGS=-O2 CXXFLAGS="-O2 -DNDEBUG -std=gnu++14 -w" --prefix="$prefix" --disable-shared \
		--enable-static --disable-dependency-tracking --disable-zlib --disable-bzlib --without-blas --without-lapack \
		--without-glpk --without-sample --without-netlib "$@" && make -j"$(nproc)" install
}

get_zig
tool cc "cc -target x86_64-linux-gnu.$glibc"
tool c++ "c++ -target x86_64-linux-gnu.$glibc"
tool ar ar
tool ranlib ranlib
get_sources all nng msgpack-c libuv1 sqlite3 mbedtls libzstd
with_cmake "mbedtls-*" -DENABLE_TESTING=OFF -DENABLE_PROGRAMS=OFF
with_cmake "nng-*" -DNNG_TESTS=OFF -DNNG_TOOLS=OFF -DNNG_ENABLE_NNGCAT=OFF -DNNG_ENABLE_TLS=ON -DNNG_TLS_ENGINE=mbed \
	-DMBEDTLS_ROOT_DIR="$prefix"
with_cmake "msgpack-c-*" -DMSGPACK_BUILD_TESTS=OFF -DMSGPACK_BUILD_EXAMPLES=OFF -DMSGPACK_ENABLE_SHARED=OFF
with_cmake "libuv1-*" -DLIBUV_BUILD_TESTS=OFF -DLIBUV_BUILD_BENCH=OFF
with_cmake "libzstd-*/build/cmake" -DZSTD_BUILD_PROGRAMS=OFF -DZSTD_BUILD_SHARED=OFF -DZSTD_BUILD_TESTS=OFF
[ -f "$cache/build/sqlite3.done" ] || command -v tclsh >/dev/null || cannot "SQLite's sources need tclsh (apt-get install tcl)"
built sqlite3 sqlite
if [ -n "$solvers" ]; then
	get_sources solvers protobuf-c lp-solve coinutils clp
	built protobuf-c protobuf_c
	built lpsolve lpsolve
	built coinutils coin coinutils
	built clp coin clp
fi
rm -f "$prefix"/lib/libuv.so*
ln -f "$prefix/lib/libuv_a.a" "$prefix/lib/libuv.a"

# libgcc.a knows the processor's features; Zig's own run-time library does not.
last="-lmbedtls -lmbedx509 -lmbedcrypto $(gcc -print-libgcc-file-name)"
[ -z "$solvers" ] || last="-lCoinUtils -lc++ $last"
file=$cache/toolchain${solvers#-}.cmake
cat >"$file.new" <<-EOT
set(CMAKE_C_COMPILER "$cache/bin/cc")
set(CMAKE_AR "$cache/bin/ar")
set(CMAKE_RANLIB "$cache/bin/ranlib")
set(CMAKE_C_FLAGS_INIT "-I$prefix/include -w")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-L$prefix/lib -s")
set(CMAKE_MODULE_LINKER_FLAGS_INIT "-L$prefix/lib -s")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-L$prefix/lib -s")
set(CMAKE_C_STANDARD_LIBRARIES "$last")
set(ENV{PKG_CONFIG_PATH} "$prefix/lib/pkgconfig")
EOT
mv "$file.new" "$file"
echo "$file"
