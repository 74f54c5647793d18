#!/bin/bash
# --report: however a call ends, one file with what a report of a fault needs; the model only when asked for, and never a
# token, wherever it stood.  label: e2e
. "$(dirname "$0")/env.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
export HOME=$tmp/home
mkdir "$HOME"
token=0123456789abcdef-secret-of-this-test
model=$tmp/${token}_net.onnx # a stranger's token in a name: it is everywhere in the job
cp "$tmp/small/candy_small/model.onnx" "$model"

# holds REPORT PART...: as files and in the tar, and report.txt tells each
holds() {
	local dir=$1 part
	shift
	tar tf "$dir.tar" >"$tmp/list" 2>&1 || bad "$dir.tar: $(cat "$tmp/list")"
	for part in "$@"; do
		if [ -e "$dir/$part" ] && grep -q "^${part%/}" "$tmp/list" && grep -q "^${part%%/*}" "$dir/report.txt"; then ok; else bad "$dir has no $part"; fi
	done
}
# clean REPORT: no token, no home, no piece of the weights
clean() {
	if grep -qraF -e "$token" -e "$HOME/" "$1" "$1.tar"; then bad "$1: $(grep -rlaF -e "$token" -e "$HOME/" "$1" | tr '\n' ' ')"; else ok; fi
	if python3 - "$model" "$1.tar" <<'END'; then ok; else bad "$1 holds a piece of the model"; fi
import sys
model, report = (open(f, 'rb').read() for f in sys.argv[1:])
pieces = [model[i:i + 32] for i in range(0, len(model) - 32, 512)]
sys.exit(any(len(set(p)) > 24 and p in report for p in pieces))
END
}

# By a private daemon, and the plan is written as ever.
data=$HOME/data
korch-submit --data "$data" --device fake "$model" -o "$tmp/plan" --budget 0 --report "$tmp/a/" >"$tmp/out" 2>"$tmp/said"
if [ $? = 0 ] && [ -s "$tmp/plan" ] && grep -q "report: $tmp/a.tar" "$tmp/said"; then ok; else bad "a job that is done: $(tail -n 1 "$tmp/said")"; fi
printf '%s\n' "$token" >"$tmp/token"
chmod 600 "$tmp/token"
korch-submit --data "$data" --token-file "$tmp/token" --name "$token" --device fake "$model" -o "$tmp/plan" --budget 0 -q --report "$tmp/b" 2>"$tmp/said" || bad "with a token: $(cat "$tmp/said")"
if [ -s "$tmp/said" ]; then bad "-q: $(cat "$tmp/said")"; else ok; fi
holds "$tmp/b" settings.txt host.txt job.json events.json workers.json cache.json environments.txt korchd.log dump/model.txt dump/plan.txt dump/text/k0.txt
clean "$tmp/b"
for words in 'settings.txt:token-file = ' 'settings.txt:data = ~/data (flag)' 'job.json:"title":"(token)"' 'dump/model.txt:model of (token)_net.onnx' 'workers.json:"class":"fake"' \
	'events.json:"state":"done"' 'report.txt:ended: done' 'report.txt:protocol' 'host.txt:max_user_namespaces' 'host.txt:jails of this host hold ' 'host.txt:jails of this host lack ' 'korchd.log:listen'; do
	if grep -qF -- "${words#*:}" "$tmp/b/${words%%:*}"; then ok; else bad "${words%%:*} does not say '${words#*:}'"; fi
done
if [ -e "$tmp/b/model" ]; then bad "the model, unasked"; else ok; fi
mkdir "$tmp/tar" && tar xf "$tmp/b.tar" -C "$tmp/tar"
if diff -r "$tmp/b" "$tmp/tar" >"$tmp/out"; then ok; else bad "tar and folder differ: $(head -n 2 "$tmp/out")"; fi

# Fewer stages, and the model.
korch-submit --data "$data" --device fake "$model" -o "$tmp/plan" --budget 0 -q --dump choice --dump-dir "$tmp/stages" --report "$tmp/c" --report-model 2>"$tmp/said" || bad "with the model: $(cat "$tmp/said")"
if cmp -s "$model" "$tmp/c/model/$(basename "$model")" && [ "$(ls "$tmp/c/dump")" = choice.txt ]; then ok; else bad "with the model: $(ls -R "$tmp/c")"; fi

# Its external data too, and nothing from outside of its folder: such a model is refused before anything is written.
mkdir -p "$tmp/x/in/w" && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$(dirname "$0") python3 - "$tmp/x" <<'END' || bad "python3"
import sys
from onnx_write import F32, graph, model, node, num, part, value
def outside(name, path):
    return num(1, 4) + num(2, F32) + part(8, name) + part(13, part(1, "location") + part(2, path)) + num(14, 1)
