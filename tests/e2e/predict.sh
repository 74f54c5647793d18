#!/bin/bash
# A device that is not here: what another cache knows of its class is enough for a plan, with what it is expected to take;
# compiled here where this host's compiler can, else without code, which is said by all that would run it.  label: e2e
. "$(dirname "$0")/env.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small small/yolox_nano_small
candy=$tmp/small/candy_small/model.onnx yolox=$tmp/small/yolox_nano_small/model.onnx farm="--daemon ipc://$tmp/s"
mkdir "$tmp/there"
mkfifo "$tmp/ready" "$tmp/ready.alpha" "$tmp/ready.alps"
korchd --data "$tmp/there" --listen "ipc://$tmp/s" -q --ready-fd 3 3>"$tmp/ready" 2>"$tmp/korchd.err" &
pids=$!
trap 'kill $pids 2>/dev/null; wait; rm -rf "$tmp"' EXIT
read -r _ <"$tmp/ready"
for w in alpha alps; do
	korch-worker --daemon "ipc://$tmp/s" --device "fake:seed=${#w},class=$w" -q --ready-fd 3 3>"$tmp/ready.$w" 2>"$tmp/worker.err" &
	pids="$pids $!"
	read -r _ <"$tmp/ready.$w"
done

# one VALUE NAME < FILE: the number of that name in the last object of a program with --json
number() { tail -n 1 "$2" | python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
# within LOW WHAT HIGH
within() { python3 -c 'import sys; a, b, c = map(float, sys.argv[1:]); sys.exit(not a <= b <= c)' "$@"; }

# Nothing is measured there yet: bounds, and what kernels usually are above them.
here="--data $tmp/here"
korch-cache export $farm -q -o "$tmp/both.cache" || bad 'no export'
must 0 '"environments":2' korch-cache import $here "$tmp/both.cache"
must 2 '2 classes of this cache fit \((alpha, alps|alps, alpha)\); name one' korch-submit "$candy" $here --device al --predict -o "$tmp/p.korch"
must 5 'this cache knows no such class \(it knows: .*alpha' korch-submit "$candy" $here --device omega --predict -o "$tmp/p.korch"
# A budget of the settings is for searches; only one that is given with --predict contradicts it.
KORCH_BUDGET=60 must 0 'expected .* with 90 % .*23 of 23 were never measured' korch-submit "$candy" $here --device alph --predict -o "$tmp/p.korch"
if grep -q 'predicted for alpha, nothing built or checked on it' "$tmp/out" && grep -q 'has no machine code.*korch-plan rebuild' "$tmp/out"; then ok; else bad "words: $(cat "$tmp/out")"; fi
must 0 'code +none: korch-plan rebuild' korch-plan show "$tmp/p.korch" $here
must 0 'predicted .* with 90 % .*23 of its kernels' korch-plan show "$tmp/p.korch" $here
must 0 '' korch-plan verify "$tmp/p.korch" $here
must 78 'no machine code.*korch-plan rebuild' korch-run "$tmp/p.korch" $here

# With what the other cache measured of it, the plan is the one of there, and costs what it costs there.
# (By all that the store holds when the search is over, as the other cache gets it: the search's own plan differed once in fourteen runs.)
must 0 '' korch-submit "$candy" $farm --device alpha -o "$tmp/there.korch" --json
must 0 '' korch-submit "$candy" $farm --device alpha --budget 0 -o "$tmp/there.korch" --json
there=$(number latency_ns "$tmp/out")
korch-cache export $farm --class alpha -q -o "$tmp/alpha.cache" || bad 'no export of alpha'
must 0 '' korch-cache import $here "$tmp/alpha.cache"
must 0 '' korch-submit "$candy" $here --device alpha --predict -o "$tmp/p.korch" --json
within "$there" "$(number predicted_ns "$tmp/out")" "$there" && ok || bad "predicted $(number predicted_ns "$tmp/out"), and it is $there"
must 0 '' korch-plan show "$tmp/p.korch" $here --json
within 0 "$(number predicted_ns "$tmp/out")" 0 && ok || bad "a kernel of a known plan was predicted"

# This host's own class, known to a cache without a worker: the code is compiled here, and computes the same.
must 0 '' korch-submit "$candy" --data "$tmp/own" --budget 0 -o "$tmp/own.korch"
korch-cache export --data "$tmp/own" -q -o "$tmp/own.cache" || bad 'no export of this host'
must 0 '' korch-cache import $here "$tmp/own.cache"
class=$(korch-plan show "$tmp/own.korch" --data "$tmp/own" | sed -n 's/^class *//p')
must 0 "predicted for $class, nothing built" korch-submit "$candy" $here --device "$class" --predict -o "$tmp/p.korch"
must 0 'built .*korch-submit --predict: never checked' korch-plan show "$tmp/p.korch" $here
must 0 'none was ever checked' korch-run "$tmp/p.korch" $here --output-dir "$tmp/out.p" --repeat 1
must 0 '' korch-run "$tmp/own.korch" --data "$tmp/own" --output-dir "$tmp/out.own" --repeat 1
python3 - "$tmp" <<'PY' && ok || bad "the compiled prediction computes something else"
import glob, os, struct, sys
def floats(path):
    data = open(path, 'rb').read()
    at = 10 + struct.unpack('<H', data[8:10])[0]
    return struct.unpack('<%df' % ((len(data) - at) // 4), data[at:])
files = glob.glob(sys.argv[1] + '/out.own/*.npy')
assert files
for f in files:
    a, b = floats(f), floats(f.replace('out.own', 'out.p'))
    assert len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) <= 1e-3 * max(map(abs, a)), f
PY
# Without a compiler it has none, and rebuild on that device completes it.
KORCH_CC=$tmp/no-compiler must 0 'has no machine code \(KORCH_CC' korch-submit "$yolox" $here --device "$class" --predict -o "$tmp/y.korch"
must 78 'no machine code' korch-run "$tmp/y.korch" $here
must 0 'kernels rebuilt' korch-plan rebuild "$tmp/y.korch" $here
must 0 '' korch-run "$tmp/y.korch" $here --repeat 1
# What works for a job ends with it: a generator that is held goes when its job is cancelled.
must 0 '' korch-cache import $farm "$tmp/own.cache"
job=$(korch-submit "$yolox" $farm --device "$class" --predict --detach -q 2>"$tmp/err") || bad "detached: $(cat "$tmp/err")"
held=
for _ in $(seq 3000); do
	held=$(grep -las "$tmp/there/[^ ]*made/description" /proc/[0-9]*/cmdline | cut -d/ -f3)
	[ "$held" ] && kill -STOP $held && break
	sleep 0.01
done
[ "$held" ] && ok || bad "no generator was seen"
korch-jobs cancel "$job" $farm && ok || bad "not cancelled"
for _ in $(seq 3000); do
	kill -0 $held 2>/dev/null || break
	sleep 0.01
done
[ "$held" ] && kill -0 $held 2>/dev/null && { bad "the job is cancelled, and its generator is there"; kill -KILL $held; } || ok
finish
