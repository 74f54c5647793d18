#!/bin/sh
# The bundle: korch-worker and korch-measure stand on glibc alone and say what is missing on a host without a GPU.
# For 2.28 where its compiler and libraries are in the cache (or KORCH_BUNDLE_GLIBC asks for it: minutes, network),
# else for 2.34.
set -u
build=${1:?bundle.sh BUILD}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cache=${XDG_CACHE_HOME:-$HOME/.cache}/korch/glibc-2.28
most=${KORCH_BUNDLE_GLIBC:-}
[ -n "$most" ] || { [ -f "$cache/build/sqlite3.done" ] && most=2.28 || most=2.34; }
[ "$most" = 2.28 ] || echo "SKIP: 1 part: glibc 2.28: its libraries are not in $cache"
KORCH_BUNDLE_GLIBC=$most deploy/bundle.sh "$build" "$out" >"$out/log" 2>&1
status=$?
[ $status = 78 ] && { cat "$out/log"; echo "SKIP: no static libraries on this host"; exit 77; }
[ $status = 0 ] || { cat "$out/log"; exit 1; }
bad=0
for program in korch-worker korch-measure; do
	extra=$(ldd "$out/$program" | grep -Ev 'linux-vdso|ld-linux|lib(c|m|dl|rt|pthread)\.so')
	[ -z "$extra" ] || { echo "$program needs more than glibc:"; echo "$extra"; bad=1; }
	high=$(objdump -T "$out/$program" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -1)
	first=$(printf '%s\n%s\n' "$high" "$most" | sort -V | tail -1)
	[ "$first" = "$most" ] || { echo "$program needs GLIBC_$high: newer than $most"; bad=1; }
	echo "$program: GLIBC_$high, $(stat -c %s "$out/$program") bytes"
done
if ! ldconfig -p | grep -q 'libcuda\.so\.1'; then
	words=$("$out/korch-worker" --device cuda:all 2>&1)
	status=$?
	[ $status = 78 ] || { echo "cuda:all without a driver ends with $status"; bad=1; }
	echo "$words" | grep -q 'libcuda.so.1' || { echo "it does not say what is missing: $words"; bad=1; }
else
	echo "SKIP: this host has a driver"
fi
echo "SKIP: 1 part: whether a GPU works behind the bundle needs a GPU"
exit $bad
