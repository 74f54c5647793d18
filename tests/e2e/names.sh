#!/bin/bash
# tests/names.sh: names of tests, and what is near to those that are none.  label: e2e
. "$(dirname "$0")/env.inc"
# silent STATUS NAME...: it ends so and says nothing
silent() {
	local status=$1
	shift
	tests/names.sh "$@" >"$tmp/out" 2>&1
	local got=$?
	if [ $got = "$status" ] && [ ! -s "$tmp/out" ]; then ok; else bad "names.sh $*: exit $got: $(cat "$tmp/out")"; fi
}
silent 0 "$1" unit/ir '^golden/fission$' 'e2e/(names|clock)'
silent 1 "$tmp" unit/ir
must 2 "no test has a name like 'unit/bas_test'; near it: unit/base_test" tests/names.sh "$1" unit/bas_test
must 2 "like 'serch_test'; near it: (unit|fault)/search_test, (unit|fault)/search_test" tests/names.sh "$1" unit/ir serch_test
if grep -q "'unit/ir'" "$tmp/out"; then bad "a known name is said to be none"; else ok; fi
must 2 "all of them: ctest --test-dir $1 -N" tests/names.sh "$1" 'unit/('
finish
