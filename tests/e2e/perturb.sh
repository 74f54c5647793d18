#!/usr/bin/env bash
# Orders of machine instructions from end to end, on the fake GPU: asked for, found, kept, explained, built again; from
# the cache; after a kill -9 of worker and korchd; where every order crashes; and what is refused.  label: e2e
export KORCH_LIBRARIES=none # what is generated is perturbed, and no library's call
. "$(dirname "$0")/env.inc"
fake_device=cuda-fake:gpu=a100,seed=1
. "$(dirname "$0")/farm.inc"
python3 - "$tmp/m.onnx" "$tmp/longer.onnx" <<'END' || bad "no model"
import sys
sys.path.insert(0, "tests/e2e")
from onnx_write import F32, graph, model, node, tensor, value
w = [((7 * i) % 13 - 6) / 16 for i in range(32 * 32)]
nodes = [node("MatMul", ["x", "w"], ["a"], "first"), node("Relu", ["a"], ["b"], "relu"),
         node("MatMul", ["b", "v"], ["c"], "second"), node("Exp", ["c"], ["y"], "exp")]
def write(path, nodes, result):
    open(path, "wb").write(model(graph(nodes, [value(result, F32, [64, 32])], [value("x", F32, [64, 32])],
                                       [tensor("w", F32, [32, 32], w), tensor("v", F32, [32, 32], w[::-1])])))
write(sys.argv[1], nodes, "y")
write(sys.argv[2], nodes + [node("Tanh", ["y"], ["z"], "last")], "z")
END
cd "$tmp" || exit 1
job="korch-submit m.onnx --device cuda --effort 1 --fusion operator"
longer="korch-submit longer.onnx --device cuda --effort 1 --fusion operator" # the same kernels, and one more

# What is refused, with a sentence.
must 2 "'x' is not a value for perturb" $job $farm --perturb=x
for seconds in -1 1e9 nan; do must 2 '(--perturb .*number of seconds|not a value for perturb)' $job $farm --perturb=$seconds; done
must 2 "is for a GPU's machine code; device cpu has none" korch-submit m.onnx $farm --device cpu --perturb
must 2 "is for a GPU's machine code; device fake has none" korch-submit m.onnx $farm --device fake --perturb=5
must 2 'part of --budget 5' $job $farm --perturb=6 --budget 5
must 2 '--offline, --forbid and --force measure nothing' $job $farm --perturb --offline

worker() {
	korch-worker --daemon "ipc://$tmp/s" --device "$1" -q 2>>worker.err &
	worker_pid=$!
}

# None asked for: the plan is that of a job that says nothing of it.
must 0 '' $job $farm --budget 60 -o plain.korch
must 0 '' $job $farm --budget 60 -o zero.korch --perturb=0
if cmp -s plain.korch zero.korch; then ok; else bad "--perturb=0 is another job"; fi
if korch-plan explain plain.korch | grep -q perturbed; then bad "perturbed, and nobody asked"; else ok; fi

