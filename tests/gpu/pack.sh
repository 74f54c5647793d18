#!/bin/bash
# tests/gpu/pack.sh BUILD [OUT] [MODELS]: everything that lease.sh needs on a GPU host with nothing of ours, into OUT
# (default: .gpu of this checkout, which git ignores): the programs, stripped, without oneDNN, with the shared libraries
# that glibc does not bring; the lists of kernels; the small models, and those of MODELS (NAME/model.onnx); the scripts.
# At most 46 MiB, else it says what is large and ends with 1.  KORCH_PACK_NVRTC=FOLDER: its libnvrtc.so.12 and builtins
# go along, packed, for a host without CUDA's toolkit (24 MiB, beyond the 40).
#
# Nothing of NVIDIA's tools (nvdisasm, cuobjdump, ptxas) and no machine code of others is ever in it.
set -eu
if [ $# -lt 1 ] || [ "${1#-}" != "$1" ]; then
	echo "usage: tests/gpu/pack.sh BUILD [OUT] [MODELS]: a build folder with 'all' and 'benches' built, where to put the pack" >&2
	exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(cd "$1" && pwd) out=${2:-$root/.gpu} models=${3:-}
most_kib=$((46 * 1024)) # both back ends are in the programs until the old one goes
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib" "$out/kernels" "$out/models"
out=$(cd "$out" && pwd)

# ---- programs: linked again without oneDNN, with libraries beside them ----------------------------------------
# This object stands before the library's own, so that nothing asks for oneDNN.
plain=$out/cpu_library.o
trap 'rm -f "$plain"' EXIT
gcc -std=gnu11 -O2 -fPIC -D_GNU_SOURCE -c "$root/kernels/vendor/cpu_library.c" -o "$plain"
link() { # FOLDER PROGRAM
	local line=$build/$1/CMakeFiles/$2.dir/link.txt first=
	[ -f "$line" ] || { echo "pack.sh: no $line: the build is to be one of Makefiles, with $2 built" >&2; exit 78; }
	! grep -q 'libkorch_vendor\.a' "$line" || first="'$plain'"
	line=$(sed -e "s|-o [^ ]*bin/$2|$first -o '$out/bin/$2' -s -Wl,--disable-new-dtags,-rpath,'\$ORIGIN/../lib'|" \
	    -e "s|[^ ]*/libdnnl\.[^ ]*||g" -e "s|[^ ]*/libgomp\.[^ ]*||g" "$line")
	(cd "$build/$1" && eval "$line")
}
link daemon korchd
link daemon korch-planner
link worker korch-worker
link worker korch-measure
link kernels korch-jail
for program in korch-submit korch-run korch-plan korch-cache; do link client $program; done # what lease.sh calls
link tests bench-gpu
rm -f "$plain"
fake=$(cd "$build" && find lib* -name libkorch-fake-gpu.so 2>/dev/null | head -n 1) # found from bin as in the build tree
[ -z "$fake" ] || { mkdir -p "$out/${fake%/*}" && cp "$build/$fake" "$out/$fake" && strip --strip-unneeded "$out/$fake"; }
for program in "$out"/bin/*; do ldd "$program"; done | sed -n 's|.* => \(/[^ ]*\) .*|\1|p' | sort -u |
    grep -Ev '/(lib(c|m|dl|rt|pthread|resolv|util)\.so|ld-linux)' | while read -r library; do
	cp -L "$library" "$out/lib/"
	strip --strip-unneeded "$out/lib/${library##*/}" 2>/dev/null || true
done

# ---- what they work on ----------------------------------------------------------------------------------------
cp "$here"/*.graph "$root"/tests/golden/sass/*.graph "$out/kernels/"
for list in kernels.txt second.txt small.txt; do sed 's|\.\./golden/sass/||' "$here/$list" >"$out/kernels/$list"; done
tar xJf "$root/tests/models/small.tar.xz" -C "$out/models" --strip-components=1
if [ -n "$models" ]; then
	for onnx in "$models"/*/model.onnx; do cp -r "$(dirname "$onnx")" "$out/models/"; done
fi
cp "$here/lease.sh" "$here/peers_time.py" "$root/tests/bench/triton_kernels.py" "$root/tests/bench/cubin_list.py" "$out/"
size_kib=$(du -sk --apparent-size "$out" | cut -f1)
if [ -n "${KORCH_PACK_NVRTC:-}" ]; then
	tar czhf "$out/nvrtc12.tar.gz" -C "$KORCH_PACK_NVRTC" libnvrtc.so.12 $(cd "$KORCH_PACK_NVRTC" && ls libnvrtc-builtins.so.12.*)
fi

bad=$(find "$out" -type f | grep -Ei '/(nvdisasm|cuobjdump|ptxas|nvlink|fatbinary|cuda-gdb)[^/]*$|\.cubin$|\.fatbin$' || true)
[ -z "$bad" ] || { echo "pack.sh: what must not be in it: $bad" >&2; exit 1; }
if [ "$size_kib" -gt $most_kib ]; then
	echo "pack.sh: $size_kib KiB, at most $most_kib:" >&2
	(cd "$out" && find . -type f -size +1M -printf '%k KiB %p\n' | sort -rn | head -n 20) >&2
	exit 1
fi
echo "$out: $size_kib KiB; on the GPU host: $(basename "$out")/lease.sh OUT"
