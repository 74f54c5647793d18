#!/bin/bash
# -o of every program that has one: onto a link's target, into a pipe, to stdout by any name, never over a device,
# a folder refused; and results that do not reach a full disk end with 1, whoever printed them.  label: e2e
. "$(dirname "$0")/env.inc"
. "$(dirname "$0")/farm.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
export TMPDIR=$tmp/scratch
mkdir "$TMPDIR"
cd "$tmp" || exit 1
model=small/candy_small/model.onnx
korch-submit $model $farm --device fake -q --budget 60 -o plan.korch >out 2>&1 || bad "the plan: $(tail -n 1 out)"
korch-submit $model -q --budget 0 -o cpu.korch >out 2>&1 || bad "a plan with code: $(tail -n 1 out)" # the fake device has none
job=$(korch-jobs list --all --json $farm | field id)

# Who writes, and how its result begins: -o and a name are added.
writers() {
	cat <<END
SQLite format 3|korch-submit $model $farm --device fake -q --budget 60
SQLite format 3|korch-jobs fetch $job $farm
SQLite format 3|korch-plan rebuild cpu.korch
digraph plan|korch-plan dot plan.korch
typedef |korch-plan source plan.korch
any|korch-cache export $farm
END
}
begins() { head -c 40 "$1" | tr '\0\n' '  '; }
# right FILE PATTERN WHO
right() {
	case $2 in
	any) if [ -s "$1" ]; then ok; else bad "$3: nothing in $1"; fi ;;
	*) case $(begins "$1") in "$2"*) ok ;; *) bad "$3: $1 begins with $(begins "$1")" ;; esac ;;
	esac
}
while IFS='|' read -r first command; do
	who=${command%% -*}
	mkdir -p there && echo old >there/target && ln -sfn there/target link
	$command -o link >out 2>err || bad "$who to a link: $(tail -n 1 err)"
	right there/target "$first" "$who"
	if [ -L link ] && [ "$(ls there)" = target ]; then ok; else bad "$who: the link is gone, or $(ls there)"; fi

	mkfifo pipe && { cat pipe >from & }
	reader=$!
	$command -o pipe >out 2>err || { kill $reader; bad "$who to a pipe: $(tail -n 1 err)"; }
	wait $reader
	right from "$first" "$who"
	if [ -p pipe ]; then ok; else bad "$who: the pipe is gone"; fi
	rm -f pipe

	for name in - /dev/stdout; do
		$command -o $name >from 2>err || bad "$who to $name: $(tail -n 1 err)"
		right from "$first" "$who"
	done
	$command -o - --json >out 2>err
	if [ $? = 2 ] && grep -q 'stdout, where --json writes' err; then ok; else bad "$who: -o - and --json: $(tail -n 1 err)"; fi
	$command -o - >/dev/full 2>err
	if [ $? = 1 ] && grep -q 'No space left' err; then ok; else bad "$who to a full disk: $(tail -n 1 err)"; fi
	$command -o there >out 2>err
	if [ $? = 2 ] && grep -q 'there: is a folder' err; then ok; else bad "$who over a folder: $(tail -n 1 err)"; fi
	# root would have renamed over it
	$command -o /dev/null >out 2>err
	status=$?
	if [ $status = 0 ] && [ -c /dev/null ]; then ok; else bad "$who to /dev/null: $status: $(tail -n 1 err)"; fi
	if [ -z "$(ls "$TMPDIR")" ]; then ok; else bad "$who left $(ls "$TMPDIR")"; fi
	rm -rf there
done < <(writers)

# korch-run's outputs are named by the plan.
mkdir outs && ln -s ../elsewhere outs/outputImage.npy
korch-run cpu.korch --repeat 1 --output-dir outs >out 2>err || bad "korch-run: $(tail -n 1 err)"
if [ -L outs/outputImage.npy ] && [ -s elsewhere ]; then ok; else bad "korch-run: $(ls -l outs)"; fi

# -o has a default; a plan that is no file is no plan to run.
(cd outs && korch-submit ../$model -q --budget 0 >../out 2>../err)
if [ -s outs/model.korch ] && tail -n 1 out | grep -qE '^model.korch takes .* or more .*; now type: .*korch-run model.korch$'; then ok; else bad "no default for -o: $(tail -n 1 out) $(ls outs)"; fi
if (cd outs && eval "$(tail -n 1 ../out | sed 's/.*now type: //') --repeat 1") | grep -q median; then ok; else bad "what it says to type: $(tail -n 1 out)"; fi

korch-submit $model -q --budget 0 -o - 2>err >from
if tail -n 1 err | grep -q '^the plan takes '; then ok; else bad "the last line beside a plan on stdout: $(tail -n 1 err)"; fi

# Every program and word to a full disk.
spec=$(korch-cache list --json $farm | field spec | tr -d '"')
while read -r command; do
	$command >/dev/full 2>err
	status=$?
	if [ $status = 1 ] && grep -qE "^${command%% *}: cannot write to stdout: No space left" err; then ok; else bad "$command >/dev/full: $status: $(tail -n 1 err)"; fi
done <<END
korch-submit $model $farm --device fake -q --budget 60 -o p
korch-submit $model $farm --device fake -q --budget 60 -o p --json
korch-submit $model $farm --device fake -d
korch-submit --help
korch-submit --version
korch-submit --show-config
korch-run cpu.korch --repeat 1
korch-run cpu.korch --repeat 1 --json
korch-run cpu.korch --repeat 1 --profile
korch-plan show plan.korch
korch-plan show plan.korch --json
korch-plan explain plan.korch
korch-plan explain plan.korch --json
korch-plan verify plan.korch
korch-plan dot plan.korch
korch-plan source plan.korch
korch-jobs list --all $farm
korch-jobs show $job $farm
korch-jobs watch $job $farm
korch-jobs workers $farm
korch-cache stats $farm
korch-cache list $farm
korch-cache show $spec $farm
korch-cache explain $spec $farm
korch-cache gc $farm
korch-cache verify $farm
korch-keys make keys --host ::1
korch-keys list keys
END
# A closed stdout is no place for results, and no file gets them instead.
korch-plan show plan.korch >&- 2>err
if [ $? = 1 ] && grep -q 'cannot write to stdout' err; then ok; else bad "a closed stdout: $(tail -n 1 err)"; fi
# A reader that has seen enough is no failure to talk about.
korch-plan show plan.korch 2>err | head -n 1 >out
if [ -s out ] && [ ! -s err ]; then ok; else bad "a reader that left: $(cat err)"; fi
finish
