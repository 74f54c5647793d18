#!/bin/bash
# A few kernels measured on a device, chosen to be unlike, put right what is expected of all others: the fake device's
# kernels take about three times what kernels usually do, and so does the prediction then.  label: e2e
. "$(dirname "$0")/env.inc"
. "$(dirname "$0")/farm.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
model=$tmp/small/candy_small/model.onnx

for n in 0 60; do
	samples=
	[ $n = 0 ] || samples="--samples $n"
	must 0 '' korch-submit "$model" $farm --device fake --predict $samples -o "$tmp/$n.korch" --json
	mv "$tmp/out" "$tmp/$n.json"
	korch-plan show "$tmp/$n.korch" --json >"$tmp/$n.plan" || bad "show $n"
done
must 0 '"measured": 60,' tail -n 1 "$tmp/60.json"
must 0 'predicted for fake, built and checked there' korch-plan show "$tmp/60.korch"
# The truth: what every candidate takes there.
must 0 'gap|proved' korch-submit "$model" $farm --device fake --prove -q -o "$tmp/all.korch"
python3 - "$tmp" >"$tmp/specs" <<'PY'
import json, sys
for n in '0', '60':
    for step in json.load(open(sys.argv[1] + '/' + n + '.plan'))['steps']:
        print(step['spec'])
PY
for spec in $(sort -u "$tmp/specs"); do
	korch-cache show "$spec" $farm --json 2>/dev/null
done >"$tmp/rows"
python3 - "$tmp" >"$tmp/said" <<'PY' && ok || bad "$(cat "$tmp/said")"
import json, math, sys
tmp = sys.argv[1]
truth = {}
for line in open(tmp + '/rows'):
    row = json.loads(line)
    if row.get('is_best'):
        truth[row['spec']] = min(row['row']['median_ns'], truth.get(row['spec'], 1 << 62))
def error(n):
    want = have = count = 0
    for step in json.load(open(tmp + '/' + n + '.plan'))['steps']:
        if step['spec'] in truth:
            want += truth[step['spec']]
            have += step['cost_ns'] if step['measured'] else step['expected_ns']
            count += not step['measured']
    assert count > 3, count
    return abs(math.log(have / want))
none, some = error('0'), error('60')
print('without samples off by a factor of %.2f, with 60 by %.2f' % (math.exp(none), math.exp(some)))
sys.exit(not (some < none / 3))
PY
cat "$tmp/said"
finish
