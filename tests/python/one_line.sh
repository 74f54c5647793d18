#!/bin/sh
# one_line.sh PYTHON MODEL.onnx...: one_line.py by onnxruntime, then with its import line changed to korch: the same numbers.
# PYTHON is an interpreter that has both.
set -eu
python=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed 's/^import onnxruntime as ort$/import korch as ort/' "$here/one_line.py" >"$work/changed.py"
[ "$(diff "$here/one_line.py" "$work/changed.py" | grep -c '^>')" = 1 ] || { echo "one_line.sh: not one line changed" >&2; exit 1; }
for model in "$@"; do
	"$python" "$here/one_line.py" "$model" "$work/want.npz"
	"$python" "$work/changed.py" "$model" "$work/have.npz"
	"$python" - "$model" "$work/have.npz" "$work/want.npz" <<-'END'
	import sys

	import numpy as np

	have, want = np.load(sys.argv[2]), np.load(sys.argv[3])
	assert sorted(have) == sorted(want) and want.files, f"{sys.argv[1]}: outputs {have.files}, not {want.files}"
	for name in want:
	    h, w = have[name], want[name]
	    error = np.abs(h - w).max() / np.abs(w).max()
	    assert (h.shape, h.dtype) == (w.shape, w.dtype) and error <= 1e-4, f"{sys.argv[1]}: '{name}' differs by {error}"
	    print(f"{sys.argv[1]}: '{name}' {w.dtype}{list(w.shape)}, largest error {error:.1e} of the largest value")
	END
done
