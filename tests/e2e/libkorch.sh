#!/bin/bash
# The installation: programs, library, header, pkg-config file, CMake package; a program built from
# those alone, both ways, computes what korch-run does; nothing but korch_* is exported.  label: e2e
. "$(dirname "$0")/env.inc"
p=$tmp/prefix
if cmake --install "$1" --prefix "$p" >"$tmp/out" 2>&1; then ok; else bad "install: $(tail -n 2 "$tmp/out")"; fi
so=$(find "$p" -name libkorch.so)
lib=$(dirname "$so")
export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib

for program in korch-planner korch-measure korch-generate korch-jail; do # started by others only
	if [ -x "$p/bin/$program" ]; then ok; else bad "$program is not installed"; fi
done
for program in korch-submit korch-run korch-plan korch-jobs korch-cache korchd korch-worker; do
	if "$p/bin/$program" --version >"$tmp/out" 2>&1; then ok; else bad "installed $program: $(tail -n 1 "$tmp/out")"; fi
	wide=$("$p/bin/$program" --help | awk 'length > 80')
	if [ -z "$wide" ]; then ok; else bad "$program --help is wider than a terminal: $wide"; fi
done

for made in share/man/man1/korch-submit.1 share/man/man8/korchd.8 share/bash-completion/completions/korch-submit; do
	if [ -s "$p/$made" ]; then ok; else bad "$made is not installed"; fi
done

# ---- what the library shows
if objdump -p "$so" | grep -q 'SONAME *libkorch\.so\.0$'; then ok; else bad "soname: $(objdump -p "$so" | grep SONAME)"; fi
nm -D --defined-only "$so" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | sort >"$tmp/exported"
sed -nE 's/^KORCH_API .*[ *](korch_[a-z_]+)\(.*/\1/p' "$p/include/korch.h" | sort >"$tmp/declared"
if [ -s "$tmp/declared" ] && cmp -s "$tmp/exported" "$tmp/declared"; then ok; else
	bad "exported and declared differ: $(diff "$tmp/exported" "$tmp/declared" | tr '\n' ' ')"
fi

# ---- a program over it
src=client/lib/example warn='-Wall -Wextra -Wpedantic -Werror'
if cc $warn -o "$tmp/by_pc" $src/run_plan.c $(pkg-config --cflags --libs korch) 2>"$tmp/out"; then ok; else
	bad "by pkg-config: $(head -n 2 "$tmp/out")"
fi
if cmake -S $src -B "$tmp/by_cmake" -DCMAKE_PREFIX_PATH="$p" >"$tmp/out" 2>&1 &&
	cmake --build "$tmp/by_cmake" >>"$tmp/out" 2>&1; then ok; else bad "by find_package: $(tail -n 3 "$tmp/out")"; fi
if printf '#include <korch.h>\nint main(){return korch_version()[0]==0;}\n' |
	c++ $warn -x c++ - -o "$tmp/by_cxx" $(pkg-config --cflags --libs korch) 2>"$tmp/out" && "$tmp/by_cxx"; then ok; else
	bad "from C++: $(head -n 2 "$tmp/out")"
fi
if [ "$(pkg-config --modversion korch)" = "$("$p/bin/korch-run" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+')" ]; then ok; else
	bad "versions differ"
fi

# ---- runs a plan
tar xJf tests/models/small.tar.xz -C "$tmp" small/candy_small
plan=$tmp/plan.korch
if "$p/bin/korch-submit" "$tmp/small/candy_small/model.onnx" -o "$plan" --budget 0 --quiet 2>"$tmp/out"; then ok; else
	bad "korch-submit: $(tail -n 2 "$tmp/out")"
fi
# npy RAW SHAPE > FILE: raw float32 as an .npy file
npy() {
	local head="{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": ($2), }"
	printf '\223NUMPY\1\0\166\0%-117s\n' "$head"
	cat "$1"
}
for program in "$tmp/by_pc" "$tmp/by_cmake/run_plan"; do
	o=$tmp/$(basename "$(dirname "$program")")$(basename "$program").d
	mkdir -p "$o"
	if "$program" "$plan" "$o" >"$o/said" 2>&1; then ok; else bad "$program: $(cat "$o/said")"; fi
	npy "$o/in0" "$(sed -nE 's/^input 0 [^ ]* f32 //p' "$o/said")" >"$o/in0.npy"
	korch-run "$plan" --input "inputImage=$o/in0.npy" --output-dir "$o/run" --repeat 1 --quiet >"$tmp/out" 2>&1 ||
		bad "korch-run: $(tail -n 1 "$tmp/out")"
	tail -c "$(stat -c %s "$o/out0")" "$o/run/outputImage.npy" >"$o/want"
	if [ -s "$o/out0" ] && cmp -s "$o/out0" "$o/want"; then ok; else bad "$program computes otherwise than korch-run"; fi
done

# ---- threads, several plans, wrong calls
if cc $warn -pthread -o "$tmp/calls" tests/e2e/libkorch_calls.c $(pkg-config --cflags --libs korch) 2>"$tmp/out"; then ok; else
	bad "libkorch_calls: $(head -n 2 "$tmp/out")"
fi
# Without a number of threads it takes the cores that it may use, as korch-submit does.
KORCH_THREADS=0 korch-submit "$tmp/small/candy_small/model.onnx" -o "$tmp/here.korch" --budget 0 --quiet >/dev/null 2>&1
cores=$(korch-plan show --json "$tmp/here.korch" | field threads)
if "$tmp/calls" "$plan" "${cores:-0}" "$XDG_DATA_HOME/korch/sign.pub" >"$tmp/out" 2>&1; then ok; else bad "$(cat "$tmp/out")"; fi
finish
