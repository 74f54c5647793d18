#!/usr/bin/env bash
# The pages about wire, store, plan and export are what korch-docs makes of the tables now, every field and
# column has words, and each variable that a program reads is in a man page.
# To mend: words beside the row, then KORCH_BLESS=1 tests/lint/docs.sh build, and look at the diff.
set -u
cd "$(dirname "$0")/../.."
docs=$1/bin/korch-docs
[ -x "$docs" ] || { echo "no $docs: build the target korch-docs"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
faults=0

"$docs" pages . "$work/pages" 2>"$work/said" || faults=$((faults + 1))
sed 's/^/fault: /' "$work/said"
pages=$(cd "$work/pages" && find . -type f | sort)
[ -n "$pages" ] || { echo "korch-docs made no page"; faults=$((faults + 1)); }
for page in $pages; do
	if [ -n "${KORCH_BLESS-}" ]; then
		cp "$work/pages/$page" "$page"
	elif ! diff -u "$page" "$work/pages/$page" >"$work/diff" 2>&1; then
		echo "$page is not what the tables say; KORCH_BLESS=1 tests/lint/docs.sh $1 rewrites it:"
		head -n 20 "$work/diff"
		faults=$((faults + 1))
	fi
done

# Variables: of options, of man.def, or of tests alone.
"$docs" man "$work/man" || faults=$((faults + 1))
for name in $(grep -rhoE --include='*.c' 'getenv\("[A-Z_]+"\)' kernels proto schema daemon worker client | cut -d'"' -f2 | sort -u); do
	case $name in
	KORCH_KILL_AT) continue ;; # tests: where a program is to die
	esac
	flag=$(sed 's/^KORCH_//; s/_/-/g' <<<"$name" | tr A-Z a-z)
	grep -rqE "^\.TP|$name" "$work/man" || true
	if ! grep -rqF "fB$name\\" "$work/man" && ! grep -rqF "\\-\\-$(sed 's/-/\\-/g' <<<"$flag")\\" "$work/man"; then
		echo "$name is read by a program and in no man page: a row ENV in deploy/docs/man.def"
		faults=$((faults + 1))
	fi
done
echo "$faults faults"
[ "$faults" = 0 ]
