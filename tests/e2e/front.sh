#!/bin/bash
# korch WORD: each word starts its program, which takes its place: arguments, exit status, standard files and signals
# are the program's own; what is no word is told with the one that was meant.  label: e2e
. "$(dirname "$0")/env.inc"
words='run submit check plan jobs cache keys daemon worker'
declare -A program=([daemon]=korchd [check]=korch-submit)
of() { echo "${program[$1]:-korch-$1}"; }


# Each word is its program, by all the ways to ask for help.
for word in $words; do
	"$(of "$word")" --help >"$tmp/want"
	for call in "$word --help" "help $word" "$word -h"; do
		# shellcheck disable=SC2086
		korch $call >"$tmp/got" && cmp -s "$tmp/want" "$tmp/got" && ok || bad "korch $call is not $(of "$word") --help"
	done
	[ "$(korch "$word" --version)" = "$("$(of "$word")" --version)" ] && ok || bad "korch $word --version"
	korch --help | grep -qE "^  $word +[a-z]" && ok || bad "korch --help does not name $word"
done
korch >"$tmp/alone" && korch --help >"$tmp/help" && korch help >"$tmp/word" && cmp -s "$tmp/alone" "$tmp/help" &&
	cmp -s "$tmp/alone" "$tmp/word" && ok || bad "korch, korch --help and korch help are not one"
must 0 '^korch [0-9.]+$' korch --version
must 0 '^\{"program":"korch","version":"[0-9.]+"\}$' korch --version --json
must 0 '^json = 0' korch --show-config

# What is no word, or stands at the wrong place: one line, exit 2.
touch "$tmp/model.onnx"
must 2 "^korch: 'sbmit' is no word of korch; did you mean: korch submit$" korch sbmit m.onnx
must 2 'did you mean: korch jobs$' korch job list
must 2 'did you mean: korch worker$' korch work
must 2 "^korch: 'nonsense' is no word of korch; korch --help lists them$" korch nonsense
must 2 "no word of korch; did you mean: korch cache$" korch help cahce
must 2 "is a file; .* korch run $tmp/model.onnx$" korch "$tmp/model.onnx"
must 2 '^korch: options stand behind the word: korch jobs' korch -q jobs list
must 2 'no-such-option is not an option of korch;' korch --no-such-option
must 2 'wanted a word' korch --quiet
must 2 '^\{"error":".*no word of korch.*"status":2\}$' korch nonsense --json
[ "$(korch nonsense 2>&1 | wc -l)" = 1 ] && ok || bad "more than a line about what is no word"

# The program's own exit status and words, arguments as they are.
must 1 '^korch-submit: .*nothing.onnx' korch submit "$tmp/nothing.onnx" --budget 0
must 1 '^korch-submit: .*nothing.onnx' korch check "$tmp/nothing.onnx"
must 2 '^korch-submit: --threads -1' korch check "$tmp/model.onnx" --threads -1
must 2 '^korch-submit: .* got 0' korch submit --
must 1 '^korch-submit: .*two words' korch submit "$tmp/two words" --budget 0
must 2 'wanted one of' korch jobs
[ "$(korch plan --show-config | sed -n 's/^steps = //p')" = '0 (default)' ] && ok || bad "korch plan --show-config"
# As it was called, so it calls others: by name on PATH, by path, behind a link from elsewhere.
mkdir "$tmp/link"
ln -s "$(realpath "$bin")/korch" "$tmp/link/korch"
must 2 '^korch-keys:' korch keys
must 2 '^korch-keys:' env PATH=/usr/bin:/bin "$tmp/link/korch" keys
# Found beside it before PATH, and on PATH where it is not beside.
mkdir "$tmp/other"
printf '#!/bin/sh\necho "the one on PATH: $*"\n' >"$tmp/other/korch-keys"
chmod +x "$tmp/other/korch-keys"
PATH=$tmp/other:$PATH must 2 '^korch-keys:' korch keys
cp "$bin/korch" "$tmp/alone.korch" && mkdir "$tmp/bare" && mv "$tmp/alone.korch" "$tmp/bare/korch"
must 0 'the one on PATH: a  b' env PATH="$tmp/other:/usr/bin:/bin" "$tmp/bare/korch" keys 'a  b'
must 78 'korch-jobs is neither beside this program nor on PATH; install it' env PATH=/usr/bin:/bin "$tmp/bare/korch" jobs list
# Standard files and signals: the word takes the place of korch.
printf '#!/bin/sh\nread -r line; echo "$line $$"\n' >"$tmp/other/korch-jobs"
chmod +x "$tmp/other/korch-jobs"
PATH="$tmp/other:/usr/bin:/bin" "$tmp/bare/korch" jobs >"$tmp/out" <<<said &
pid=$!
wait $pid
[ "$(cat "$tmp/out")" = "said $pid" ] && ok || bad "stdin or the process is another one's: $(cat "$tmp/out"), not $pid"
finish
