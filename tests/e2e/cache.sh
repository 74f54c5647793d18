#!/bin/bash
# korch-cache's words on a store with winners, losers and failures: stats, show, explain (winner, losers,
# failures by class), export, import, gc, verify.  label: e2e
. "$(dirname "$0")/env.inc"
fake_device=fake:seed=3,wrong=300000
. "$(dirname "$0")/farm.inc"
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
korch-submit "$tmp/small/candy_small/model.onnx" $farm --device fake -q --budget 60 -o "$tmp/p" >"$tmp/out" 2>&1 || bad "$(cat "$tmp/out")"

# The same again is the same file, and asks for nothing; so it is after other rows of its candidates have come
# (--rewrites off measures some that the first search passed over), unless a plan is clearly better by them: by 1 %.
again() {
	korch-submit "$tmp/small/candy_small/model.onnx" $farm --device fake -q --json --budget 60 -o "$tmp/p2" >"$tmp/out" 2>&1 || bad "$(cat "$tmp/out")"
	if cmp -s "$tmp/p" "$tmp/p2" || [ "$(field latency_ns <"$tmp/out")" -le $(($2 * 99 / 100)) ]; then ok; else bad "$1: another plan: $(tail -n 1 "$tmp/out")"; fi
	if grep -q '"measured": 0,' "$tmp/out" && grep -q '"remeasured": 0' "$tmp/out"; then ok; else bad "$1: $(tail -n 1 "$tmp/out")"; fi
}
again "a repeat" 0
first=$(field latency_ns <"$tmp/out")
before=$(korch-cache stats --json $farm | grep -oE '"measurements": ?[0-9]+')
korch-submit "$tmp/small/candy_small/model.onnx" $farm --device fake -q --budget 60 --rewrites off -o "$tmp/p3" >"$tmp/out" 2>&1 || bad "$(cat "$tmp/out")"
if [ "$before" != "$(korch-cache stats --json $farm | grep -oE '"measurements": ?[0-9]+')" ]; then ok; else bad "--rewrites off measured nothing: $before"; fi
again "a repeat with more rows" "$first"

# Where operands lay is told of the plan's kernels and of rows, and rows that are warm are counted.
must 0 '^ +[0-9]+ [0-9a-f]{12} .* h[hnc]+ ' korch-plan show "$tmp/p"
must 0 '"heat":"h[hnc]+"' korch-plan show --json "$tmp/p"
must 0 '^[0-9a-f]{12}  heat=[hnc]+  ' korch-cache list $farm
must 0 '^holds .*; [1-9][0-9]* with operands in a cache' korch-cache stats $farm

# A spec with a winner, a loser and a failure.
for spec in $(korch-cache list --json $farm | grep -oE '"spec":"[0-9a-f]{64}"' | cut -d'"' -f4 | sort -u); do
	korch-cache explain "$spec" $farm >"$tmp/words"
	grep -q '^  lost ' "$tmp/words" && grep -q '^  failed ' "$tmp/words" && break
done
if grep -qE '^  best ' "$tmp/words" && grep -qE '^  lost .*\(\+[0-9.]+ %\)' "$tmp/words" &&
	grep -qE '^  failed [0-9]+ times: ' "$tmp/words"; then ok; else bad "explain: $(cat "$tmp/words")"; fi
if [ "$(grep -c '^  best ' "$tmp/words")" = 1 ]; then ok; else bad "more than one best row"; fi
# What the plan rests on was timed again: show tells each time, and what it costs by them.
raced=$(korch-cache list --json $farm | grep -oE '"spec":"[0-9a-f]{64}"' | cut -d'"' -f4 | sort -u | while read -r s; do
	korch-cache show "$s" $farm | grep -q '^    again ' && { echo "$s"; break; }
done)
korch-cache show "${raced:-00}" $farm >"$tmp/words"
if grep -qE '^    again  .* in session [0-9a-f]{12}; .* by ' "$tmp/words"; then ok; else bad "show tells no repeat of '$raced'"; fi
if grep -qE '^    costs  .* (ns|us|ms|s), by its repeats$' "$tmp/words" && korch-cache show "$raced" --json $farm | grep -q '"repeats":[[]{"spec":"'; then ok; else bad "show: $(cat "$tmp/words")"; fi
rows=$(korch-cache show "$spec" --json $farm | grep -c '"spec"')
timed=$(korch-cache explain "$spec" --json $farm | grep -o '"behind_ns"' | wc -l)
n_failed=$(korch-cache explain "$spec" --json $farm | grep -oE '"times":[0-9]+' | cut -d: -f2 | awk '{n += $1} END {print n + 0}')
if [ "$rows" = $((timed + n_failed)) ]; then ok; else bad "show has $rows rows, explain $timed and $n_failed"; fi
best=$(korch-cache explain "$spec" --json $farm | grep -oE '"median_ns":[0-9]+' | cut -d: -f2 | sort -n | head -n 1)
if korch-cache explain "$spec" --json $farm | grep -q "\"timed\":\[{\"median_ns\":$best,\"behind_ns\":0,"; then ok; else bad "the first row is not the best"; fi

