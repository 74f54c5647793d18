#!/bin/sh
# The bundle: korch-worker and korch-measure stand on glibc alone and say what is missing on a host without a GPU.
# For 2.28 where its compiler and libraries are in the cache (or KORCH_BUNDLE_GLIBC asks for it: minutes, network),
# else for 2.34.  As root it works in a file system that holds glibc and nothing else, for a daemon outside:
# this host's glibc, or that of the folder KORCH_BUNDLE_ROOT (Debian 11's libc6, unpacked: 2.31).
set -u
build=${1:?bundle.sh BUILD}
out=$(mktemp -d)
daemon= worker=
leave() {
	[ -n "$worker" ] && kill "$worker" 2>/dev/null
	[ -n "$daemon" ] && kill "$daemon" 2>/dev/null
	wait
	rm -rf "$out"
}
trap leave EXIT
cache=${XDG_CACHE_HOME:-$HOME/.cache}/korch/glibc-2.28
most=${KORCH_BUNDLE_GLIBC:-}
[ -n "$most" ] || { [ -f "$cache/build/sqlite3.done" ] && most=2.28 || most=2.34; }
[ "$most" = 2.28 ] || echo "SKIP: 1 part: glibc 2.28: its libraries are not in $cache"
KORCH_BUNDLE_GLIBC=$most deploy/bundle.sh "$build" "$out" >"$out/log" 2>&1
status=$?
[ $status = 78 ] && { cat "$out/log"; echo "SKIP: no static libraries on this host"; exit 77; }
[ $status = 0 ] || { cat "$out/log"; exit 1; }
bad=0
tests/gpu/licence.sh "$out" || bad=1
for program in korch-worker korch-measure korch-jail; do
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

# ---- a file system with glibc alone: the worker joins and a model is tuned by it ----------------------------
bare() {
	root=$out/root
	mkdir -p "$root"
	if [ -n "${KORCH_BUNDLE_ROOT:-}" ]; then
		cp -a "$KORCH_BUNDLE_ROOT/." "$root"
	else
		ldd "$out/korch-worker" "$out/korch-measure" "$out/korch-jail" | grep -o '/[^ :]*so[^ :]*' | sort -u | while read -r lib; do
			cp -L --parents "$lib" "$root"
		done
	fi
	mkdir -p "$root/tmp"
	cp "$out/korch-worker" "$out/korch-measure" "$out/korch-jail" "$root"
	chroot "$root" /korch-worker --device cuda:all >"$out/words" 2>&1
	[ $? = 78 ] || { echo "beside glibc alone, cuda:all ends otherwise: $(cat "$out/words")"; return 1; }
	tar xJf tests/models/small.tar.xz -C "$out" small/candy_small
	mkfifo "$out/up"
	"$build/bin/korchd" --quiet --data "$out/data" --listen "ipc://$root/tmp/s" --ready-fd 3 3>"$out/up" 2>"$out/daemon.log" &
	daemon=$!
	read -r _ <"$out/up" || { cat "$out/daemon.log"; return 1; }
	# without /proc a program does not know where it lies
	KORCH_LIBEXEC=/ chroot "$root" /korch-worker --daemon ipc:///tmp/s --device fake:seed=1 --quiet >"$out/worker.log" 2>&1 &
	worker=$!
	"$build/bin/korch-submit" "$out/small/candy_small/model.onnx" --daemon "ipc://$root/tmp/s" --device fake --threads 1 --budget 100 --quiet \
		-o "$out/plan" >"$out/words" 2>&1 || { cat "$out/words" "$out/worker.log"; return 1; }
	[ -s "$out/plan" ] || { echo "no plan"; return 1; }
	# It saw none of the daemon's files, so it fetched plans and requests: each for its task alone.
	[ "$(ls "$root/tmp")" = s ] || { echo "the worker has left files: $(ls -R "$root/tmp")"; return 1; }
	echo "beside glibc alone ($(chroot "$root" /korch-worker --version)): a model is tuned"
}
if chroot / true 2>/dev/null; then
	bare || bad=1
else
	echo "SKIP: 1 part: a file system of its own needs the right to chroot"
fi
echo "SKIP: 1 part: whether a GPU works behind the bundle needs a GPU"
exit $bad
