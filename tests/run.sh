#!/usr/bin/env bash
# tests/run.sh [NAME...]: installs what is missing, builds, runs every test; with names (regular
# expressions over test names such as golden/fission or unit/ir) only those; a name that no test has is refused at once.
#
#   1. Release build in build/ with oneDNN, all tests
#   2. build/asan (without oneDNN, as the rest): address and undefined-behaviour sanitizers, tests labelled pure, onnx or memory,
#      on a quarter of the random graphs
#   3. build/tsan: thread sanitizer, tests labelled threads
#   4. build/fuzz: each fuzz target for a fixed number of runs
#   5. the README's two commands and the Python package on a bare Debian 12 (tests/fresh.sh); not with names
#
# KORCH_STAGES="release asan" chooses stages.  Ends with "N passed, N failed, N skipped, N parts of passed tests skipped";
# a test, or a part of one, that lacks its hardware or network is skipped with its reason and counted.
set -u
cd "$(dirname "$0")/.."
jobs=$(nproc)
stages=${KORCH_STAGES:-release asan tsan fuzz fresh}
sanitize="-O1 -g -fno-omit-frame-pointer -fno-sanitize-recover=undefined"
select=()
case ${1:-} in
-h | --help) exec sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" ;;
-*)
	echo "tests/run.sh: $1: names of tests, or --help" >&2
	exit 2
	;;
esac
if [ $# -gt 0 ]; then
	select=(-R "$(IFS='|'; echo "$*")")
fi
passed=0 failed=0 skipped=0 parts=0 problems=()

deploy/install-packages.sh deploy/packages.txt tests/packages.txt || exit $?

release=(-DCMAKE_BUILD_TYPE=Release -DKORCH_ONEDNN=ON)
# A name that no test has would build every stage before it is said; a folder that was configured before may not know a new one.
if [ $# -gt 0 ] && ! tests/names.sh build "$@" 2>/dev/null; then
	mkdir -p build
	if cmake -S . -B build "${release[@]}" >build/configure.log 2>&1; then
		tests/names.sh build "$@" || exit 2
	fi
fi

# build FOLDER "TARGET..." CMAKE-ARGS...
build() {
	local folder=$1 targets=$2
	shift 2
	echo "== building $folder"
	mkdir -p "$folder"
	if ! cmake -S . -B "$folder" "$@" >"$folder/configure.log" 2>&1; then
		cat "$folder/configure.log"
		failed=$((failed + 1))
		problems+=("$folder cannot be configured")
		return 1
	fi
	# What does not build is one failure; the tests of the rest run all the same.
	if ! cmake --build "$folder" --target $targets -j "$jobs" -- -k >"$folder/build.log" 2>&1; then
		grep -E -A 3 'error:|Error |undefined' "$folder/build.log" | head -n 40
		failed=$((failed + 1))
		problems+=("$folder does not build (see $folder/build.log)")
	fi
	if [ "$folder" = build ] && grep -A 4 'warning:' "$folder/build.log"; then
		failed=$((failed + 1))
		problems+=("$folder builds with warnings (see $folder/build.log)")
	fi
	return 0
}

# A number of the report's first line.
report_number() {
	sed -n "s/.*[[:space:]]$2=\"\([0-9]*\)\".*/\1/p" "$1" | head -n 1
}

# run FOLDER CTEST-ARGS...
run() {
	local folder=$1 report total bad skip
	shift
	report=$PWD/$folder/report.xml
	rm -f "$report"
	echo "== testing $folder"
	ctest --test-dir "$folder" -j "$jobs" --output-on-failure --output-junit "$report" \
	    "$@" "${select[@]}" >"$folder/test.log" 2>&1
	if [ ! -s "$report" ]; then
		grep -q 'No tests were found' "$folder/test.log" && return
		cat "$folder/test.log"
		failed=$((failed + 1))
		problems+=("$folder: ctest made no report")
		return
	fi
	total=$(tr '\n' ' ' <"$report" | grep -o '<testsuite [^>]*>' >"$report.head"; report_number "$report.head" tests)
	bad=$(report_number "$report.head" failures)
	skip=$(($(report_number "$report.head" skipped) + $(report_number "$report.head" disabled)))
	passed=$((passed + total - bad - skip))
	failed=$((failed + bad))
	skipped=$((skipped + skip))
	if [ "$bad" != 0 ]; then
		sed '/^ *[0-9]*\/[0-9]* Test .*Passed/d; /^ *Start /d' "$folder/test.log" | tail -n 400
		problems+=("$folder: $bad tests failed (see $folder/test.log)")
	fi
	grep -h '^SKIP' "$folder/Testing/Temporary/LastTest.log" 2>/dev/null | sort -u
	parts=$((parts + $(awk '/^SKIP: [0-9]+ parts?: / { n += $2 } END { print n + 0 }' "$folder/Testing/Temporary/LastTest.log")))
}

for stage in $stages; do
	case $stage in
	release)
		build build "all tests" "${release[@]}" && run build
		;;
	asan)
		build build/asan "all tests" -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS=$sanitize -fsanitize=address,undefined" &&
		    ASAN_OPTIONS=detect_leaks=1 KORCH_EMIT_GRAPHS=${KORCH_EMIT_GRAPHS:-80} run build/asan -L 'pure|onnx|memory'
		;;
	tsan)
		build build/tsan thread-tests -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS=$sanitize -fsanitize=thread" &&
		    TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp halt_on_error=1" KORCH_SANDBOX_READ=$PWD/tests \
		    KORCH_KILL_ROUNDS=${KORCH_KILL_ROUNDS:-8} run build/tsan -L threads
		;;
	fuzz)
		if ! command -v clang-14 >/dev/null; then
			echo "SKIP fuzz: no clang-14"
			skipped=$((skipped + 1))
			continue
		fi
		build build/fuzz fuzz-tests -DCMAKE_C_COMPILER=clang-14 -DCMAKE_BUILD_TYPE=Debug -DKORCH_FUZZ=ON \
		    "-DCMAKE_C_FLAGS=$sanitize -fsanitize=fuzzer-no-link,address,undefined" &&
		    run build/fuzz -L fuzz
		;;
	fresh)
		[ ${#select[@]} = 0 ] || continue
		echo "== a bare Debian 12"
		mkdir -p build
		tests/fresh.sh | tee build/fresh.log
		status=${PIPESTATUS[0]}
		parts=$((parts + $(grep -c '^SKIP: 1 part' build/fresh.log)))
		case $status in
		0) passed=$((passed + 1)) ;;
		77) skipped=$((skipped + 1)) ;;
		*)
			failed=$((failed + 1))
			problems+=("tests/fresh.sh failed")
			;;
		esac
		;;
	*)
		echo "tests/run.sh: no stage '$stage'" >&2
		exit 2
		;;
	esac
done
for p in "${problems[@]}"; do
	echo "$p"
done
echo "$passed passed, $failed failed, $skipped skipped, $parts parts of passed tests skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
