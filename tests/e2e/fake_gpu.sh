#!/bin/bash
# The fake GPU is a shared object that no program contains: an installation has none, says how to come by one, and finds it
# where its component was installed, or where KORCH_FAKE_GPU says.  label: e2e
. "$(dirname "$0")/env.inc"
unset KORCH_FAKE_GPU
for program in "$bin"/korch*; do
	if grep -q 'Fake A100-SXM4-40GB' "$program"; then bad "$program contains the fake GPU"; else ok; fi
done
prefix=$tmp/prefix
worker() { "$prefix/bin/korch-worker" --daemon "ipc://$tmp/none" -q "$@"; }
must 0 . cmake --install "$1" --prefix "$prefix"
must 78 'no fake GPU here .*component fake-gpu' worker --device cuda-fake:gpu=a100
mkdir "$tmp/wrong" && echo 'not a shared object' >"$tmp/wrong/libkorch-fake-gpu.so"
KORCH_FAKE_GPU=$tmp/wrong must 78 'no fake GPU here' worker --device cuda-fake:gpu=a100
must 0 libkorch-fake-gpu cmake --install "$1" --prefix "$prefix" --component fake-gpu
must 2 '"gpu=zzz" is no setting' worker --device cuda-fake:gpu=zzz
must 78 'no device' worker --device cuda-fake:gpu=a100,n=0
# ... and a job on it runs: compiled, checked and timed in jails that show its folder.
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
must 0 'plan' "$prefix/bin/korch-submit" "$tmp/small/candy_small/model.onnx" -o "$tmp/p.korch" --device cuda-fake:gpu=a100,seed=1 --data "$tmp/own" --budget 20
must 0 'cuda .*sm_80|sm_80|Fake A100' "$prefix/bin/korch-plan" show "$tmp/p.korch"
mkdir "$tmp/moved" && mv "$(find "$prefix" -name libkorch-fake-gpu.so)" "$tmp/moved"
KORCH_FAKE_GPU=$tmp/moved must 2 '"gpu=zzz" is no setting' worker --device cuda-fake:gpu=zzz
finish
