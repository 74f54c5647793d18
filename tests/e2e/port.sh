#!/bin/bash
# What a plan of one class loses on another: nothing on its own, as much as its kernels there cost more than that class's own
# choice elsewhere; the cache alone is asked, and the other class's device is not here.  label: e2e
. "$(dirname "$0")/env.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
model=$tmp/small/candy_small/model.onnx farm="--daemon ipc://$tmp/s" here="--data $tmp/here"
mkdir "$tmp/there"
mkfifo "$tmp/ready" "$tmp/ready.alpha" "$tmp/ready.beta"
korchd --data "$tmp/there" --listen "ipc://$tmp/s" -q --ready-fd 3 3>"$tmp/ready" 2>"$tmp/korchd.err" &
pids=$!
trap 'kill $pids 2>/dev/null; wait; rm -rf "$tmp"' EXIT
read -r _ <"$tmp/ready"
for w in alpha beta; do
	korch-worker --daemon "ipc://$tmp/s" --device "fake:seed=${#w},class=$w" -q --ready-fd 3 3>"$tmp/ready.$w" 2>"$tmp/worker.err" &
	pids="$pids $!"
	read -r _ <"$tmp/ready.$w"
	must 0 'gap|proved' korch-submit "$model" $farm --device $w -q -o "$tmp/$w.korch"
done
must 0 "^own .*: the plan loses" korch-plan port "$tmp/alpha.korch" --device beta $farm
korch-cache export $farm -q -o "$tmp/both.cache" || bad 'no export'
must 0 '"environments":2' korch-cache import $here "$tmp/both.cache"
for w in alpha beta; do
	must 0 '"class":"'$w korch-plan port "$tmp/alpha.korch" --device $w $here --json
	mv "$tmp/out" "$tmp/$w.json"
done
python3 - "$tmp" >"$tmp/said" <<'PY' && ok || bad "$(cat "$tmp/said")"
import json, sys
own, other = (json.load(open(sys.argv[1] + '/' + w + '.json')) for w in ('alpha', 'beta'))
for p in own, other:
    steps = p['steps']
    assert p['failed'] == 0 and p['kernels'] == len(steps) > 5, p
    assert sum(s['predicted_ns'] for s in steps) == p['predicted_ns'], 'the steps are not the sum'
    assert p['predicted_low_ns'] <= p['predicted_ns'] <= p['predicted_high_ns']
    assert [s['loss_ns'] for s in steps] == sorted((s['loss_ns'] for s in steps), reverse=True)
    assert abs(p['loss'] - (p['predicted_ns'] / p['own_ns'] - 1)) < 1e-4
    # no share of the loss is more than the loss, but for what the solver's bound leaves open
    assert steps[0]['loss_ns'] <= 1.05 * (p['predicted_ns'] - p['own_ns']) + 0.03 * p['own_ns'], p
assert own['guessed'] == 0 and own['predicted_ns'] == own['cost_ns'] and abs(own['loss']) < 0.03, own['loss']
assert own['cost_ns'] == other['cost_ns'] and other['loss'] > 0.1, other['loss']
PY
must 0 '^kernel' korch-plan port "$tmp/alpha.korch" --device bet $here --top 2
[ "$(grep -c '^[0-9a-f]\{12\} ' "$tmp/out")" = 2 ] && ok || bad "--top 2: $(cat "$tmp/out")"
finish
