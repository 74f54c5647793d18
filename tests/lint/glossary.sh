#!/usr/bin/env bash
# Each word of GLOSSARY.md stands in the file that the page names for it; there are forty-four, each once.
set -u
cd "$(dirname "$0")/../.."
faults=0

fault() {
	echo "$1"
	faults=$((faults + 1))
}
rows=$(sed -nE 's/^\| ([^|]*) \| [^|]* \| `([^`]*)` \|$/\1|\2/p' GLOSSARY.md)
while IFS='|' read -r word file; do
	if [ ! -f "$file" ]; then
		fault "$word: there is no $file"
	elif ! grep -qi -- "$word" "$file"; then
		fault "$word: $file does not say it"
	fi
done <<<"$rows"
[ "$(cut -d'|' -f1 <<<"$rows" | sort -u | wc -l)" = 44 ] || fault "not forty-four different words"
[ "$(grep -c '^| ' GLOSSARY.md)" = 45 ] || fault "a row that is not '| word | what it is | \`file\` |'"
echo "$faults faults"
[ "$faults" = 0 ]
