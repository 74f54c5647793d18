#!/usr/bin/env bash
# A farm over TLS as its operator makes it: keys by one command, a job through it, what is said of wrong keys, wrong
# hosts and wrong calls, revocation and new keys at SIGHUP, and a log that is moved away.
. "$(dirname "$0")/env.inc"
keys=$tmp/keys
# until_log FILE REGEX: waits for a line of a log
until_log() { until grep -Eq -- "$2" "$1"; do kill -0 "$korchd_pid" 2>/dev/null || { bad "no '$2' in $(cat "$1")"; finish; }; done; }

# ---- keys ----
must 0 'keys of a worker' korch-keys make "$keys" --host 127.0.0.1 --host ::1
must 0 'keys of a worker' korch-keys add "$keys" worker gpu1
must 0 'keys of a daemon' korch-keys add "$keys" daemon elsewhere --host tuner.example
must 2 'there already' korch-keys make "$keys" --host 127.0.0.1
must 2 'there already' korch-keys add "$keys" worker gpu1
must 2 'no role' korch-keys add "$keys" king gpu2
must 2 'no name' korch-keys add "$keys" worker '../x'
must 2 'no name' korch-keys add "$keys" worker 'x,OU=client'
must 2 '--host' korch-keys add "$keys" daemon another
must 0 '^worker +gpu1 +20[0-9-]+ +[0-9a-f]{64}$' korch-keys list "$keys"
must 0 '"role":"client","name":"client"' korch-keys list --json "$keys"
if [ -z "$(find "$keys" -type f ! -perm 600 -o -type d ! -perm 700)" ]; then ok; else bad "others may read keys: $(ls -lR "$keys")"; fi
must 0 'authority' korch-keys make "$tmp/other" --host 127.0.0.1

# ---- a daemon, a worker, a job ----
mkfifo "$tmp/ready"
korchd --data "$tmp/daemon" --listen tls+tcp://127.0.0.1:0 --listen "ipc://$tmp/s" --keys "$keys/daemon" --log-file "$tmp/log" --ready-fd 3 3>"$tmp/ready" &
korchd_pid=$!
trap 'kill $worker_pid $korchd_pid 2>/dev/null; wait; rm -rf "$tmp"' EXIT
read -r _ <"$tmp/ready"
url=tls+tcp://127.0.0.1:$(sed -n 's/.*listen url=tls.tcp.* port=//p' "$tmp/log")
mkfifo "$tmp/taken"
exec 4<>"$tmp/taken"
korch-worker --daemon "$url" --keys "$keys/gpu1" --device fake:seed=1 --name far --log-file "$tmp/worker.log" --ready-fd 3 3>&4 4>&- &
worker_pid=$!
exec 5<"$tmp/taken" 4>&-
read -r _ <&5 && ok || bad "the worker is not taken: $(cat "$tmp/worker.log")"
tar -xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
model=$tmp/small/candy_small/model.onnx
must 0 '' korch-submit "$model" -o "$tmp/tls.korch" --daemon "$url" --keys "$keys/client" --device fake --effort 1 --budget 60
must 0 '' korch-plan verify "$tmp/tls.korch"
must 0 'far' korch-jobs workers --daemon "$url" --keys "$keys/client"
must 0 'measurements' korch-cache stats --daemon "$url" --ca "$keys/ca.crt" --cert "$keys/client/tls.crt" --key "$keys/client/tls.key"
# ---- what a worker does stands under its certificate's name, whatever it calls itself ----
if grep -q 'hello role=worker name=gpu1 says=far peer=127.0.0.1' "$tmp/log"; then ok; else bad "the log does not name the worker's certificate: $(grep 'hello role=worker' "$tmp/log")"; fi
must 0 '^gpu1 .*\(calls itself far\)$' korch-jobs workers --daemon "$url" --keys "$keys/client"
must 0 '"name":"gpu1".*"says":"far"' korch-jobs workers --json --daemon "$url" --keys "$keys/client"
got=$(python3 - "$tmp/daemon/korch.db" "$tmp/tls.korch" <<-END
	import sqlite3, sys
	db, plan = (sqlite3.connect("file:" + p + "?mode=ro", uri=True) for p in sys.argv[1:])
	for d, t in (db, "measurement"), (db, "repeat"), (db, "build"), (plan, "seal"):
	    print(t, *(r[0] for r in d.execute(f"SELECT DISTINCT worker FROM {t}")))
END
)
[ "$got" = "$(printf '%s gpu1\n' measurement repeat build seal)" ] && ok || bad "records are not under the certificate's name: $got"
if ! grep -q 'worker=far' "$tmp/log"; then ok; else bad "events under a name that nobody proved: $(grep -m 1 'worker=far' "$tmp/log")"; fi

