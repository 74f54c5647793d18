#!/bin/bash
# What commit 0941e29 wrote is still read: its plan by every word of korch-plan that reads (and a changed name in it is
# found by its own, older rule), its store by every word of korch-cache that reads.  label: e2e
. "$(dirname "$0")/env.inc"
from=tests/fixtures/0941e29 plan=$tmp/mlp.korch
xz -dc $from/mlp.korch.xz >"$plan"
tar xJf $from/store.tar.xz -C "$tmp"

digest=1ca049a856023fd5987c08dd2dcd9f49137413176bef9eaab8b99f66bc3699bd
must 0 '/fc2/MatMul,/Softmax' korch-plan show "$plan"
must 0 '^class +cpu:AMD-EPYC-avx512$' korch-plan show "$plan"
must 0 "\"digest\":\"$digest\"" korch-plan show --json "$plan"
must 0 "^digest +$digest" korch-plan verify "$plan" --trust any
must 0 '^signed +not signed' korch-plan verify "$plan" --trust any
must 0 'the search, repeated' korch-plan verify --resolve "$plan" --trust any
must 1 'not signed.*korch-plan rebuild' korch-plan verify "$plan"
must 1 'not signed.*korch-plan rebuild' korch-run "$plan"
must 0 'no candidate holds both' korch-plan explain "$plan"
must 0 'runner-up' korch-plan explain "$plan" 9b18f1fae5fb
must 0 'digraph plan' korch-plan dot "$plan"
must 0 'static' korch-plan source "$plan"
python3 - "$plan" "$tmp/bad.korch" <<'END' || bad "python3"
import shutil, sqlite3, sys
shutil.copy(sys.argv[1], sys.argv[2])
db = sqlite3.connect(sys.argv[2])
db.execute("UPDATE step SET nodes = nodes || 'x' WHERE id = 1")
db.commit()
END
must 1 'the plan is damaged' korch-plan verify "$tmp/bad.korch"

mkfifo "$tmp/ready"
korchd --quiet --data "$tmp/d" --ready-fd 3 3>"$tmp/ready" 2>"$tmp/daemon.log" &
daemon=$!
read -r _ <"$tmp/ready" || bad "korchd: $(cat "$tmp/daemon.log")"
data="--data $tmp/d"
must 0 '76' korch-cache stats $data
must 0 '^09a08cc778f5' korch-cache list $data
# its class is that of every CPU then, until a worker of the same environment says more
must 0 '^09a08cc778f5' korch-cache list --class cpu $data
must 0 '^09a08cc778f5' korch-cache list --class 'c?u' $data
must 0 '^$' sh -c "korch-cache list --class 'cpu:*' $data; echo"
must 0 '%1 = rmax' korch-cache show 09a08cc778f5 $data
must 0 'lost' korch-cache explain 09a08cc778f5 $data
must 0 'as they were written' korch-cache verify $data
must 0 'KORCH CACHE 1' sh -c "korch-cache export -o $tmp/export $data && head -n 1 $tmp/export"
must 0 'mlp' korch-jobs list --all $data
# A job is answered from its rows: nobody is there who could measure.
must 0 '0 measured now, 17 from the cache' korch-submit $from/mlp.onnx --daemon "ipc://$tmp/d/korchd.sock" --device cpu \
	--offline --threads 1 --forbid 9b18f1fae5fb
kill $daemon
wait $daemon && ok || bad "korchd left with $?"
finish
