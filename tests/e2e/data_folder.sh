#!/bin/bash
# --data DIR is all that a program and what it starts write to: the home folder and the XDG folders stay as they
# are, and nothing is left in TMPDIR.  label: e2e
. "$(dirname "$0")/env.inc"
unset XDG_DATA_HOME XDG_CACHE_HOME XDG_CONFIG_HOME XDG_RUNTIME_DIR
export HOME=$tmp/home TMPDIR=$tmp/scratch
mkdir "$HOME" "$TMPDIR" "$tmp/here"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
cd "$tmp/here" || exit 1
submit() { korch-submit ../small/candy_small/model.onnx --data "$tmp/data" -q -o plan.korch "$@" >../out 2>../err || bad "$*: $(tail -n 1 ../err)"; }
submit --budget 0
submit --budget 2
korch-submit ../small/candy_small/model.onnx --data "$tmp/data" --check >../out 2>../err || bad "check: $(tail -n 1 ../err)"
korch-jobs list --all --data "$tmp/data" >../out || bad "jobs"
korch-cache stats --data "$tmp/data" >../out || bad "stats"
korch-cache export --data "$tmp/data" -o export || bad "export"
if korch-run plan.korch --data "$tmp/data" --repeat 1 >../out 2>../err; then ok; else bad "run: $(tail -n 1 ../err)"; fi
korch-submit ../small/candy_small/model.onnx --data "$tmp/data" --budget 0 -o plan.korch >../out 2>../err || bad "again: $(tail -n 1 ../err)"
if tail -n 1 ../out | grep -q "now type: .*korch-run plan.korch --data $tmp/data\$"; then ok; else bad "what to type: $(tail -n 1 ../out)"; fi
kill "$(cat "$tmp/data/lock")"
flock "$tmp/data/lock" true # it has left, and all it started with it
if [ -z "$(ls -A "$HOME")" ]; then ok; else bad "in the home folder: $(find "$HOME")"; fi
if ls "$tmp/data"/calibration-* >/dev/null 2>&1; then ok; else bad "no calibration in: $(ls "$tmp/data")"; fi
if [ "$(ls | tr '\n' ' ')" = "export plan.korch " ]; then ok; else bad "in the current folder: $(ls)"; fi
# A worker ends with its korchd, but nobody waits for it.
until [ -z "$(ls -A "$TMPDIR")" ] || ! grep -qsa "$tmp/data" /proc/[0-9]*/cmdline; do :; done
if [ -z "$(ls -A "$TMPDIR")" ]; then ok; else bad "in TMPDIR: $(find "$TMPDIR")"; fi

# ---- a folder too long for a socket: that lies where this user's processes meet, if nobody else gets in there ----
export XDG_RUNTIME_DIR=$tmp/run
long=$tmp/$(printf 'long%.0s' {1..30})
mkdir -m 700 "$XDG_RUNTIME_DIR"
list() { korch-jobs list --data "$long" >../out 2>../err; }
if list && [ -n "$(find "$XDG_RUNTIME_DIR/korch" -name '*.sock' -type s -user "$(id -u)")" ] && [ "$(stat -c %a "$XDG_RUNTIME_DIR/korch")" = 700 ]; then ok; else bad "the socket: $(cat ../err) $(ls -lR "$XDG_RUNTIME_DIR")"; fi
kill "$(cat "$long/lock")"
flock "$long/lock" true
refused() { # REGEX: the folder as it is now is not used
	list
	if [ $? = 78 ] && grep -q -- "$1" ../err && ! ls "$tmp/theirs"/*.sock >/dev/null 2>&1; then ok; else bad "not '$1': $(cat ../err)"; fi
	if flock -n "$long/lock" true; then ok; else bad "a korchd that nobody reaches was started"; fi
}
chmod 755 "$XDG_RUNTIME_DIR/korch"
refused 'run/korch has mode 0755; chmod 0700 it'
mv "$XDG_RUNTIME_DIR/korch" "$tmp/theirs"
rm -f "$tmp/theirs"/*.sock
chmod 700 "$tmp/theirs"
ln -s "$tmp/theirs" "$XDG_RUNTIME_DIR/korch"
refused 'run/korch: it is a link, or no folder'
if [ "$(id -u)" = 0 ]; then
	rm "$XDG_RUNTIME_DIR/korch"
	mkdir -m 700 "$XDG_RUNTIME_DIR/korch"
	chown 12345 "$XDG_RUNTIME_DIR/korch"
	refused 'run/korch belongs to user 12345 and is not to be trusted'
fi
finish
