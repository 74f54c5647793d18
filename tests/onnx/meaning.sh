#!/bin/sh
# ONNX's node tests through reading, fission and the interpreter: all of tier 1 must pass; the
# count of tier 2 is printed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$1
cases=$("$here/cases") || { status=$?; [ "$status" = 77 ] && echo "SKIP node tests: no cases"; exit "$status"; }
echo "tier 2:"
"$build/bin/korch-node-tests" --quiet --list="$here/tier2.txt" "$cases" | tail -n 1
echo "tier 1:"
"$build/bin/korch-node-tests" --quiet --list="$here/tier1.txt" "$cases"