# ---- what is wrong is said ----
list="korch-jobs list --daemon"
must 2 "tls.crt: a client's certificate is wanted here .*this one is 'worker'" $list "$url" --keys "$keys/worker"
must 2 'not signed by the authority' $list "$url" --keys "$keys/client" --ca "$tmp/other/ca.crt"
must 2 'is not the key of' $list "$url" --keys "$keys/client" --key "$keys/worker/tls.key"
cp -r "$keys/client" "$tmp/readable"
chmod 644 "$tmp/readable/tls.key"
must 2 'others may read this key' $list "$url" --keys "$tmp/readable"
must 3 "not for 'localhost'" $list "tls+tcp://localhost:${url##*:}" --keys "$keys/client"
must 3 'not signed by the authority of ca.crt' $list "$url" --keys "$tmp/other/client"
cat "$keys/ca.crt" "$tmp/other/ca.crt" >"$tmp/both.crt"
must 3 'does not take .*client/tls.crt' $list "$url" --keys "$tmp/other/client" --ca "$tmp/both.crt"
must 3 'no korchd listens' $list tls+tcp://127.0.0.1:1 --keys "$keys/client"
must 2 'names host and port' $list tls+tcp://127.0.0.1 --keys "$keys/client"
must 3 'speaks TLS; name it tls.tcp://127' $list "tcp://127.0.0.1:${url##*:}" --plain
# each program says it, at its first try
for command in "korch-submit $model -o $tmp/none.korch --device fake" "korch-cache stats" "korch-jobs workers"; do
	must 3 'not signed by the authority of ca.crt' $command --daemon "$url" --keys "$tmp/other/client"
	must 3 "not for 'localhost'" $command --daemon "tls+tcp://localhost:${url##*:}" --keys "$keys/client"
	must 2 'needs --keys DIR' $command --daemon "$url"
