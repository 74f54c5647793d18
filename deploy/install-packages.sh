#!/usr/bin/env bash
# Installs the Debian packages named in deploy/packages.txt that are missing.  Does nothing, and
# needs no rights, when all are there.  Usage: deploy/install-packages.sh [--optional] [LIST...]
# --optional: the list is packages-optional.txt, and what cannot be had is left out.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" = --optional ]; then
	shift
	"$0" "${@:-$here/packages-optional.txt}" || echo "install-packages.sh: goes on without them" >&2
	exit 0
fi
[ $# -gt 0 ] || set -- "$here/packages.txt"
mapfile -t want < <(sed 's/#.*//' "$@" | tr -s ' \t' '\n' | grep -v '^$')
missing=()
for p in "${want[@]}"; do
	dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0
echo "installing: ${missing[*]}" >&2
as_root=()
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || {
		echo "install-packages.sh: not root and no sudo; install these yourself: ${missing[*]}" >&2
		exit 78
	}
	as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
