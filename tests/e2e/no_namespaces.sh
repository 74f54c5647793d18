#!/usr/bin/env bash
# A host, or a container, that lets nobody have a namespace: what else there is holds all the same, one line says what is
# missing and why, a plan is made, and --sandbox strict refuses.  label: e2e
. "$(dirname "$0")/env.inc"
# bare COMMAND...: without rights, where no user namespace can be made
bare() { unshare -U -r sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all "$@"' sh "$@"; }
if ! bare true 2>"$tmp/err"; then
	echo "SKIP: no user namespace to try it in: $(cat "$tmp/err")"
	exit 77
fi
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
model=$tmp/small/candy_small/model.onnx
# of FIELD: --show-config's line of it
of() { sed -n "s/^sandbox-$1 = //p" "$tmp/config"; }
korch-worker --show-config >"$tmp/config"
here=$(of holds)
if [ "$(sed -n 's/^files = \([0-9]*\) (host)$/\1/p' "$tmp/config")" = "$(ulimit -Sn)" ]; then ok; else bad "files of a worker: $(grep files "$tmp/config")"; fi
(ulimit -Sn 1000 && ulimit -Hn 3000 && korchd --show-config --max-connections 77) >"$tmp/config"
if grep -qx 'files = 3000 (host)' "$tmp/config" && grep -qx 'connections = 77 (host)' "$tmp/config"; then ok; else bad "limits of korchd: $(grep host "$tmp/config")"; fi
bare korch-worker --show-config >"$tmp/config" 2>"$tmp/err"
for what in Landlock 'system call filter' 'limits of a process'; do
	grep -q "$what" <<<"$here" || continue # not of this kernel
	if of holds | grep -q "$what"; then ok; else bad "$what does not hold without namespaces: $(cat "$tmp/config")"; fi
done
lacks='user namespace (switched off here: user.max_user_namespaces), mount namespace (needs a user namespace), process namespace (needs a user namespace)'
if of lacks | grep -qF "$lacks"; then ok; else bad "what is missing: $(of lacks)"; fi

# the compiler's jail still keeps it from files, and the plan is made
echo 'secret' >"$tmp/secret.h"
mkdir "$tmp/scratch"
if KORCH_SANDBOX=off korch-jail compile --scratch "$tmp/scratch" --dir "$tmp/scratch" -- /usr/bin/cc -E -x c "$tmp/secret.h" 2>/dev/null | grep -q secret; then ok; else bad "nothing to be seen without a jail"; fi
if grep -q Landlock <<<"$here"; then
	bare korch-jail compile --scratch "$tmp/scratch" --dir "$tmp/scratch" -- /usr/bin/cc -E -x c "$tmp/secret.h" >"$tmp/out" 2>"$tmp/err"
	if ! grep -q secret "$tmp/out" && grep -q 'Permission denied' "$tmp/err"; then ok; else bad "the compiler reads what it must not: $(cat "$tmp/out" "$tmp/err")"; fi
fi
if bare korch-submit "$model" -o "$tmp/p.korch" --data "$tmp/own" --budget 0 -q >"$tmp/out" 2>"$tmp/err"; then ok; else bad "submit: $(cat "$tmp/err")"; fi
if [ "$(grep -cF "lacks=\"$lacks" "$tmp/own/korchd.log")" = 2 ]; then ok; else bad "korchd and its worker do not say it once each: $(grep sandbox "$tmp/own/korchd.log")"; fi
kill "$(cat "$tmp/own/lock")"
flock "$tmp/own/lock" true
korch-run "$tmp/p.korch" --data "$tmp/own" >"$tmp/out" 2>"$tmp/err" && ok || bad "run: $(cat "$tmp/err")"

# strict DATA COMMAND...: refused, with why
strict() {
	bare "$@" --sandbox strict >"$tmp/out" 2>"$tmp/err" </dev/null
	local got=$?
	if [ $got = 78 ] && grep -q -- '--sandbox strict: not on this host: user namespace (switched off here: user.max_user_namespaces)' "$tmp/err"; then ok; else bad "$*: status $got: $(cat "$tmp/err")"; fi
}
strict korch-submit "$model" -o "$tmp/none.korch" --data "$tmp/strict" --budget 0
strict korchd --data "$tmp/strict"
strict korch-worker --daemon "ipc://$tmp/none" --device cpu
[ -e "$tmp/none.korch" ] && bad "a plan all the same" || ok
finish
