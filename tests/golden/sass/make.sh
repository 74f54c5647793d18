#!/bin/sh
# tests/golden/sass/make.sh BUILD [NAME...]: makes the golden cubins again, or those named, by the NVRTC of this host
# (KORCH_CUDA_LIB: a folder with libnvrtc.so.12 for sm_70, libnvrtc.so.13 for the others, builtins beside each).
# They are kept from the generator and the compilers that tests/golden/sass/README.md names: the figures that the
# model is judged by belong to them.  Only for a new row of kernels.txt is this to be run, with its name.
here=$(dirname "$0")
build=${1:?the build folder}
shift
exec "$build/bin/bench-sass" --make="$here" "$@"
