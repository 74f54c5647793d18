#!/bin/bash
# --json of every program and word, against its schema in client/json: all fields always, and no others.  A word that
# is in no line below, or that has no schema, is a fault.  label: e2e
. "$(dirname "$0")/env.inc"
. "$(dirname "$0")/farm.inc"
here=$(realpath "$(dirname "$0")")
schemas=$here/../../client/json
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
cd "$tmp" || exit 1
case=small/candy_small model=small/candy_small/model.onnx
python3 "$here/onnx_write.py" . || bad "no models"
tune="korch-submit $model $farm --device fake --budget 60"
$tune -q -o plan.korch >out 2>&1 || bad "the plan: $(tail -n 1 out)"
korch-submit $model -q --budget 3 -o cpu.korch >out 2>&1 || bad "a plan with code: $(tail -n 1 out)"
spec=$(korch-cache list --json $farm | field spec | tr -d '"')
kernel=$(korch-plan show plan.korch --json | grep -oE '"spec":"[0-9a-f]{64}"' | head -n 1 | cut -d'"' -f4)
korch-cache export $farm -o export.zst || bad "no export"
# What a worker said that does not count; here no worker lies, so that the row is written by hand.
python3 - "$data/korch.db" <<'END' || bad "no evidence"
import sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=60) as db:
    db.execute("INSERT INTO evidence (wall_ns, worker, class, why, record) VALUES (1, 'liar', 'cpu', 'a \"lie\"', x'80')")
END

# SCHEMA | COMMAND: what it writes is of that schema; a schema of a program's word is PROGRAM.WORD
seen=
while IFS='|' read -r schema command; do
	schema=$(echo $schema)
	$command --json >out 2>err </dev/null
	seen="$seen $schema"
	if said=$(python3 "$here/../harness/json_schema.py" check "$schemas" "$schema" <out); then
		ok
	else
		bad "$command: $said; $(tail -n 1 err)"
	fi
done <<END
korch-submit | $tune -o p --name titled
korch-submit | $tune -o p --fusion operator
korch-submit | $tune --forbid $kernel
korch-submit | $tune -d
korch-submit.check | korch-submit --check $model
korch-submit.check | korch-submit --check foreign.onnx
korch-run | korch-run cpu.korch --repeat 2
korch-run | korch-run cpu.korch --repeat 2 --profile
korch-run | korch-run cpu.korch --check $case
korch-run.model | korch-run $model --repeat 2
korch-plan.show | korch-plan show plan.korch
korch-plan.show | korch-plan show cpu.korch
korch-plan.show | korch-plan show cpu.korch --top 3
korch-plan.explain | korch-plan explain plan.korch
korch-plan.explain | korch-plan explain plan.korch /conv1/Relu
korch-plan.explain | korch-plan explain cpu.korch
korch-plan.explain | korch-plan explain plan.korch /conv2/conv/Conv
korch-plan.explain | korch-plan explain plan.korch $kernel
korch-plan.verify | korch-plan verify plan.korch
korch-plan.verify | korch-plan verify plan.korch --resolve
korch-plan.dot | korch-plan dot plan.korch
korch-plan.dot | korch-plan dot plan.korch -o pic
korch-plan.source | korch-plan source plan.korch
korch-plan.source | korch-plan source plan.korch -o text.c
korch-plan.port | korch-plan port plan.korch --device fake $farm
korch-plan.rebuild | korch-plan rebuild cpu.korch -o again.korch
korch-jobs.list | korch-jobs list --all $farm
korch-jobs.show | korch-jobs show 1 $farm
korch-jobs.watch | korch-jobs watch 1 $farm
korch-jobs.fetch | korch-jobs fetch 1 -o fetched.korch $farm
korch-jobs.workers | korch-jobs workers $farm
korch-cache.stats | korch-cache stats $farm
korch-cache.predict | korch-cache predict $spec $farm
korch-cache.stats | korch-cache stats --data $tmp/none-yet
korch-cache.list | korch-cache list $farm
korch-cache.show | korch-cache show $spec $farm
korch-cache.explain | korch-cache explain $spec $farm
korch-cache.explain | korch-cache explain $kernel $farm
korch-cache.export | korch-cache export $farm -o export
korch-cache.import | korch-cache import export.zst $farm
korch-cache.import | korch-cache import export.zst $farm --dry-run
korch-cache.evidence | korch-cache evidence $farm
korch-cache.gc | korch-cache gc $farm
korch-cache.verify | korch-cache verify $farm
korch-keys.make | korch-keys make keys --host ::1
korch-keys.add | korch-keys add keys worker w2
korch-keys.list | korch-keys list keys
version | korch-submit --version
version | korch --version
setting | korch-submit --show-config
setting | korchd --show-config
setting | korch-worker --show-config --device cuda:0
END

# What runs on: a job to cancel, a korchd and a worker that say when they can be reached, and log.
job=$($tune -d --device nowhere | tail -n 1)
korch-jobs cancel "$job" $farm --json >out 2>err
mkfifo ready2 said
korchd --data daemon2 --listen "ipc://$tmp/t" --json --log-file log --ready-fd 3 3>ready2 >said.korchd 2>err &
second=$!
read -r _ <ready2
korch-worker --daemon "ipc://$tmp/t" --device fake:seed=1 --json --ready-fd 3 3>said >said.worker 2>log.worker &
third=$!
read -r _ <said
kill $second $third
wait $second $third
for pair in "korch-jobs.cancel out" "korchd said.korchd" "korch-worker said.worker" "log log" "log log.worker"; do
	said=$(python3 "$here/../harness/json_schema.py" check "$schemas" "${pair% *}" <"${pair#* }") && ok || bad "$pair: $said"
	seen="$seen ${pair% *}"
done
# Errors are objects too.
for command in "korch nothing" "korch-submit nothing.onnx" "korch-run nothing" "korch-plan show nothing" "korch-jobs show 12345 $farm" \
	"korch-cache show 00000000000000000000 $farm" "korch-keys list nothing" "korchd --listen nowhere" "korch-worker --daemon nowhere"; do
	$command --json >out 2>err </dev/null
	said=$(python3 "$here/../harness/json_schema.py" check "$schemas" error <out) && ok || bad "$command: $said"
done

# Every word of every program, and every schema.
for program in korch-submit korch-run korch-plan korch-jobs korch-cache korch-keys korchd korch-worker; do
	words=$("$program" --help | tr '\n' ' ' | sed -n "s/^Usage: $program \[OPTION\]\.\.\. *\([a-z|]*|[a-z|]*\) .*/\1/p" | tr '|' ' ')
	for schema in ${words:-.}; do
		schema=$program.$schema
		case " $seen " in *" ${schema%..} "*) ok ;; *) bad "$schema: nothing checks its --json" ;; esac
	done
done
for file in "$schemas"/*.json; do
	name=$(basename "$file" .json)
	case " $seen records error event result detached " in *" $name "*) ok ;; *) bad "$name.json is the schema of nothing" ;; esac
done
finish