# Cold.
must 0 '[1-9] of [1-9] kernels are faster with their instructions in another order' $job $farm --budget 120 --perturb=8 -o p.korch
must 0 'perturbed: [1-9][0-9]* moves? of its instructions, .* % faster than as compiled' korch-plan explain p.korch
must 0 '[1-9][0-9]* elements equal bit for bit; [1-9]' korch-plan explain p.korch
must 0 'sip=[0-9a-f]{16}:k_p' korch-plan show p.korch
must 0 'verdict +holds' korch-plan verify p.korch --trust "$data/sign.pub"
if [ "$(korch-plan show p.korch | awk '{ if (length($0) > m) m = length($0) } END { print m }')" -lt 400 ]; then ok; else bad "a line of korch-plan show is endless"; fi
spec=$(korch-plan explain p.korch --json | python3 -c 'import json,sys
print(next(s["spec"] for s in json.load(sys.stdin)["steps"] if s["perturbed"])[:12])')
must 0 'sip=.* \([0-9]+ moves\)|sip=' korch-cache show "$spec" $farm

# From the cache: nothing is done; a job that does not ask has it too.
must 0 '' $job $farm --budget 120 --perturb=8 -o again.korch
if cmp -s p.korch again.korch; then ok; else bad "the same job gives another plan"; fi
must 0 '' $job $farm --budget 120 --perturb=5 -o less.korch
must 0 'perturbed: ' korch-plan explain less.korch
if korch-cache export -o cache.kc $farm && korch-cache import cache.kc --data "$tmp/other" >out; then ok; else bad "export, import"; fi
must 0 '' $job --device cuda-fake:gpu=a100,seed=1 --data "$tmp/other" --budget 60 -o other.korch
must 0 'perturbed: ' korch-plan explain other.korch

# Built again: the same code; by another compiler without the moves, which is said.
must 0 'kernels rebuilt' korch-plan rebuild p.korch -o r.korch --device cuda-fake:gpu=a100,seed=1
digest() { korch-plan verify "$1" --trust any | awk '$1 == "digest" { print $2 }'; }
if [ "$(digest p.korch)" = "$(digest r.korch)" ] && [ -n "$(digest r.korch)" ]; then ok; else bad "rebuilt, the plan is another one"; fi
must 0 'its instructions stay as compiled' korch-plan rebuild p.korch -o v.korch --device cuda-fake:gpu=a100,seed=1,recode=3
if korch-plan explain v.korch | grep -q perturbed; then bad "moves that were left out are told"; else ok; fi
must 2 "takes this host's compiler" korch-plan rebuild p.korch -o v.korch --device cpu

# A worker whose compiler writes other code: the moves do not fit it, which is said once; nobody builds them again.
kill $worker_pid
wait $worker_pid 2>/dev/null
worker $fake_device,recode=3
must 0 'the instructions of [1-9] kernels? stay as compiled: node .*the moves of its instructions do not fit' $longer $farm --budget 60 -o u.korch
if korch-plan show u.korch | grep -q 'sip='; then bad "a plan with moves that do not fit"; else ok; fi
must 0 'COMPILE|compile' korch-cache list $farm
$longer $farm --budget 60 -o v.korch >out 2>&1
if grep -q 'stay as compiled' out || korch-plan show v.korch | grep -q 'sip='; then bad "built again: $(cat out)"; else ok; fi
kill $worker_pid
wait $worker_pid 2>/dev/null
worker $fake_device

# A short budget: what there is, in time.
must 0 '' $job $farm --budget 4 --perturb=4 --precision tf32 -o short.korch

# begin ARGUMENTS...: korch-submit in the background until it perturbs
begin() {
	: >err
	korch-submit m.onnx --device cuda --fusion operator "$@" 2>>err >out &
	submit=$!
	wait_line '^perturbing' err $submit
}
# ends PLAN: it ends well, and the plan has moves
ends() {
	wait "$submit"
	if [ $? = 0 ] && korch-plan explain "$1" | grep -q 'perturbed: '; then ok; else bad "after a kill: $(cat err; tail -n 20 korchd.err)"; fi
}
# kill -9 of the worker that searches: another one does it.
begin $farm --budget 120 --perturb=20 --effort 2 -o k.korch
kill -9 $worker_pid
wait $worker_pid 2>/dev/null
worker $fake_device
ends k.korch

# kill -9 of korchd: its next life goes on with the job.
begin $farm --budget 120 --perturb=40 --effort 3 -o d.korch
kill -9 $korchd_pid
wait $korchd_pid 2>/dev/null
rm -f ready
mkfifo ready
korchd --data "$data" --listen "ipc://$tmp/s" -q --ready-fd 3 3>ready 2>>korchd.err &
korchd_pid=$!
read -r _ <ready
ends d.korch

# Every order crashes: each costs its row, and the plan is there without moves.
kill $worker_pid
wait $worker_pid 2>/dev/null
must 0 '0 of [1-9] kernels are faster' $job --device cuda-fake:gpu=a100,seed=2,sipfault=1000000 --data "$tmp/faults" --budget 120 --perturb=8 -o f.korch
if korch-plan show f.korch | grep -q 'sip='; then bad "a plan with an order that crashes"; else ok; fi
must 0 'CRASH|crash' korch-cache list --data "$tmp/faults"
must 0 '0 of [1-9] kernels are faster' $job --device cuda-fake:gpu=a100,seed=2,sipwrong=1000000 --data "$tmp/wrong" --budget 120 --perturb=8 -o w.korch
must 0 'another one than before its instructions were moved' korch-cache list --data "$tmp/wrong"
finish
