#!/bin/bash
# tests/python/run.sh BUILD [PYTEST-WORD...]: builds the wheel, installs it beside onnx, onnxruntime and pytest from PyPI in
# BUILD/python-venv, and runs pytest: on the named files, or on all.  Exit status 77, with the reason, where that cannot be
# had.  KORCH_TEST_PYTHON: an interpreter that has these packages, and torch and onnxscript if torch's tests are to run; it
# is not changed: the wheel goes into BUILD/python-site.
set -u
here=$(cd "$(dirname "$0")" && pwd) root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:?run.sh BUILD [PYTEST-WORD...]}" && pwd) || exit 2
shift
venv=$build/python-venv log=$build/python-wheel.log
packages="scikit-build-core>=0.10 pytest onnx==1.23.2 onnxruntime ml_dtypes numpy"
python=${KORCH_TEST_PYTHON:-$venv/bin/python}

skip() {
	echo "SKIP python: $*"
	exit 77
}

# ---- the packages, and the wheel where something of it is newer than what is installed
exec 9>"$build/python.lock"
flock 9
if [ -z "${KORCH_TEST_PYTHON:-}" ]; then
	python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>"$log" || skip "no python3 of 3.11 or later"
	if [ "$(cat "$venv/complete" 2>/dev/null)" != "$packages" ]; then
		rm -rf "$venv" "$build/python-site"
		{ python3 -m venv "$venv" && "$venv/bin/pip" install --quiet $packages; } >"$log" 2>&1 ||
			skip "the packages ($packages) cannot be installed (see $log)"
		echo "$packages" >"$venv/complete"
	fi
fi
"$python" -c 'import os, sysconfig; open(os.path.join(sysconfig.get_path("include"), "Python.h"))' 2>"$log" ||
	skip "no Python.h for $python (Debian: python3-dev)"
site=$build/python-site
parts=$(cd "$root" && echo CMakeLists.txt pyproject.toml client daemon kernels proto schema worker)
if [ ! -e "$site/complete" ] || [ "$(cat "$site/complete")" != "$python" ] ||
	[ -n "$(cd "$root" && find $parts -newer "$site/complete" -type f -print -quit)" ]; then
	touch "$build/python-started"
	rm -rf "$site"
	ccache=$(command -v ccache >/dev/null && echo --config-settings=cmake.define.CMAKE_C_COMPILER_LAUNCHER=ccache)
	if ! "$python" -m pip install --quiet --no-deps --no-build-isolation --no-index --target "$site" $ccache \
		--config-settings=build-dir="$build/python" "$root" >"$log" 2>&1; then
		tail -n 40 "$log"
		echo "the wheel does not build (see $log)"
		exit 1
	fi
	echo "$python" >"$site/complete"
	touch -r "$build/python-started" "$site/complete" # what is changed while it builds is newer
fi
flock -s 9 # it is not replaced while tests run

# ---- a folder of their own for all that they leave
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tar xJf "$root/tests/models/small.tar.xz" -C "$tmp"
cases=$("$root/tests/onnx/cases" 2>"$tmp/why") && export KORCH_NODE_TESTS=$cases || cat "$tmp/why"
mkdir "$tmp/tmp"
export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH} KORCH_SMALL_MODELS=$tmp/small TMPDIR=$tmp/tmp PYTHONDONTWRITEBYTECODE=1
export XDG_DATA_HOME=$tmp/data XDG_CACHE_HOME=$tmp/cache XDG_CONFIG_HOME=$tmp/config XDG_RUNTIME_DIR=$tmp
export KORCH_LOCK_DIR=/tmp/korch-$(id -u) KORCH_THREADS=1
mkdir -p -m 0700 "$KORCH_LOCK_DIR"
unset KORCH_DAEMON KORCH_DATA KORCH_BIN
for fake in "$build"/lib*/korch "$build"/lib*/*/korch; do # a wheel has none
	[ -e "$fake/libkorch-fake-gpu.so" ] && export KORCH_FAKE_GPU=$fake
done
[ -e "$build/fake_cuda/libcuda.so.1" ] && export KORCH_FAKE_CUDA=$build/fake_cuda
cd "$here" || exit 1
[ $# -gt 0 ] || set -- .
# As it is said, so that a test that hangs leaves its name, and after ten minutes where all threads stand.
"$python" -m pytest -v -rs -p no:cacheprovider --show-capture=no --basetemp="$tmp/pytest" -o faulthandler_timeout=600 \
	"$@" 2>&1 | tee "$tmp/said"
status=${PIPESTATUS[0]}
# what is skipped is counted (tests/run.sh); all of it: so is the test
skipped=$(sed -nE 's/^SKIPPED \[([0-9]+)\] [^ ]+: (.*)/SKIP: \1 parts: python: \2/p' "$tmp/said")
if grep -qE '^=* ?[0-9]+ skipped in' "$tmp/said"; then
	skip "${skipped##*python: }"
fi
[ -z "$skipped" ] || echo "$skipped"
exit $status
