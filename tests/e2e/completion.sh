#!/bin/bash
# Completion as bash does it: options, words of an option's value, kinds of files, also behind '='.  label: e2e
. "$(dirname "$0")/env.inc"
share=$(realpath "$1")/share/bash-completion/completions
mkdir "$tmp/here" "$tmp/here/folder"
touch "$tmp/here/model.onnx" "$tmp/here/plan.korch" "$tmp/here/two words.korch" "$tmp/here/notes.txt"

# completes "WANTED ..." PROGRAM WORD...: what is offered for the last word, sorted, by blanks
completes() {
	local want=$1 got
	shift
	got=$(
		cd "$tmp/here" || exit
		# shellcheck disable=SC1090
		. "$share/$1"
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
		"$(complete -p "$1" | sed 's/.*-F \([^ ]*\) .*/\1/')"
		printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' '
	)
	if [ "$got" = "$want " ]; then ok; else bad "$*: '$got', wanted '$want '"; fi
}

completes '--fusion' korch-submit --fusi
completes '--strict' korch-submit model.onnx --stri
completes 'full none operator' korch-submit --fusion ''
completes 'operator' korch-submit --fusion op
completes 'operator' korch-submit --fusion = op
completes 'full none operator' korch-submit --fusion =
completes 'bf16 f16 f32 tf32' korch-submit --precision ''
completes 'folder model.onnx' korch-submit ''
completes 'folder model.onnx' korch-submit --budget 20 ''
completes 'folder model.onnx' korch-submit --strict --budget = 20 ''
completes '' korch-submit model.onnx ''
completes 'folder plan.korch two words.korch' korch-submit model.onnx -o ''
completes 'folder' korch-submit --data f
completes '' korch-submit --budget ''
completes 'folder model.onnx plan.korch two words.korch' korch-run ''
completes 'folder model.onnx plan.korch two words.korch' korch run ''
completes 'two words.korch' korch-run tw
completes 'verify' korch-plan veri
completes 'folder plan.korch two words.korch' korch-plan show ''
completes 'export' korch-cache expo
completes 'folder model.onnx notes.txt plan.korch two words.korch' korch-cache import ''
completes 'fission' korch-submit --dump fis
completes 'model,plan model,program' korch-submit --dump model,p
completes 'folder' korch-planner --replay f
completes 'add' korch-keys ad
completes 'folder' korch-keys add f
completes 'worker' korch-keys add folder w
completes '--max-planners' korchd --max-pl
completes 'cache check daemon help jobs keys plan run submit worker' korch ''
completes 'plan' korch pl
completes '--version' korch --vers
completes 'submit' korch help sub
completes '--fusion' korch submit --fusi
completes 'full none operator' korch submit --fusion =
completes 'folder model.onnx' korch check --strict ''
completes 'verify' korch plan veri
completes '--max-planners' korch daemon --max-pl
finish
