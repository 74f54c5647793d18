#!/bin/sh
# Programs of 1,000 to 2,400 primitives and up to 50,000 candidates.
exec "$(dirname "$0")/run" "$1" seg1000 mix2000 rope2000 tr2000iid