# What each schedule is expected to take, beside its measurement; and the picture of all.
must 0 '^[0-9a-f]{12} on fake, threads=1.*: expected, by its best schedule, [0-9.]+ us' korch-cache predict "$spec" $farm
must 0 '^ +[0-9.]+ us +[0-9.]+ to [0-9.]+  measured [0-9.]+' korch-cache predict "$spec" $farm
must 0 '"expected_ns":[0-9.]+,"low_ns":[0-9.]+,"high_ns":[0-9.]+,"is_far":(true|false),"measured_ns":[0-9]+' korch-cache predict "$spec" --json $farm
korch-cache predict --plot "$tmp/plot.svg" $farm || bad "predict --plot"
if [ "$(grep -c '<circle' "$tmp/plot.svg")" -gt 50 ] && tail -n 1 "$tmp/plot.svg" | grep -q '^</svg>$'; then ok; else bad "plot: $(head -c 300 "$tmp/plot.svg")"; fi
must 2 'predict takes the first digits of a spec hash, or --plot' korch-cache predict $farm
must 2 'wanted the first hex digits' korch-cache predict xyz $farm
must 1 'no measurement of a spec' korch-cache predict 00112233445566778899 $farm
must 2 'wanted 2 to 64 hex digits' korch-cache explain abc $farm
must 2 'are no hex digits' korch-cache explain zz $farm
must 2 'explain takes' korch-cache explain $farm
must 1 'no measurement of a spec' korch-cache explain 00112233445566778899 $farm
must 0 '"measurements_good": [0-9]' korch-cache stats --json $farm
must 0 '^hit rate +[0-9.]+ %: [0-9]+ of [0-9]+ kernels' korch-cache stats $farm
must 0 '^limit +10.0 GiB of files' korch-cache stats $farm
must 0 "^expects +fake: by what came with Korch; nothing was trained yet" korch-cache stats $farm
if [ "$(korch-cache stats $farm | wc -l)" = 7 ]; then ok; else bad "stats: $(korch-cache stats $farm)"; fi
# Times of a kernel stand in one unit, that of the head; no digest of nothing.
korch-cache explain "$spec" $farm >"$tmp/words"
if sed 1,3d "$tmp/words" | grep -E '^  (best|lost)|^    again' | grep -qE ' (ns|us|ms|s) |000000000000'; then bad "units: $(cat "$tmp/words")"; else ok; fi
if sed -n 3p "$tmp/words" | grep -qE '^ +(ns|us|ms|s) +\+- +behind samples max error'; then ok; else bad "head: $(cat "$tmp/words")"; fi
must 0 'as they were written' korch-cache verify $farm
must 0 '"holds": true' korch-cache verify --json $farm
must 0 '^0 files \(0.0 MiB\) and 0 ended jobs dropped' korch-cache gc --older-than 1 $farm
if korch-cache export -o "$tmp/export" $farm 2>"$tmp/err" && [ -s "$tmp/export" ]; then ok; else bad "export: $(cat "$tmp/err")"; fi
must 0 '\{' korch-cache import "$tmp/export" --dry-run $farm
# gc: files and ended jobs; measurements stay unless they are named, and are counted in any case.
rows=$(korch-cache stats --json $farm | grep -oE '"measurements": ?[0-9]+' | grep -oE '[0-9]+$')
must 0 "^[1-9][0-9]* files .* and [1-9][0-9]* ended jobs would be dropped" korch-cache gc --older-than 0 --dry-run $farm
must 0 "^[1-9][0-9]* files .* and [1-9][0-9]* ended jobs dropped" korch-cache gc --older-than 0 $farm
must 0 "^$rows measurements of that age stay; --measurements drops them too" korch-cache gc --older-than 0 $farm
must 0 "^$rows measurements would be dropped" korch-cache gc --older-than 0 --measurements --dry-run $farm
must 0 "\"measurements\": $rows," korch-cache stats --json $farm
must 0 "^$rows measurements dropped" korch-cache gc --older-than 0 --measurements $farm
must 0 '"measurements": 0,' korch-cache stats --json $farm
must 2 'it is a number of days' korch-cache gc --older-than -1 $farm
must 0 '"blob_limit_bytes": 10737418240' korch-cache stats --json $farm
# The limit of a private korchd is said by who starts it.
KORCH_DAEMON='' korch-cache stats --json --max-size 0.5 >"$tmp/out" 2>&1
if grep -q '"blob_limit_bytes": 536870912' "$tmp/out"; then ok; else bad "--max-size of a private korchd: $(cat "$tmp/out")"; fi
finish
