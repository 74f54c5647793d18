#!/usr/bin/env bash
# What a private korchd can never have a device of is said at once, whatever patience was asked for: this host's
# devices are known when its own workers have said hello, or have said why they cannot.  label: e2e
. "$(dirname "$0")/env.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
while IFS='|' read -r status regex device; do
	korch-submit "$tmp/small/candy_small/model.onnx" -o "$tmp/p.korch" --device "$device" --data "$tmp/own" --budget 0 --unplaceable-timeout 100000 -q >"$tmp/out" 2>"$tmp/err"
	got=$?
	if [ $got = "$status" ] && { [ -z "$regex" ] || grep -q -- "$regex" "$tmp/err"; } && [ "$(wc -l <"$tmp/err")" -le 1 ]; then ok; else bad "--device $device: status $got, not $status with '$regex': $(head -c 400 "$tmp/err")"; fi
done <<'END'
5|no device of this host is of class 'fake:seed=1' (there are: fake); take one with --device fake, or|fake:seed=1
5|no device of this host is of class 'fake:class=zebra,seed=2' (there are: .*zebra|fake:class=zebra,seed=2
5|'foo' is no device; there are cpu, cuda:0|foo
5|'foo' is no device; there are cpu, cuda:0|foo
5|'f?o\*' is no device|f?o*
5|"hang=x" is none of|fake:hang=x
5|"gpu=zzz" is no setting|cuda-fake:gpu=zzz
5|--device cpu:\*no-such-model\*: this host is of device class 'cpu:|cpu:*no-such-model*
0||fake
END
finish
