#!/bin/sh
# The bundle: korch-worker and korch-measure stand on glibc alone, of 2.34 or older, and say what is
# missing on a host without a GPU.
set -u
build=${1:?bundle.sh BUILD}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
deploy/bundle.sh "$build" "$out" >"$out/log" 2>&1
status=$?
[ $status = 78 ] && { cat "$out/log"; echo "SKIP: no static libraries on this host"; exit 77; }
[ $status = 0 ] || { cat "$out/log"; exit 1; }
bad=0
for program in korch-worker korch-measure; do
	extra=$(ldd "$out/$program" | grep -Ev 'linux-vdso|ld-linux|libc\.so|libm\.so')
	[ -z "$extra" ] || { echo "$program needs more than glibc:"; echo "$extra"; bad=1; }
	high=$(objdump -T "$out/$program" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -1)
	first=$(printf '%s\n2.34\n' "$high" | sort -V | tail -1)
	[ "$first" = 2.34 ] || { echo "$program needs GLIBC_$high: newer than 2.34"; bad=1; }
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
