#!/bin/sh
# ONNX's node tests after rewriting, with the first producers and with random choices among the
# alternatives: every choice computes the same.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cases=$("$here/cases") || { status=$?; [ "$status" = 77 ] && echo "SKIP node tests: no cases"; exit "$status"; }
"$1/bin/korch-node-tests" --quiet --rewrite=3 --list="$here/tier1.txt" "$cases"
