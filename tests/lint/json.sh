#!/usr/bin/env bash
# The schemas of what programs write with --json (client/json): every object requires all its properties and takes no
# others; records.json is what proto/msg.def says.  KORCH_BLESS=1 writes that file and the lists `required` anew.
set -u
cd "$(dirname "$0")/../.."
bless=
[ -n "${KORCH_BLESS-}" ] && bless=--bless
out=$(python3 tests/harness/json_schema.py lint client/json proto/msg.def $bless)
faults=$(grep -c . <<<"$out")
[ "$faults" = 0 ] || echo "$out"
[ "$faults" = 0 ] || echo "KORCH_BLESS=1 tests/lint/json.sh mends what follows from tables"
echo "$faults faults"
[ "$faults" = 0 ]
