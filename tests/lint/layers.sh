#!/usr/bin/env bash
# Who includes whom, and which library's names stand where, against layers.txt.
set -u
cd "$(dirname "$0")/../.."
table=tests/lint/layers.txt
faults=0

fault() {
	echo "$1"
	faults=$((faults + 1))
}

while read -r file; do
	folder=$(dirname "$file")
	allowed=$(sed -n "s|^part $folder: *||p" "$table")
	grep -q "^part $folder:" "$table" || fault "$file: $folder is not in $table"
	while read -r path; do
		target=$(realpath -m --relative-to=. "$folder/$path")
		part=$(dirname "$target")
		[ "$part" = "$folder" ] && continue
		case $target in
		*_int.h) fault "$file: includes $target, which is for its own folder only" ;;
		esac
		case " kernels/base $allowed " in
		*" $part "*) ;;
		*) fault "$file: $folder may not include $part ($path)" ;;
		esac
	done < <(sed -n 's/^#include "\(.*[./].*\)"/\1/p' "$file" | grep -v '\.pb-c\.h$')
done < <(find kernels proto schema daemon worker client deploy -name '*.[ch]' | sort)

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
	done < <(grep -rnE --include='*.[ch]' "(^|[^a-zA-Z_\"])$regex" kernels proto schema daemon worker client deploy)
done < <(grep '^library ' "$table")

echo "$faults faults"
[ "$faults" = 0 ]
