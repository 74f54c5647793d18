#!/usr/bin/env bash
# Functions that are never used here, bare TODOs, guards that two headers have, and names of ONNX operators
# outside of the two parts that know ONNX.
set -u
cd "$(dirname "$0")/../.."
parts="kernels proto schema daemon worker client"
faults=0

# look WHAT REGEX GREP-ARGS...
look() {
	local what=$1 regex=$2 found
	shift 2
	found=$(grep -rnE --include='*.[ch]' --include='*.def' "$@" -e "$regex" $parts)
	if [ -n "$found" ]; then
		echo "$what:"
		echo "$found"
		faults=$((faults + 1))
	fi
}

look "banned functions" '(^|[^a-zA-Z0-9_])(strcpy|strcat|sprintf|vsprintf|atoi|atol|atof|strtok|gets|alloca|setjmp|longjmp)\('
look "TODO without an issue's number" 'TODO([^(]|\([^0-9]|$)|FIXME'
# A wait by the wall clock takes a day where that is set back by one.
found=$(grep -rl --include='*.c' pthread_cond_timedwait $parts | xargs -r grep -LE 'pthread_condattr_setclock\(&[a-z]+, CLOCK_MONOTONIC\)')
[ -z "$found" ] || { echo "pthread_cond_timedwait by the wall clock:"; echo "$found"; faults=$((faults + 1)); }
# The second header of that guard would be empty where both are included.
found=$(grep -rhoE --include='*.h' '^#ifndef KORCH_[A-Z0-9_]+_H$' $parts deploy tests | sort | uniq -d | sed 's/#ifndef //')
[ -z "$found" ] || { echo "guards of two headers:"; echo "$found"; faults=$((faults + 1)); }
operators=$(sed -n 's/^[A-Z_]*(\([A-Z][A-Za-z0-9]*\),.*/\1/p' daemon/model/op.def | sort -u | paste -sd '|')
[ -n "$operators" ] || { echo "no operator found in daemon/model/op.def"; faults=$((faults + 1)); }
look "operator names outside of daemon/model and daemon/fission" "\"($operators)\"" \
    --exclude-dir=model --exclude-dir=fission
for folder in $(find $parts tests deploy -type d -not -path '*/corpus*' | sort); do
	[ -n "$(find "$folder" -maxdepth 1 -name '*.[ch]' -o -maxdepth 1 -name '*.sh' -o -maxdepth 1 -name '*.txt')" ] ||
		continue
	case $folder in
	tests/golden/*) continue ;; # a pass a folder; the file names say what breaks
	esac
	[ -s "$folder/README.md" ] || { echo "$folder has no README.md"; faults=$((faults + 1)); }
done
echo "$faults faults"
[ "$faults" = 0 ]
