#!/usr/bin/env bash
# Every option of the table is in the help, the man page and the completion of each program that has it; the
# pages have all their sections and groff has nothing to say about them.
set -u
cd "$(dirname "$0")/../.."
bin=$1/bin share=$1/share
faults=0

fault() {
	echo "$1"
	faults=$((faults + 1))
}
flags() { grep -oE -- '--[a-z][a-z0-9-]*' | sort -u; }

programs=$(sed -n 's/^PROGRAM([A-Z]*, "\([a-z-]*\)".*/\1/p' kernels/base/opt.def)
[ -n "$programs" ] || fault "no program found in kernels/base/opt.def"
all=
for program in $programs; do
	page=$(ls "$share"/man/man?/"$program".? 2>/dev/null)
	words=$share/bash-completion/completions/$program
	[ -n "$page" ] || fault "$program has no man page"
	[ -n "$page" ] || continue
	for section in NAME SYNOPSIS DESCRIPTION OPTIONS 'EXIT STATUS' ENVIRONMENT FILES 'SEE ALSO'; do
		grep -q "^\.SH $section\$" "$page" || fault "$page: no section $section"
	done
	bash -n "$words" || fault "$words is no shell"
	# what the table says, by the program's own words
	if [ "$program" != korch-measure ]; then
		"$bin/$program" --help >/tmp/korch-man.$$ 2>&1 || fault "$program --help failed"
		sed -nE 's/^ {2}(-., )?(--[a-z0-9-]+).*/\2/p' /tmp/korch-man.$$ | sort -u >/tmp/korch-man-help.$$
		for other in "$page" "$words"; do
			if [ "$other" = "$page" ]; then
				sed -n '/^\.SH OPTIONS/,/^\.SH EXIT/s/^\\fB//p' "$page" | sed 's/\\-/-/g; s/\\fR.*//' | flags
			else
				sed -n "s/^\t\t_korch_words '\(--.*\)'\$/\1/p" "$words" | flags
			fi >/tmp/korch-man-other.$$
			diff /tmp/korch-man-help.$$ /tmp/korch-man-other.$$ >/tmp/korch-man.$$ ||
				fault "$other and $program --help have not the same options: $(tr '\n' ' ' </tmp/korch-man.$$)"
		done
		all="$all $(cat /tmp/korch-man-help.$$)"
	fi
	if command -v groff >/dev/null; then
		said=$(groff -man -ww -Tutf8 "$page" 2>&1 >/dev/null)
		[ -z "$said" ] || fault "$page: $said"
	fi
done
rm -f /tmp/korch-man.$$ /tmp/korch-man-help.$$ /tmp/korch-man-other.$$
for flag in $(sed -n 's/^OPT([a-z_]*, [^"]*"\([a-z0-9-]*\)".*/\1/p' kernels/base/opt.def | sort -u); do
	case " $(tr '\n' ' ' <<<"$all") " in
	*" --$flag "*) ;;
	*) fault "--$flag is a row of opt.def and in no program's help" ;;
	esac
done
command -v groff >/dev/null || echo "SKIP: 1 part: no groff to read the man pages"
echo "$faults faults"
[ "$faults" = 0 ]
