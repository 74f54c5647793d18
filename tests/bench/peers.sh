#!/bin/sh
# Korch beside the CPU peers: see peers/__main__.py, or --help.
exec python3 "$(dirname "$0")/peers" "$@"