done
[ -e "$tmp/none.korch" ] && bad "a plan of no daemon" || ok
cp -r tests/fixtures/keys "$tmp/when"
chmod 600 "$tmp"/when/*/tls.key
must 2 "expired on 2021-01-01" $list "$url" --keys "$tmp/when/expired"
must 2 "is good from 2090-01-01 on" $list "$url" --keys "$tmp/when/future"
must 2 "expired on 2021-01-01; make another with korch-keys add" korch-worker --daemon "$url" --keys "$tmp/when/expired" --device fake
must 2 'needs --keys DIR' korch-worker --daemon "$url" --device fake

# others that listen: one whose certificate has expired, one without TLS
listen() { # NAME PYTHON: a server; its port in $tmp/NAME.port
	python3 - "$tmp" "$1" <<-END &
		import socket, ssl, sys, threading
		tmp, name = sys.argv[1:]
		def answer(s):
		    try:
		        $2
		        s.recv(1 << 16)
		    except OSError:
		        pass
		l = socket.create_server(("127.0.0.1", 0))
		open(f"{tmp}/{name}.part", "w").write(str(l.getsockname()[1]))
		import os; os.rename(f"{tmp}/{name}.part", f"{tmp}/{name}.port")
		while True:
		    threading.Thread(target=answer, args=(l.accept()[0],), daemon=True).start()
	END
	others="${others:-} $!"
	until [ -e "$tmp/$1.port" ]; do kill -0 $! 2>/dev/null || { bad "no $1"; finish; }; done
}
trap 'kill $worker_pid $korchd_pid $others 2>/dev/null; wait; rm -rf "$tmp"' EXIT
cat "$keys/ca.crt" "$tmp/when/expired/ca.crt" >"$tmp/lenient.crt"
listen expired 'c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(f"{tmp}/when/expired/tls.crt", f"{tmp}/when/expired/tls.key"); s = c.wrap_socket(s, server_side=True)'
listen plain 's.sendall(b"\0SP\0\0\x31\0\0")'
listen strange 's.sendall(b"220 mail.example ESMTP\r\n")'
must 3 'its certificate expired on 2021-01-01' $list "tls+tcp://127.0.0.1:$(cat "$tmp/expired.port")" --keys "$keys/client" --ca "$tmp/lenient.crt"
must 3 'speaks no TLS; have it listen on tls.tcp://' $list "tls+tcp://127.0.0.1:$(cat "$tmp/plain.port")" --keys "$keys/client"
must 3 'does not speak TLS as korchd does' $list "tls+tcp://127.0.0.1:$(cat "$tmp/strange.port")" --keys "$keys/client"
must 3 'what listens there is no korchd' $list "tcp://127.0.0.1:$(cat "$tmp/strange.port")" --plain

# ---- a worker says each reason when it comes, and stays ----
: >"$tmp/tried.log"
mkdir -m 700 "$tmp/tried"
cp "$tmp/other/worker/"* "$tmp/tried/"
korch-worker --daemon "$url" --keys "$tmp/tried" --device fake:seed=2 --log-file "$tmp/tried.log" &
tried_pid=$!
others="$others $tried_pid"
until_log "$tmp/tried.log" 'waiting .*not signed by the authority of ca.crt'
cp "$tmp/both.crt" "$tmp/tried/ca.crt"
kill -HUP $tried_pid
until_log "$tmp/tried.log" 'waiting .*does not take .*tried/tls.crt'
cp "$keys/gpu1/"* "$tmp/tried/"
kill -HUP $tried_pid
until_log "$tmp/tried.log" ' ready '
kill $tried_pid
wait $tried_pid && ok || bad "the worker that was taken late left with $?"

# ---- what is no TLS 1.2 with a certificate of this authority gets no word of Korch's ----
while IFS='|' read -r what want call; do
	got=$(
		python3 - "${url##*:}" "$keys" "$tmp/other" <<-END
			import socket, ssl, sys
			port, keys, other = int(sys.argv[1]), sys.argv[2], sys.argv[3]
			c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
			c.load_verify_locations(keys + "/ca.crt")
			own = lambda d, n: c.load_cert_chain(f"{d}/{n}/tls.crt", f"{d}/{n}/tls.key")
			try:
			    $call
			    s = c.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1")
			    s.settimeout(60)
			    print("greeted" if s.recv(8)[:4] == b"\\0SP\\0" else "ended")
			except (ssl.SSLError, ConnectionError):
			    print("refused")
		END
	)
	case " $want " in *" $got "*) ok ;; *) bad "$what: $got, not $want" ;; esac
done <<END
a client's certificate|greeted|own(keys, "client")
no certificate|refused ended|pass
another authority's|refused ended|own(other, "client")
TLS 1.1|refused ended|own(keys, "client"); c.set_ciphers("ALL:@SECLEVEL=0"); c.minimum_version = c.maximum_version = ssl.TLSVersion.TLSv1_1
END

# ---- SIGHUP: the log, revocations, keys ----
mv "$tmp/log" "$tmp/log.1"
echo '# gone with the host' >"$keys/daemon/revoked"
echo gpu1 >>"$keys/daemon/revoked"
kill -HUP $korchd_pid
until [ -s "$tmp/log" ]; do :; done
until_log "$tmp/worker.log" "not_taken .*'gpu1' is revoked"
must 1 "the certificate of 'client' is revoked" sh -c "echo client >>$keys/daemon/revoked; kill -HUP $korchd_pid; until korch-jobs list --daemon $url --keys $keys/client 2>&1 | tee $tmp/said | grep revoked; do :; done; false"
rm "$keys/daemon/revoked"
kill -HUP $korchd_pid
kill -HUP $worker_pid # asks again at once
until korch-jobs workers --daemon "ipc://$tmp/s" | grep -q ' ok '; do :; done
ok
cp "$keys/daemon/tls.crt" "$tmp/before"
echo nonsense >"$keys/daemon/tls.crt"
kill -HUP $korchd_pid
until_log "$tmp/log" 'reload.failed .*tls.crt'
must 0 'far' korch-jobs workers --daemon "$url" --keys "$keys/client" # what was read before stays
cp "$keys/elsewhere/tls.crt" "$keys/elsewhere/tls.key" "$keys/daemon/"
kill -HUP $korchd_pid
until korch-jobs list --daemon "$url" --keys "$keys/client" >"$tmp/out" 2>&1; grep -q "not for '127.0.0.1'" "$tmp/out"; do :; done
ok
if [ "$(grep -c 'not_taken' "$tmp/worker.log")" = 1 ]; then ok; else bad "a refused worker says why more than once: $(cat "$tmp/worker.log")"; fi
if ! grep -Evq '^20[0-9-]+T[0-9:.]+Z (debug|info|warn|error) [a-z_.]+ ' "$tmp/log" "$tmp/log.1" "$tmp/worker.log"; then ok; else bad "a line that is none of the log"; fi
kill $worker_pid
wait $worker_pid && ok || bad "korch-worker left with $?"
kill $korchd_pid
wait $korchd_pid && ok || bad "korchd left with $?"
finish
