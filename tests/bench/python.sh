#!/bin/sh
# The package of Python beside onnxruntime's and OpenVINO's: see python/__main__.py, or --help.
exec python3 "$(dirname "$0")/python" "$@"
