#!/bin/sh
# The small models against their stored references, as fission makes them and rewritten, with
# random choices among the alternatives.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tar xJf "$here/../models/small.tar.xz" -C "$tmp"
"$1/bin/korch-node-tests" --quiet "$tmp"/*
"$1/bin/korch-node-tests" --quiet --rewrite=2 "$tmp"/*