for name, path in ("good", "w/a.bin"), ("bad", "../secret"):
    g = graph([node("Add", ["x", "c"], ["y"])], [value("y", F32, [4])], [value("x", F32, [4])], [outside("c", path)])
    open(sys.argv[1] + "/in/" + name + ".onnx", "wb").write(model(g))
END
printf '0123456789abcdef' | tee "$tmp/x/in/w/a.bin" >"$tmp/x/secret"
korch-submit --data "$data" --device fake "$tmp/x/in/good.onnx" -o "$tmp/plan" --budget 0 -q --report "$tmp/x/good" --report-model >"$tmp/said" 2>&1 || bad "external data: $(cat "$tmp/said")"
have=$(tar tf "$tmp/x/good.tar" | grep '^model/' | sort | tr '\n' ' ')
if [ "$have" = 'model/good.onnx model/w/a.bin ' ] && cmp -s "$tmp/x/in/w/a.bin" "$tmp/x/good/model/w/a.bin"; then ok; else bad "external data: $have"; fi
korch-submit --data "$data" --device fake "$tmp/x/in/bad.onnx" -o "$tmp/plan" --budget 0 -q --report "$tmp/x/bad" --report-model >"$tmp/said" 2>&1
if grep -q 'leads out of' "$tmp/said" && ! grep -qrs 0123456789abcdef "$tmp/x/bad" "$tmp/x/bad.tar"; then ok; else bad "data from outside: $(cat "$tmp/said")"; fi

# Ends that are none: a planner that dies, a kernel that is none, no daemon.
KORCH_KILL_AT=planner.heard:2 korch-submit --data "$HOME/data2" --token-file "$tmp/token" --device fake "$model" -o "$tmp/plan" --budget 20 -q --report "$tmp/d" 2>"$tmp/said"
if [ $? = 1 ] && grep -q 'ended: .*signal 9' "$tmp/d/report.txt" && grep -q 'last words' "$tmp/d/died.txt"; then ok; else bad "a planner that died: $(cat "$tmp/said")"; fi
clean "$tmp/d"
korch-submit --data "$data" --device fake "$model" -o "$tmp/plan" --budget 0 -q --forbid 1234567890 --report "$tmp/e" 2>"$tmp/said"
if [ $? = 2 ] && grep -q '"state":"failed"' "$tmp/e/job.json"; then ok; else bad "a failed job: $(cat "$tmp/said")"; fi
korch-submit --daemon "ipc://$tmp/nobody" --token-file "$tmp/token" --device fake "$model" -o "$tmp/plan" -q --report "$tmp/f" 2>"$tmp/said"
if [ $? = 3 ] && grep -q '^workers.json *is not here: there was no daemon' "$tmp/f/report.txt"; then ok; else bad "no daemon: $(cat "$tmp/said")"; fi
holds "$tmp/f" settings.txt host.txt
clean "$tmp/f"

# A key of TLS: no line of it.
korch-keys make "$HOME/keys" --host localhost -q >"$tmp/said" 2>&1 || bad "no keys: $(cat "$tmp/said")"
korch-submit --daemon tls+tcp://127.0.0.1:1 --keys "$HOME/keys/client" --device fake "$tmp/small/candy_small/model.onnx" -o "$tmp/plan" -q --report "$tmp/k" 2>"$tmp/said"
if [ $? = 3 ] && grep -q '^keys = ~/keys/client' "$tmp/k/settings.txt"; then ok; else bad "with keys: $(cat "$tmp/said")"; fi
grep -v '^-----' "$HOME/keys/client/tls.key" >"$tmp/lines"
if [ -s "$tmp/lines" ] && ! grep -qraFf "$tmp/lines" "$tmp/k" "$tmp/k.tar"; then ok; else bad "a private key is in a report"; fi
clean "$tmp/k"

# Wrong calls write nothing.
cd "$tmp" || exit
wrong() {
	local want=$1
	shift
	korch-submit "$@" >"$tmp/said" 2>&1
	if [ $? = 2 ] && grep -q -- "$want" "$tmp/said"; then ok; else bad "$*: $(cat "$tmp/said")"; fi
}
before=$(ls -R "$tmp/f")
wrong 'is not empty' --report "$tmp/f" "$model"
wrong 'is not empty' --report "$tmp/f" "$tmp/none.onnx"
wrong 'is no folder' --report "$model" "$model"
wrong 'wants --report' --report-model "$model"
wrong 'does not wait' --report "$tmp/g" -d --daemon "ipc://$tmp/s" "$model"
wrong 'threads 2000' --report "$tmp/g" --device fake --threads 2000 "$model"
if [ "$(ls -R "$tmp/f")" = "$before" ] && [ ! -e "$tmp/g" ]; then ok; else bad "a wrong call wrote something"; fi
finish
