#!/bin/bash
# What an idle korchd trains, and whom it serves: started behind everything else, given up when a job comes, taken
# where it is not worse, given to planners, exported, refused where it is of another generator.  What trains here is a
# script that answers what it is told to; the real program is unit/own_test's and unit/trees_test's.  label: e2e
. "$(dirname "$0")/env.inc"
python3 -c 'import sqlite3' 2>/dev/null || { echo "no python3 with sqlite3"; exit 77; }
unset KORCH_TRAIN
export KORCH_LOCK_DIR=$tmp/locks # what other tests time stops no training of this one
mkdir -m 0700 "$KORCH_LOCK_DIR"
mkdir "$tmp/libexec" "$tmp/daemon" "$tmp/other"
ln -s "$(realpath "$bin")"/korch-* "$tmp/libexec"
rm "$tmp/libexec/korch-predict-train"
# The trainer: notes how it was called and how nice it is, waits while it is held, gives what lies there.
cat >"$tmp/libexec/korch-predict-train" <<EOF
#!/bin/bash
echo "nice \$(nice) \$*" >>$tmp/calls
echo \$\$ >$tmp/trainer
while [ -e $tmp/held ]; do sleep 0.1; done
while [ \$# -gt 0 ]; do [ "\$1" = -o ] && cp $tmp/gives "\$2"; shift; done
cat $tmp/says
EOF
chmod +x "$tmp/libexec/korch-predict-train"
# Files made of the shipped one: ten times as slow, about everything; and one of another meaning.
python3 - kernels/predict/trained/korch.predict "$tmp" <<'EOF'
import hashlib, struct, sys
b = bytearray(open(sys.argv[1], "rb").read()[:-32])
def save(name, b): open(sys.argv[2] + "/" + name, "wb").write(bytes(b) + hashlib.sha256(bytes(b)).digest())
at = 16 + 8 + 5 * 4 + 128
n_features, n_trees, n_nodes, has_line = struct.unpack_from("<4I", b, at)
base, = struct.unpack_from("<f", b, at + 16)
struct.pack_into("<f", b, at + 16, base + 2.3)
limits = at + 20 + 4 * n_features * (has_line != 0) + 4 * n_trees + 8 * n_nodes
for i in range(n_features):
    struct.pack_into("<f", b, limits + 4 * i, -1e6)
    struct.pack_into("<f", b, limits + 4 * (n_features + i), 1e6)
save("slow", b)
b[16] ^= 1
save("strange", b)
EOF
figures() { echo "{\"method\":\"trees\",\"own\":$1,\"compared\":$2,\"error\":$3,\"beside\":$4}" >"$tmp/says"; }
log=$tmp/korchd.err
start() { # DATA SOCKET: a daemon whose log is $log
	mkfifo "$tmp/ready.$2"
	KORCH_LIBEXEC=$tmp/libexec korchd --data "$1" --listen "ipc://$tmp/$2" --sandbox off --ready-fd 3 3>"$tmp/ready.$2" 2>"$log" &
	korchd_pid=$!
	read -r _ <"$tmp/ready.$2"
}
farm="--daemon ipc://$tmp/s"
start "$tmp/daemon" s
korch-worker $farm --device fake:seed=1 -q 2>"$tmp/worker.err" &
worker_pid=$!
trap 'kill $worker_pid $korchd_pid 2>/dev/null; wait; rm -rf "$tmp"' EXIT
tar xJf tests/models/small.tar.xz -C "$tmp"
small=$tmp/small
expected() { # PLAN: the sum of what is expected of kernels that nobody measured
	korch-plan explain --json "$1" --trust any | grep -oE '"expected_ns":[0-9]+' | cut -d: -f2 | awk '{n += $1} END {print n + 0}'
}

# Nothing was measured: nothing is trained, and what came with Korch serves.
must 0 '"predictors": \[\]' korch-cache stats --json $farm
korch-submit "$small/yolox_nano_small/model.onnx" $farm --device fake -q --budget 0 -o "$tmp/p0" || bad "the first plan"
before=$(expected "$tmp/p0")

# A job comes while it trains: given up at once, and tried again when that job is over.
touch "$tmp/held"
cp "$tmp/slow" "$tmp/gives"
figures 1234 200 0.111 0.222
korch-submit "$small/candy_small/model.onnx" $farm --device fake -q --prove --budget 30 -o "$tmp/p1" || bad "a job" # rows enough
# (Of fewer nothing is learned, and what follows would wait for ever.)
rows=$(korch-cache stats --json $farm | field measurements)
[ "${rows:-0}" -ge 300 ] || { bad "the job left '$rows' measurements, 300 are wanted (FEWEST_NEW in daemon/learn.c)" && finish; }
wait_line 'train.start class=fake rows=[0-9]' "$log" $korchd_pid
until [ -s "$tmp/trainer" ] || ! kill -0 $korchd_pid; do sleep 0.1; done
pid=$(cat "$tmp/trainer")

# While another worker of this host times something it stands still; then it goes on.
state() { cut -d' ' -f3 "/proc/$pid/stat"; }
(umask 077 && : >"$KORCH_LOCK_DIR/cpu.lock")
exec 9<"$KORCH_LOCK_DIR/cpu.lock"
flock 9
wait_line 'train.rests class=fake' "$log" $korchd_pid
until [ "$(state)" = T ] || ! kill -0 $korchd_pid; do sleep 0.1; done
flock -u 9
exec 9<&-
until [ "$(state)" != T ] || ! kill -0 $korchd_pid; do sleep 0.1; done
[ -n "$(state)" ] && ok || bad "it did not go on"

korch-submit "$small/candy_small/model.onnx" $farm --device fake -q --budget 0 -o "$tmp/p1" || bad "a job while it trains"
if grep -q 'train.stopped class=fake why="a job has come"' "$log"; then ok; else bad "it was not given up: $(tail -n 3 "$log")"; fi
tail --pid="${pid:-0}" -f /dev/null # its end
ok
must 0 'expects +fake: by what came with Korch; nothing was trained yet' korch-cache stats $farm
rm "$tmp/held"
wait_line 'train.done class=fake compared=200 error="11.1%" beside="22.2%"' "$log" $korchd_pid
if grep -q '^nice 19 --shipped --own .*own.cache --json -o .* --since 0' "$tmp/calls"; then ok; else bad "called: $(cat "$tmp/calls")"; fi
must 0 'expects +fake: by what was trained 20.* UTC on 1234 measurements of the class; off by 11.1 % \(median\) on 200 kernels .*before by 22.2 %' korch-cache stats $farm
must 0 '"class":"fake","epoch":[0-9]+,"method":"trees","rows":1234' korch-cache stats --json $farm

# Planners are given it: what nobody measured is expected to take ten times as long.  One that the job names comes first.
submit0() { korch-submit "$small/yolox_nano_small/model.onnx" $farm --device fake -q --budget 0 "$@"; }
submit0 --effort 5 -o "$tmp/p2" || bad "a plan by what was trained"
after=$(expected "$tmp/p2")
if [ "$before" -gt 0 ] && [ "$after" -gt $((2 * before)) ]; then ok; else bad "expected $before before, $after after"; fi
submit0 --effort 6 --predictor kernels/predict/trained/korch.predict -o "$tmp/p3" || bad "--predictor"
named=$(expected "$tmp/p3")
# how far apart depends on what was measured of kernels with other extents by then, which both heard
if [ "$named" -gt 0 ] && [ "$named" != "$after" ]; then ok; else bad "--predictor: $named, $after by what was trained"; fi
echo hello >"$tmp/hello"
must 1 '\-\-predictor .*hello: not a trained predictor' submit0 --predictor "$tmp/hello" -o "$tmp/p4"
must 1 '\-\-predictor .*strange: .*other numbers than this Korch makes' submit0 --predictor "$tmp/strange" -o "$tmp/p4"
must 1 'nofile' submit0 --predictor "$tmp/nofile" -o "$tmp/p4"

# It travels with the cache; what learned from less does not take its place.
korch-cache export -o "$tmp/export" $farm || bad "export"
kill $korchd_pid
wait $korchd_pid
log=$tmp/other.err
start "$tmp/other" o
there="--daemon ipc://$tmp/o"
must 0 '"predictors":1,"predictors_left":"","dry_run":true' korch-cache import "$tmp/export" --dry-run $there
must 0 '"predictors":\[\]|"predictors": \[\]' korch-cache stats --json $there
must 0 '"predictors":1,"predictors_left":"","dry_run":false' korch-cache import "$tmp/export" $there
must 0 'expects +fake: by what was trained' korch-cache stats $there
must 0 '"predictors":0,"predictors_left":"the predictor of class fake: the one here learned from 1234 measurements of the class, this one from 1234"' korch-cache import "$tmp/export" $there
kill $korchd_pid
wait $korchd_pid

# A store of another generator: what was trained for it is not used, and its rows are read anew.
python3 - "$tmp/daemon/korch.db" <<'EOF'
import sqlite3, sys
c = sqlite3.connect(sys.argv[1])
c.execute("UPDATE predictor SET epoch = epoch - 1")
c.execute("UPDATE measurement SET epoch = epoch - 1")
c.commit()
EOF
rm -f "$tmp/ready.s" "$tmp/calls"
log=$tmp/again.err
figures 1234 200 0.3 0.2 # worse than what serves
start "$tmp/daemon" s
must 0 'expects +fake: by what came with Korch; nothing was trained yet' korch-cache stats $farm
korch-cache export -o "$tmp/old" $farm || bad "export of an old store"
wait_line 'train.no_better class=fake compared=200 error="30.0%" beside="20.0%"' "$log" $korchd_pid
must 0 'expects +fake: by what came with Korch; a training on what was measured was not better yet' korch-cache stats $farm
submit0 --effort 7 -o "$tmp/p5" || bad "a plan over a store of another generator"
kill $korchd_pid
wait $korchd_pid
rm -f "$tmp/ready.o"
log=$tmp/last.err
start "$tmp/other" o
must 0 '"predictors_left":"the predictor of class fake: it is of generator epoch [0-9]+ and this Korch of [0-9]+; what it learned from is read anew here"' korch-cache import "$tmp/old" $there

must 78 'folder of locks /nowhere.*install -d -m 3770' korchd --data "$tmp/x" --listen "ipc://$tmp/y" --lock-dir /nowhere
must 2 '\-\-train sometimes: it is idle or never' korchd --data "$tmp/x" --train sometimes
finish
