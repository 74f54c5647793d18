#!/bin/sh
# ONNX's node tests of tier 1 through the whole path: submit, generated kernels, run, compare.
# No limit of time on a case: a slow host is none of its faults.
set -u
here=$(cd "$(dirname "$0")/../onnx" && pwd)
cases=$("$here/cases") || { status=$?; [ "$status" = 77 ] && echo "SKIP node tests: no cases"; exit "$status"; }
KORCH_BIN=$1/bin KORCH_CASE_SECONDS=0 "$here/run-node-tests" --list "$here/tier1.txt" "$cases"
