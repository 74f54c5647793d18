#!/usr/bin/env bash
# tests/fresh.sh: the README's two commands on a bare Debian 12, the only proof that they are enough.
#
# mmdebstrap makes a root with nothing but apt in it; this repository (what is committed) is cloned into it; there
#   1. deploy/quickstart.sh runs with a budget of 20 s, and again;
#   2. tests/run.sh runs three tests of the release stage;
#   3. `pip install .` into a virtual environment, and a script for onnxruntime runs with one line changed: same numbers
#      (needs PyPI, else this part is skipped);
#   4. deploy/quickstart.sh runs as an ordinary user, with the packages in place.
# The host's apt settings, name servers and environment (proxies, say) are taken along.  KORCH_FRESH_ROOT=DIR keeps the
# root there, and uses one that is there.  Ends with 77 (SKIP) where nobody is root or no Debian mirror answers.
set -u
cd "$(dirname "$0")/.."
skip() {
	echo "SKIP fresh: $1"
	exit 77
}
case ${1:-} in
-h | --help) exec sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" ;;
?*)
	echo "tests/fresh.sh: $1: takes no arguments but --help" >&2
	exit 2
	;;
esac
[ "$(id -u)" = 0 ] || skip "only root can make a bare root"
deploy/install-packages.sh tests/packages.txt || exit 1

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' 2>/dev/null | head -n 1)
mirror=${mirror:-http://deb.debian.org/debian}
work=$(mktemp -d)
root=${KORCH_FRESH_ROOT:-$work/root}
trap 'rm -rf --one-file-system "$work"' EXIT
/usr/lib/apt/apt-helper download-file "${mirror%/}/dists/bookworm/InRelease" "$work/InRelease" >"$work/log" 2>&1 ||
	skip "no Debian mirror answers ($mirror)"

fail() {
	tail -n 60 "$work/log"
	echo "fresh: $1"
	exit 1
}

# step WORDS COMMAND...: runs it with its output kept, and tells how long it took.
step() {
	local words=$1 from=$SECONDS
	shift
	"$@" >"$work/log" 2>&1 </dev/null || fail "$words: status $?"
	echo "fresh: $words: $((SECONDS - from)) s"
}

make_root() {
	mmdebstrap --quiet --mode=root --variant=minbase --include=ca-certificates \
		--setup-hook='cp -a /etc/apt/apt.conf.d/. "$1"/etc/apt/apt.conf.d/; cp -a /etc/apt/auth.conf.d/. "$1"/etc/apt/auth.conf.d/ || :' \
		bookworm "$root" "$mirror"
}

# The host's certificates go along with its variables that name them.
take_along() {
	cp -L /etc/resolv.conf /etc/hosts "$root/etc/" || return
	[ ! -f /etc/ssl/certs/ca-certificates.crt ] || cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" || return
	git clone -q --no-hardlinks . "$root/korch" || return
	chroot "$root" useradd --create-home --shell /bin/bash somebody
}

# inside USER SCRIPT: a shell in the root, in mount and process namespaces of its own: what it leaves behind ends with it.
inside() {
	unshare --mount --pid --fork --kill-child --propagation private -- /bin/bash -c '
		set -e
		mount -t proc proc "$1/proc"
		mount -t sysfs -o ro sysfs "$1/sys"
		mount --rbind /dev "$1/dev"
		mount -t tmpfs tmpfs "$1/dev/shm"
		exec chroot "$1" su "$2" -s /bin/bash -c "$3"' inside "$root" "$1" \
		"export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin KORCH_BUDGET=20; cd /korch && $2"
}

# What the second run prints is kept to look for the kernels that it found measured.
twice() {
	inside root deploy/quickstart.sh || return
	inside root deploy/quickstart.sh >"$work/second" 2>&1 || { cat "$work/second"; return 1; }
	grep -q '(and [1-9][0-9]* from the cache)' "$work/second" || { cat "$work/second"; return 1; }
}

# The plain build for this host, by the README's words.
package() {
	inside root "deploy/install-packages.sh deploy/packages.txt deploy/packages-python.txt && python3 -m venv /venv && /venv/bin/pip install ." || return
	inside root "/venv/bin/korch --version && /venv/bin/pip install onnxruntime && python3 -m tarfile -e tests/models/small.tar.xz /tmp &&
		tests/python/one_line.sh /venv/bin/python /tmp/small/{candy,yolox_nano}_small/model.onnx"
}

for v in "${!XDG_@}" "${!KORCH_@}" TMPDIR LIBRARY_PATH; do
	[ "$v" = KORCH_FRESH_ROOT ] || unset "$v"
done
if [ ! -d "$root" ]; then
	step "a bare root from $mirror" make_root
	step "name servers, certificates, a clone, a user" take_along
fi
step "quickstart, twice" twice
step "three tests" inside root "KORCH_STAGES=release tests/run.sh '^unit/measure_test$' '^e2e/libkorch$' '^golden/fission$'"
tail -n 1 "$work/log"
if python3 -m pip download -q --no-deps -d "$work" scikit-build-core >"$work/log" 2>&1; then
	step "pip install, a script for onnxruntime with one line changed" package
	grep 'largest error' "$work/log"
else
	echo "SKIP: 1 part: the package of Python: PyPI does not answer"
fi
step "the folder is the user's" chown -R --reference="$root/home/somebody" "$root/korch"
step "quickstart as a user" inside somebody deploy/quickstart.sh
tail -n 12 "$work/log"
