#!/bin/bash
# korch run MODEL.onnx: the answer at once, by a plan from bounds and the cache; open extents are 1 and that is said; what
# tuning would cost, and the command for it; nothing is left behind.  label: e2e
. "$(dirname "$0")/env.inc"
here=$(realpath "$(dirname "$0")")
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
python3 "$here/onnx_write.py" "$tmp" || bad "onnx_write.py"
cd "$tmp" || exit 1
mkdir -m 0700 scratch
export TMPDIR=$tmp/scratch
case=small/candy_small model=small/candy_small/model.onnx

# runs STATUS PATTERN COMMAND...: as must, with out and err apart; afterwards no plan of its own lies about
runs() {
	local status=$1 pattern=$2 got
	shift 2
	"$@" >out 2>err </dev/null
	got=$?
	if [ "$got" = "$status" ] && cat out err | grep -qE -- "$pattern"; then ok; else bad "$*: exit $got, no '$pattern' in: $(cat out err)"; fi
	[ -z "$(ls scratch | grep korch-run)" ] && ok || bad "$*: left $(ls scratch)"
}

# A model by its content, whatever it is called; then the plan that -o keeps.
cp "$model" model.dat
runs 0 '^median .* [0-9]+ kernels \([0-9]+ of them never timed\)$' korch run model.dat -o kept.korch
grep -qE '^tuning would time [1-9][0-9]* kernels of this plan that never were, about [1-9][0-9]* s, .* 600 s at most' out && ok || bad "the cost of tuning: $(cat out)"
grep -qE '^what it would gain is not known before; the kernels of no plan take less than [0-9.]+ [mun]?s in sum' out && ok || bad "the bound: $(cat out)"
grep -qE '^to tune it, type: korch-submit model.dat$' out && ok || bad "the command: $(cat out)"
runs 0 '^median .* recorded sum' korch run kept.korch --repeat 3
cp kept.korch plan.onnx
runs 0 '^median' korch run plan.onnx --repeat 1
calibrations() { ls "$XDG_DATA_HOME/korch" | sed -n 's/^\(calibration-\(quick-\)*\).*/\1/p' | tr '\n' ' '; }
[ "$(calibrations)" = 'calibration-quick- ' ] && ok || bad "the machine was looked at for long: $(calibrations)"
# Right answers, on given inputs too, and the options of both halves.
runs 0 '^agrees: 1 data set' korch run "$model" --check "$case" --threads 1 --quiet
runs 0 '^median' korch run "$model" --repeat 2 --output-dir results --seed 7
runs 0 '^median .* 2 runs' korch-run "$model" --repeat 2 --input "inputImage=$tmp/results/outputImage.npy" --tolerance 1e-3 --profile
grep -q '^to tune it, type: korch-submit small/candy_small/model.onnx --tolerance=1e-3$' out && ok || bad "its options in the command: $(cat out)"
KORCH_BUDGET=77 runs 0 ' 77 s at most' korch run "$model" --repeat 1

# The same again comes from the store: nothing is built.
korch run "$model" --threads 1 --repeat 1 >out 2>err
grep -q building err && bad "the second one was built: $(cat err)" || ok

# One that is killed leaves its folder, and the next one takes it away; the folder of one that lives stays, and so does what
# only has such a name.
own() { find scratch -maxdepth 1 -type d -name 'korch-run-*' | wc -l; }
mkdir victim && echo kept >victim/plan.korch && ln -s "$tmp/victim" scratch/korch-run-linked
mkfifo called
python3 -c 'import socket, sys
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv[1])
door.listen(8)
print("there", flush=True)
caller, _ = door.accept()
print("called", flush=True)
sys.stdin.read()' "$tmp/door" <called >heard & listener=$!
exec 9>called
until grep -q there heard; do :; done
korch run "$model" --daemon "ipc://$tmp/door" >/dev/null 2>&1 & waits=$!
until grep -q called heard; do :; done
[ "$(own)" = 1 ] && ok || bad "it waits for its plan without a folder: $(ls scratch)"
must 0 '^median' korch run "$model" --threads 1 --repeat 1
[ "$(own)" = 1 ] && ok || bad "the folder of one that lives is gone, or another is left: $(ls scratch)"
kill -9 $waits
wait $waits 2>/dev/null
[ "$(own)" = 1 ] && ok || bad "nothing was left by the killed one: $(ls scratch)"
must 0 '^median' korch run "$model" --threads 1 --repeat 1
[ "$(own)" = 0 ] && [ -e victim/plan.korch ] && [ -L scratch/korch-run-linked ] && ok || bad "what the killed one left is there, or what was none of it is not: $(ls scratch victim)"
rm scratch/korch-run-linked
exec 9>&-
wait $listener

# Open extents: 1, by name, said once; what is given holds.
runs 0 "^korch-run: input 'x': n=1 \(give --shape n=N\)$" korch run meets.onnx
grep -q "^korch-run: input 'z': m=1 (give --shape m=N)$" err && [ "$(grep -c 'give --shape' err)" = 2 ] && ok || bad "not each extent once: $(cat err)"
grep -q '^to tune it, type: korch-submit meets.onnx --shape n=1 --shape m=1$' out && ok || bad "the command: $(cat out)"
runs 0 "^korch-run: input 'z': m=1" korch run meets.onnx # from the store as well
runs 0 '^median' korch run meets.onnx --shape n=4 --shape m=4
grep -q 'give --shape' err && bad "a given shape is assumed: $(cat err)" || ok
runs 1 "'a' f32\[4,3\] \(from --shape n=4\), 'z' f32\[1,2\] \(from m=1, assumed; give it by --shape\)" korch run meets.onnx --shape n=4
runs 0 '^median' korch run voice.onnx --value sr=16000
grep -q "input 'x': samples=1" err && ok || bad "samples: $(cat err)"
runs 0 "^korch-submit: input 'x': n=1 " korch submit meets.onnx --budget 0 --open-extents 1
runs 1 'inputs are open' korch submit meets.onnx --budget 0 -o p
runs 0 '^inputs +x f32 1x3$' korch check meets.onnx --open-extents 1
runs 2 '--open-extents -1: it is 1 or more' korch check meets.onnx --open-extents -1

