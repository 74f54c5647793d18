#!/bin/bash
# What a person is told about a model: open extents, all that is not supported, shapes that do not meet; --shape by
# input and by name, --value, and korch-submit --check, which starts no daemon.  label: e2e
. "$(dirname "$0")/env.inc"
python3 "$(dirname "$0")/onnx_write.py" "$tmp" || bad "onnx_write.py"
cd "$tmp" || exit 1

wide="--shape batch=1 --shape samples=8"

# --check: nothing is started, nothing is left behind
must 1 '^inputs +x f32 <batch>x<samples>$' korch-submit --check voice.onnx
must 1 'as in: korch-submit voice.onnx --shape x=1x16000$' korch-submit --check voice.onnx
must 1 "node 'pick' \(If\): .*the input 'sr' \(bind it, as with --value sr=16000\)" korch-submit --check voice.onnx $wide
must 0 'sr i64 scalar = 16000, a constant' korch-submit --check voice.onnx $wide --value sr=16000
must 0 '^outputs +y f32 1x8$' korch-submit --check voice.onnx $wide --value sr=16000
must 0 '^outputs +y f32 scalar$' korch-submit --check voice.onnx $wide --value sr=8000
must 1 '^unsupported +12  com.microsoft.FusedConv: conv0, conv1, conv2, conv3, ...$' korch-submit --check foreign.onnx
must 1 'made by ONNX Runtime' korch-submit --check foreign.onnx
must 1 ' 1  Loop2: loop$' korch-submit --check foreign.onnx
must 1 ' 1  ai.onnx.ml.TreeEnsemble: tree$' korch-submit --check foreign.onnx
must 1 ' 1  Gelu, from opset 20 on; the file has 16: gelu$' korch-submit --check foreign.onnx
must 1 'ids i64 <n>x<\?>' korch-submit --check foreign.onnx
must 1 "node 'cat' \(Concat\).*'a' f32\[4,3\] \(from --shape n=4\), 'z' f32\[5,2\] \(from --shape m=5\)" \
	korch-submit --check meets.onnx --shape n=4 --shape m=5
must 0 'would be tuned' korch-submit --check meets.onnx --shape n=4 --shape m=4
must 1 'not an ONNX file' korch-submit --check "$bin/korch-submit"
must 2 'its named extents: batch samples' korch-submit --check voice.onnx --shape widht=3
must 2 'of this input is already 4, by --shape n=4' korch-submit --check meets.onnx --shape n=4 --shape x=5x3
must 2 "'16k' is no i64" korch-submit --check voice.onnx $wide --value sr=16k
must 2 'has no such input; its inputs are: x sr' korch-submit --check voice.onnx --value rate=1
must 2 'it is INPUT=16000' korch-submit --check voice.onnx --value sr
must 1 '^verdict' korch-submit --check wide.onnx
must 1 'an operator is not supported' korch-submit wide.onnx -o p --budget 0
must 1 "korch-submit: .*node 'a.\[31mb' \(Squeeze\)" korch-submit -q escape.onnx -o p --budget 0
if LC_ALL=C grep -q "$(printf '\033')" out; then bad "escapes on the terminal"; else ok; fi
XDG_DATA_HOME=$tmp/none must 1 '^inputs' korch-submit --check meets.onnx
if [ -e "$tmp/none" ]; then bad "--check made a data folder"; else ok; fi

korch-submit --check --json foreign.onnx >out
python3 - out <<'END' && ok || bad "JSON of --check: $(cat out)"
import json, sys
d = json.load(open(sys.argv[1]))
ops = {(x["domain"], x["operator"]): x for x in d["unsupported"]}
assert len(ops) == 4 and ops["com.microsoft", "FusedConv"]["nodes"] == 12
assert ops["com.microsoft", "FusedConv"]["where"] == ["conv%d" % i for i in range(12)]
assert ops["", "Gelu"]["since"] == 20 and ops["ai.onnx.ml", "TreeEnsemble"]["instead"]
assert [i["shape"] for i in d["inputs"]] == ["<n>x3x<image_height>x<image_width>", "<n>x<?>"]
assert d["inputs"][0]["open"] and not d["would_tune"] and "--shape image=1x3x224x224" in d["example"]
END

# A plain submit says the same: all of them at once, each open input, an example of the model's own.
must 1 '4 operators are not supported: com.microsoft.FusedConv \(12 nodes, first .conv0.\), Loop2 .*TreeEnsemble.*Gelu .*ONNX Runtime' \
	korch-submit foreign.onnx -o p --budget 0
must 1 "3 inputs are open: 'x' <n>x3, 'y' <n>x1, 'z' <m>x2; .* --shape x=1x3 --shape y=1x1 --shape z=1x2$" \
	korch-submit meets.onnx -o p --budget 0
must 1 "on the input 'sr' \(bind it, as with --value sr=16000\)" korch-submit voice.onnx -o p --budget 0 $wide

# A bound input is no input of the plan, and the value is part of what the job is.
python3 - <<'END'
import struct
head = lambda kind, shape: ("{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (kind, shape)).ljust(117) + "\n"
npy = lambda kind, shape, data: b"\x93NUMPY\1\0" + struct.pack("<H", 118) + head(kind, shape).encode() + data
open("x.npy", "wb").write(npy("<f4", "(1, 8)", struct.pack("<8f", *range(8))))
open("sr.npy", "wb").write(npy("<i8", "()", struct.pack("<q", 8000)))
open("sr1.npy", "wb").write(npy("<i8", "(1,)", struct.pack("<q", 16000)))
open("sr32.npy", "wb").write(npy("<i4", "()", struct.pack("<i", 8000)))
END
tail_floats() { tail -c "$1" "$2" | od -An -tf4 | tr -s ' \n' ' '; }
must 0 '' korch-submit voice.onnx -o wide.korch --budget 0 $wide --value sr=16000
must 0 '' korch-submit voice.onnx -o narrow.korch --budget 0 $wide --value sr=@sr.npy
must 0 '' korch-submit voice.onnx -o again.korch --budget 0 $wide --value sr=@sr1.npy
must 2 'the file holds i32\[\]' korch-submit voice.onnx -o p --budget 0 $wide --value sr=@sr32.npy
must 0 '^values +sr=16000: constants of this plan$' korch-plan show wide.korch
if korch-plan show --json wide.korch | grep -q '"inputs":\[{"name":"x","type":"f32","shape":\[1,8\]}\],"outputs"'; then ok; else bad "inputs of the plan: $(korch-plan show --json wide.korch)"; fi
must 0 'median' korch-run wide.korch --input x=x.npy --repeat 1 --output-dir w
must 0 'median' korch-run narrow.korch --input x=x.npy --repeat 1 --output-dir n
must 0 'median' korch-run again.korch --input x=x.npy --repeat 1 --output-dir a
if [ "$(tail_floats 32 w/y.npy)" = " 0 2 4 6 8 10 12 14 " ]; then ok; else bad "wide: $(tail_floats 32 w/y.npy)"; fi
if [ "$(tail_floats 4 n/y.npy)" = " 7 " ]; then ok; else bad "narrow: $(tail_floats 4 n/y.npy)"; fi
if cmp -s w/y.npy a/y.npy; then ok; else bad "a scalar from a list of one"; fi
finish
