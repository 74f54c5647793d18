#!/usr/bin/env bash
# Who includes whom, which library's names stand where, and what is at the top, against layers.txt.  Thousands of lines are looked at:
# no program is started for one of them.
set -uf
cd "$(dirname "$0")/../.."
table=tests/lint/layers.txt
roots="kernels proto schema daemon worker client deploy"
faults=0

fault() {
	echo "$1"
	faults=$((faults + 1))
}

# resolve FOLDER PATH: $target is that path from here, without . and ..
resolve() {
	local IFS=/ word path=$1/$2
	local -a words=()
	for word in $path; do
		case $word in
		. | '') ;;
		..) [ ${#words[@]} = 0 ] || unset 'words[-1]' ;;
		*) words+=("$word") ;;
		esac
	done
	target="${words[*]}"
}

declare -A allowed=()
while IFS= read -r line; do
	line=${line#part }
	allowed[${line%%:*}]=${line#*:}
done < <(grep '^part ' "$table")

while IFS= read -r file; do
	[ -n "${allowed[${file%/*}]+is}" ] || fault "$file: ${file%/*} is not in $table"
done < <(find $roots -name '*.[ch]' | sort)

while IFS= read -r line; do
	file=${line%%:*} path=${line#*:}
	folder=${file%/*}
	resolve "$folder" "$path"
	part=${target%/*}
	[ "$part" = "$folder" ] && continue
	case $target in
	*_int.h) fault "$file: includes $target, which is for its own folder only" ;;
	esac
	case " kernels/base ${allowed[$folder]-} " in
	*" $part "*) ;;
	*) fault "$file: $folder may not include $part ($path)" ;;
	esac
done < <(find $roots -name '*.[ch]' | sort | xargs grep -HE '^#include "[^"]*[./][^"]*"' |
	sed 's/:#include "\([^"]*\)".*/:\1/' | grep -v '\.pb-c\.h$')

while IFS= read -r line; do
	rest=${line#library }
	regex=${rest%%: *}
	files=${rest#*: }
	while IFS=: read -r file number _; do
		ok=
		for pattern in $files; do
			# shellcheck disable=SC2254
			case $file in $pattern) ok=1 ;; esac
		done
		[ -n "$ok" ] || fault "$file:$number: names of '$regex' belong into: $files"
	done < <(grep -rnE --include='*.[ch]' "(^|[^a-zA-Z_\"])$regex" $roots)
done < <(grep '^library ' "$table")

top=" $(sed -n 's/^top //p' "$table") "
for name in $(git ls-files 2>/dev/null | sed 's,/.*,,' | sort -u); do
	[[ $top == *" $name "* ]] || fault "$name: what is at the top is named in $table"
done

echo "$faults faults"
[ "$faults" = 0 ]
