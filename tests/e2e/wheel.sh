#!/bin/sh
# The source distribution made from what is committed, the wheel made from that, and what is in it: the programs, the module, the
# version of CMakeLists.txt, licences; nothing needed but a glibc as old as its name says.  Then it is installed beside
# onnxruntime, and a script runs with one line changed.
# For 2.28 where compiler and libraries are in the cache (or KORCH_WHEEL_GLIBC=2.28 asks for it: minutes, network), else
# with this host's libraries inside.  Needs PyPI.
set -u
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
bad=0
wrong() {
	echo "FAILED $*"
	bad=1
}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/korch
[ -n "${KORCH_WHEEL_GLIBC:-}" ] || { [ -f "$cache/glibc-2.28/build/clp.done" ] && KORCH_WHEEL_GLIBC=2.28 || KORCH_WHEEL_GLIBC=host; }
export KORCH_WHEEL_GLIBC
[ "$KORCH_WHEEL_GLIBC" = 2.28 ] || echo "SKIP: 1 part: a wheel for glibc 2.28: its libraries are not in $cache"

# ---- sources, then the wheel from them ------------------------------------------------------------------------------
git clone -q . "$out/clone" || exit 1
python3 -m venv "$out/venv" >"$out/log" 2>&1 && "$out/venv/bin/pip" -q install build onnxruntime >"$out/log" 2>&1 || {
	echo "SKIP wheel: no virtual environment with build and onnxruntime (python3-venv, PyPI): $(tail -n 1 "$out/log")"
	exit 77
}
(cd "$out/clone" && "$out/venv/bin/python" -m build --sdist -o "$out") >"$out/log" 2>&1 || { cat "$out/log"; exit 1; }
version=$(sed -n 's/^project(korch VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
tar xzf "$out/korch-$version.tar.gz" -C "$out" || exit 1
"$out/korch-$version/deploy/wheel.sh" "$out/dist" >"$out/log" 2>&1
status=$?
[ $status = 78 ] && { cat "$out/log"; echo "SKIP wheel: what builds it cannot be had"; exit 77; }
[ $status = 0 ] || { cat "$out/log"; exit 1; }

# ---- what it says of itself -----------------------------------------------------------------------------------------
wheel=$(ls "$out"/dist/*.whl)
tests/gpu/licence.sh "$wheel" "$out/korch-$version.tar.gz" || wrong "what may not be handed on"
case ${wheel##*/} in
korch-"$version"-cp311-abi3-manylinux_2_*_x86_64.whl) ;;
*) wrong "its name: ${wheel##*/}" ;;
esac
most=$(echo "$wheel" | sed -n 's/.*manylinux_2_\([0-9]*\)_.*/2.\1/p')
[ "$KORCH_WHEEL_GLIBC" = host ] || [ "$most" = "$KORCH_WHEEL_GLIBC" ] || wrong "it is for $most"
"$cache/wheel/tools/bin/auditwheel" show "$wheel" | tr '\n' ' ' | grep -q "platform tag: *\"manylinux_$(echo "$most" | tr . _)_x86_64\"" ||
	wrong "auditwheel: $("$cache/wheel/tools/bin/auditwheel" show "$wheel")"

# ---- what is in it --------------------------------------------------------------------------------------------------
python3 -m zipfile -e "$wheel" "$out/in" || exit 1
for program in korch korch-submit korch-run korch-plan korch-jobs korch-cache korch-keys korchd korch-worker korch-planner korch-measure korch-generate korch-jail; do
	[ -f "$out/in/korch/bin/$program" ] || wrong "$program is missing"
done
[ -f "$out/in/korch/_native.abi3.so" ] || wrong "the module is missing"
for licence in clp lp-solve mbedtls nng sqlite zstd; do
	ls "$out/in/korch-$version.dist-info/licenses" | grep -qi "$licence" || wrong "the licence of $licence is missing"
done
for file in "$out"/in/korch/bin/* "$out"/in/korch/*.so; do
	high=$(objdump -T "$file" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -1)
	[ "$(printf '%s\n%s\n' "$high" "$most" | sort -V | tail -1)" = "$most" ] || wrong "${file##*/} needs GLIBC_$high: newer than $most"
	extra=$(objdump -p "$file" | sed -n 's/^ *NEEDED *//p' | grep -Ev '^(ld-linux-x86-64|lib(c|m|dl|rt|pthread))\.so')
	[ "$KORCH_WHEEL_GLIBC" = host ] || [ -z "$extra" ] || wrong "${file##*/} needs more than glibc:" $extra
done

# ---- installed, beside onnxruntime ----------------------------------------------------------------------------------
"$out/venv/bin/pip" -q install "$wheel" >"$out/log" 2>&1 || { cat "$out/log"; exit 1; }
[ "$("$out/venv/bin/python" -c 'import korch; print(korch.__version__)')" = "$version" ] || wrong "its version is not $version"
tar xJf tests/models/small.tar.xz -C "$out" small/candy_small small/yolox_nano_small
unset KORCH_BIN KORCH_DAEMON KORCH_DATA KORCH_LIBEXEC
export XDG_DATA_HOME="$out/data" XDG_CONFIG_HOME="$out/config"
tests/python/one_line.sh "$out/venv/bin/python" "$out"/small/*/model.onnx || wrong "one line changed"
# Its own daemon, worker, planner and measuring child, in their jails.
measured=$("$out/venv/bin/korch" submit "$out/small/candy_small/model.onnx" -o "$out/plan.korch" --threads 1 --budget 20 --json 2>"$out/log" |
	tail -n 1 | sed -n 's/.*"measured": *\([0-9]*\).*/\1/p')
[ "${measured:-0}" -gt 0 ] || wrong "nothing was measured: $(cat "$out/log")"
echo "${wheel##*/}: $(stat -c %s "$wheel") bytes, $measured kernels measured by it"
exit $bad
