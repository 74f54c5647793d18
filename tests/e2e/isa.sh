#!/usr/bin/env bash
# KORCH_ISA holds a host to a narrower instruction set: it is a device class of its own, its plans say what they need and
# run under the wider one too; a plan for the wider one is refused under the narrower one. label: e2e
. "$(dirname "$0")/env.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
cd "$tmp" || exit 1
model=small/candy_small/model.onnx
must 0 '' korch-submit $model --budget 0 -o wide.korch --data wide
KORCH_ISA=mmx must 2 "KORCH_ISA is 'mmx'; give one of: " korch-run wide.korch --trust wide/sign.pub
KORCH_ISA=mmx must 5 "KORCH_ISA is 'mmx'; give one of: " korch-submit $model --budget 0 -o none.korch --data none
[ ! -e none.korch ] && ok || bad "a plan for no instruction set"
widest=$(korch-plan show wide.korch | sed -n 's/^class .*-//p')
case $widest in
avx512) narrower=avx2 needs="x86_64 avx2 fma elf-1" ;;
avx2) narrower=sse42 needs="x86_64 sse4.2 elf-1" ;;
*)
	echo "SKIP e2e/isa: this CPU has one instruction set that code is generated for: $widest"
	finish
	;;
esac
# held to what it has anyway it is the same host
KORCH_ISA=$widest must 0 '' korch-run wide.korch --trust wide/sign.pub
! grep -q 'measured elsewhere' out && ok || bad "another host: $(cat out)"
KORCH_ISA=$narrower must 0 '' korch-submit $model --budget 3 -o narrow.korch --data narrow
must 0 "^class  *cpu:.*-$narrower$" korch-plan show narrow.korch
must 0 "^device  *$needs, " korch-plan show narrow.korch
for isa in $narrower $widest ''; do
	KORCH_ISA=$isa must 0 '^agrees: 1 data set' korch-run narrow.korch --check small/candy_small --quiet --trust narrow/sign.pub
done
KORCH_ISA=$narrower must 1 "has no [a-z0-9]*; rebuild it here" korch-run wide.korch --trust wide/sign.pub
finish
