#!/usr/bin/env bash
# Every .c and .h is as clang-format 14 writes it by .clang-format; other versions write otherwise.
# To mend: git ls-files '*.c' '*.h' | xargs clang-format-14 -i
set -u
cd "$(dirname "$0")/../.."
if ! command -v clang-format-14 >/dev/null; then
	echo "SKIP lint/format: no clang-format-14"
	exit 77
fi
find kernels proto schema daemon worker client deploy tests -name '*.[ch]' | sort |
	xargs clang-format-14 --dry-run -Werror 2>&1 | grep 'error:' | cut -d: -f1-2 >/tmp/korch-format.$$
sed 's/$/: not as clang-format 14 writes it/' /tmp/korch-format.$$ | head -n 40
faults=$(wc -l </tmp/korch-format.$$)
rm -f /tmp/korch-format.$$
echo "$faults faults"
[ "$faults" = 0 ]