# --json: one object of both parts.
korch run meets.onnx --json --repeat 1 -o json.korch >out 2>err && [ "$(wc -l <out)" = 1 ] && [ ! -s err ] && ok || bad "--json: $(cat out err)"
python3 - out <<'END' && ok || bad "JSON: $(cat out)"
import json, sys
d = json.load(open(sys.argv[1]))
assert set(d) == {"plan", "run"} and d["run"]["samples"] == 1 and d["plan"]["plan"] == "json.korch"
assert d["plan"]["untimed"] > 0 and d["plan"]["first_seconds"] > 0
assert d["plan"]["assumed"] == [{"input": "x", "name": "n", "value": "1"}, {"input": "z", "name": "m", "value": "1"}]
END

# What was tuned needs no tuning.
runs 0 'runs in|takes' korch submit meets.onnx --shape n=4 --shape m=4 --budget 20
[ "$(calibrations)" = 'calibration- calibration-quick- ' ] && ok || bad "measuring on a quick look: $(calibrations)"
grep -q 'cannot write' "$XDG_DATA_HOME/korch/korchd.log" && bad "$(grep 'cannot write' "$XDG_DATA_HOME/korch/korchd.log")" || ok
runs 0 '^all [1-9][0-9]* kernels were measured before: nothing to tune' korch run meets.onnx --shape n=4 --shape m=4
grep -q 'type:' out && bad "it says what to type: $(cat out)" || ok

# A worker that was started for a plan at once knows a machine that was measured before: it does not make room for another.
kill "$(cat "$XDG_DATA_HOME/korch/lock")"
flock "$XDG_DATA_HOME/korch/lock" true
said=$(wc -l <"$XDG_DATA_HOME/korch/korchd.log")
runs 0 '^median' korch run meets.onnx --shape n=3 --shape m=3 --repeat 1
runs 0 'runs in|takes' korch submit meets.onnx --shape n=3 --shape m=3 --budget 20
since=$(tail -n +$((said + 1)) "$XDG_DATA_HOME/korch/korchd.log")
[ "$(grep -c 'info own_worker' <<<"$since")" = 1 ] && ok || bad "workers: $(grep own_worker <<<"$since")"

# What cannot be run: one sentence of the part that failed, its exit status.
head -c 3000 "$model" >cut.onnx
runs 1 '^korch-run: .*cut.onnx' korch run cut.onnx
runs 1 '^korch-run: .*an operator is not supported|operators are not supported' korch run foreign.onnx
runs 1 '^korch-run: nothing.onnx' korch run nothing.onnx
runs 2 '^korch-run: --shape is for a model, and kept.korch is none' korch run kept.korch --shape n=4
echo "# only words" >words
runs 1 '^korch-run: words: is neither a plan .* nor, by how it begins, an ONNX model' korch run words
runs 0 '^korch-run: --threads [0-9]+: this process may use' korch run "$model" --threads $(($(nproc) + 1))
runs 2 'wanted one PLAN.korch or MODEL.onnx' korch run
runs 2 'has no such input or named extent' korch run "$model" --shape nope=1
runs 2 'the plan has no such input' korch run "$model" --input nosuch=random
runs 2 '^korch-run: --threads -1' korch run "$model" --threads -1
runs 2 '^korch-run: -o .*scratch: is a folder' korch run "$model" -o "$tmp/scratch"
runs 3 'no korchd answers|nobody listens' korch run "$model" --daemon "ipc://$tmp/nobody"
runs 1 "nowhere: " korch run "$model" --check "$tmp/nowhere"
mkdir nogcc
for p in sh env ls cat mktemp; do ln -s "$(command -v $p)" nogcc/$p; done
runs 78 '^korch-run: .*no C compiler found .*install gcc' env PATH="$tmp/nogcc" "$bin/korch" run meets.onnx --data "$tmp/fresh"

# Ctrl-C while there is no plan yet: a daemon whose worker never comes.
export KORCH_LIBEXEC=$tmp/bin
mkdir "$tmp/bin"
for p in korchd korch-planner korch-jail; do ln -s "$bin/$p" "$tmp/bin/$p"; done
printf '#!/bin/sh\nexec sleep 1000000\n' >"$tmp/bin/korch-worker"
chmod +x "$tmp/bin/korch-worker"
korch run "$model" --data "$tmp/slow" >out 2>err &
run=$!
wait_line '^waiting' err $run
kill -INT $run
wait $run
[ $? = 130 ] && grep -q '^korch-run: interrupted before there was a plan' err && ok || bad "Ctrl-C: $(cat err)"
[ -z "$(ls scratch | grep korch-run)" ] && ok || bad "Ctrl-C left $(ls scratch)"
kill "$(cat "$tmp/slow/lock")"
finish
