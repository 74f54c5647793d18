#!/usr/bin/env bash
# Every option that a README, a page or the table of man pages names is one: on a line with a Korch program, of
# that program; elsewhere of any, of a script, bench or test program of this repository, or a row of options.txt
# (options of other people's programs, with whose they are).
set -u
cd "$(dirname "$0")/../.."
bin=$1/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
faults=0

programs=$(sed -n 's/^PROGRAM([A-Z]*, "\([a-z-]*\)".*/\1/p' kernels/base/opt.def)
for program in $programs; do
	"$bin/$program" --help 2>/dev/null </dev/null | sed -nE 's/^ {2}(-., )?--([a-z0-9-]+).*/\2/p' | sort -u >"$work/$program"
done
"$bin/korch-opt" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sed 's/--//' | sort -u >"$work/korch-opt"
# korch WORD is the program of the word
while read -r word id; do
	name=$(sed -n "s/^PROGRAM($id, \"\([a-z-]*\)\".*/\1/p" kernels/base/opt.def)
	echo "$word $name"
done < <(sed -n 's/^WORD("\([a-z]*\)", \([A-Z]*\),.*/\1 \2/p' kernels/base/opt.def) >"$work/words"
[ -s "$work/words" ] || { echo "no word found in kernels/base/opt.def"; faults=1; }
cat "$work"/korch* | sort -u >"$work/any"
grep -rhoE --include='*.c' --include='*.py' --include='*.sh' -- '--[a-z][a-z0-9-]*' tests/bench tests/models tests/*.sh deploy worker/gpu_fake |
	sed 's/--//' | sort -u >"$work/ours"
sed -n 's/^--\([a-z0-9-]*\) .*/\1/p' tests/lint/options.txt | sort -u >"$work/other"

# FILE:LINE:TEXT of each line that names an option; one command a line, as in "a | b" and "a && b"
{
	# figures stand with the command of their day
	git ls-files '*.md' 2>/dev/null | grep . || find . -name '*.md' -not -path './build*'
} | grep -v 'tests/bench/RESULTS.md' | xargs grep -nE -- '(^|[^a-zA-Z0-9-])--[a-z]' >"$work/lines"
sed -n 's/^EXAMPLE([A-Z]*, "\([^"]*\)".*/deploy\/docs\/man.def:1:\1/p' deploy/docs/man.def >>"$work/lines"
[ -s "$work/lines" ] || { echo "no line names an option"; faults=1; }
while IFS= read -r line; do
	where=${line%%:*} rest=${line#*:}
	where=$where:${rest%%:*}
	text=${rest#*:}
	# what stands behind a program's name, up to the next program or the end of the command
	program= before=
	for word in $(sed -E 's/#.*//; s/`/ ` /g; s/([|;(),])/ \1 /g' <<<"$text" | tr -d '"'"'"); do
		[ "$before" = korch ] && program=$(sed -n "s/^$word //p" "$work/words")
		before=${word##*/}
		case $word in
		korch-* | */korch-* | korchd | */korchd)
			name=$(basename "$word")
			[ -e "$work/$name" ] && program=$name
			;;
		'|' | ';' | '&&' | '`') program= ;;
		--[a-z]*)
			[[ $word =~ ^--([a-z][a-z0-9-]*[a-z0-9])(=.*|\[.*)?[.:]?$ ]] || continue
			flag=${BASH_REMATCH[1]}
			list=$work/${program:-any}
			grep -qx -- "$flag" "$list" && continue
			if [ -z "$program" ] && grep -qxh -- "$flag" "$work/ours" "$work/other"; then continue; fi
			echo "$where: --$flag is no option of ${program:-any program, nor in tests/lint/options.txt}"
			faults=$((faults + 1))
			;;
		esac
	done
done <"$work/lines"
echo "$faults faults"
[ "$faults" = 0 ]
