#!/bin/bash
# Whose plans run here: one's own, those of a daemon that one has met, those whose key was given; all others are refused
# with the fingerprint of who signed and the ways out.  A daemon that has another key than before is refused. label: e2e
. "$(dirname "$0")/env.inc"
. "$(dirname "$0")/farm.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
case=$tmp/small/candy_small model=$tmp/small/candy_small/model.onnx
home=$PWD
cd "$tmp" || exit 1

# As another user: no data, no keys.
stranger() { XDG_DATA_HOME=$tmp/other/data XDG_CONFIG_HOME=$tmp/other/config "$@"; }
print_of() { python3 -c 'import base64,hashlib,sys
b = "".join(l for l in open(sys.argv[1]) if "-----" not in l and not l.startswith("the korchd"))
print("SHA256:" + base64.b64encode(hashlib.sha256(base64.b64decode(b)).digest()).decode().rstrip("="))' "$1"; }

# ---- one's own
must 0 'p.korch' korch-submit "$model" -o p.korch --budget 0
own=$(print_of "$XDG_DATA_HOME/korch/sign.pub")
must 0 '^agrees' korch-run p.korch --check "$case"
must 0 "^signed +by ${own//+/\\+}, the key in $XDG_DATA_HOME/korch/sign.pub" korch-plan verify p.korch
must 0 '"seal":"trusted"' korch-plan verify p.korch --json
must 0 "^signed +by ${own//+/\\+}, your own key \($XDG_DATA_HOME/korch/sign.pub\)" korch-plan show p.korch
must 0 "\"seal\":\"own\",\"signer\":\"${own//+/\\+}\",\"trusted_by\":\"$XDG_DATA_HOME/korch/sign.pub\",\"built_by\":\"[^\"]" korch-plan show p.korch --json
if [ "$(stat -c %a "$XDG_DATA_HOME/korch/sign.key")" = 600 ]; then ok; else bad "mode of sign.key"; fi
if ls "$XDG_DATA_HOME/korch/trusted" >/dev/null 2>&1; then bad "one's own key is kept twice"; else ok; fi

# ---- somebody else's
for ask in "korch-run p.korch" "korch-plan verify p.korch" "korch-run p.korch --profile"; do
	must 1 "signed by ${own//+/\\+}.*--trust FILE.*korch-plan rebuild.*--trust any" stranger $ask
done
must 1 '"class":"signed by nobody who is trusted"' stranger korch-plan verify p.korch --json
must 0 'ONNX nodes' stranger korch-plan show p.korch # reading runs nothing
must 0 "^signed +by ${own//+/\\+}, a key that you do not trust" stranger korch-plan show p.korch
must 0 "^signed +by ${own//+/\\+}, a key that you trust \($XDG_DATA_HOME" stranger korch-plan show p.korch --trust "$XDG_DATA_HOME/korch/sign.pub"
must 0 '"seal":"unknown","signer":"SHA256:[^"]*","trusted_by":""' stranger korch-plan show p.korch --json
xz -dc "$home/tests/fixtures/0941e29/mlp.korch.xz" >before.korch
must 0 '^signed +by nobody: ' korch-plan show before.korch
must 0 '"seal":"unsigned","signer":"","trusted_by":"","built_by":""' korch-plan show before.korch --json
must 0 '^agrees' stranger korch-run p.korch --check "$case" --trust "$XDG_DATA_HOME/korch/sign.pub"
must 0 '^agrees' stranger korch-run p.korch --check "$case" --trust any
must 0 '^agrees' stranger env KORCH_TRUST="$XDG_DATA_HOME/korch/sign.pub" korch-run p.korch --check "$case"
must 0 '^agrees' stranger korch-run p.korch --check "$case" --data "$XDG_DATA_HOME/korch"
must 0 '^signed +by .*whom you do not trust' stranger korch-plan verify p.korch --trust any
must 1 'nowhere: cannot open' stranger korch-run p.korch --trust nowhere
echo none >"$model.names"
must 1 'holds no public key' stranger korch-run p.korch --trust "$model.names"
mkdir -p other/config/korch/trusted
cp "$XDG_DATA_HOME/korch/sign.pub" other/config/korch/trusted/friend.pub
chmod 644 other/config/korch/trusted/friend.pub
must 0 '^agrees' stranger korch-run p.korch --check "$case"
chmod 666 other/config/korch/trusted/friend.pub
must 1 'not counted: .*friend.pub may be written by others' stranger korch-run p.korch --check "$case"
rm -r other
must 0 'kernels rebuilt' stranger korch-plan rebuild p.korch -o r.korch
must 0 '^agrees' stranger korch-run r.korch --check "$case"
must 0 '^signed +by .*other/data/korch/sign.pub' stranger korch-plan verify r.korch
must 1 'a key that you do not trust' korch-run r.korch

# ---- whatever was changed after it was signed, with all sums right again: here the seal of another plan of the same signer
must 0 "o.korch" korch-submit "$model" -o o.korch --budget 0 --fusion operator
python3 - p.korch o.korch swapped.korch <<'PY' || bad "python3"
import shutil, sqlite3, sys
shutil.copy(sys.argv[2], sys.argv[3])
row = sqlite3.connect(sys.argv[1]).execute("SELECT * FROM seal").fetchone()
db = sqlite3.connect(sys.argv[3])
db.execute("DELETE FROM seal")
db.execute("INSERT INTO seal VALUES(?,?,?,?,?,?)", row)
db.commit()
PY
must 1 "the signature by ${own//+/\\+} does not hold" korch-run swapped.korch
must 1 "the signature by ${own//+/\\+} does not hold" korch-plan verify swapped.korch
must 1 'does not hold' korch-run swapped.korch --trust any
must 0 'and the signature does not hold' korch-plan show swapped.korch
must 0 '"seal":"broken"' korch-plan show swapped.korch --json

# ---- a daemon by its URL: its key is kept at the first meeting, and said once
must 0 "signs its plans with the key SHA256:.*, which you trust from now on" korch-submit "$model" -o f.korch --budget 20 --device fake $farm
farm_key=$(print_of "$data/sign.pub")
if grep -qF "$farm_key" out; then ok; else bad "the key said is not $farm_key"; fi
korch-submit "$model" -o f.korch --budget 20 --device fake $farm >out 2>&1
if grep -q 'from now on' out; then bad "the key is said again"; else ok; fi
must 0 "^signed +by ${farm_key//+/\\+}, the key in $XDG_DATA_HOME/korch/trusted/" korch-plan verify f.korch
must 1 'a key that you do not trust' stranger korch-plan verify f.korch
must 0 'job|#' stranger korch-jobs list $farm # its user meets the daemon too
must 0 '^signed +by' stranger korch-plan verify f.korch

# ---- who answers in its place is refused, with both fingerprints
kill $worker_pid $korchd_pid
wait $worker_pid $korchd_pid 2>/dev/null
rm "$data/sign.key"
korchd --data "$data" --listen "ipc://$tmp/s" -q --ready-fd 3 3>"$tmp/ready" 2>"$tmp/korchd.err" &
korchd_pid=$!
read -r _ <"$tmp/ready"
korch-worker --daemon "ipc://$tmp/s" --device fake:seed=1 -q 2>"$tmp/worker.err" &
worker_pid=$!
now=$(print_of "$data/sign.pub")
must 1 "another key than before: ${now//+/\\+}, and it was ${farm_key//+/\\+}" korch-submit "$model" -o g.korch --budget 20 --device fake $farm
must 1 'delete .*trusted/' korch-jobs list $farm
rm "$XDG_DATA_HOME"/korch/trusted/*
must 0 'which you trust from now on' korch-submit "$model" -o g.korch --budget 20 --device fake $farm
must 0 "^signed +by ${now//+/\\+}" korch-plan verify g.korch # not the plan that an equal job had under the old key
finish
