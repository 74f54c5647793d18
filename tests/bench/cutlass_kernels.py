"""CUTLASS's kernels (cutlass_kernels.cu) compiled by nvcc to cubins, without a device.

    python3 cutlass_kernels.py OUT [--only NAME-PART]

CUTLASS's headers are those of KORCH_CUTLASS (a folder that holds cutlass/cutlass.h) or of the PyPI package
nvidia-cutlass of this interpreter; nvcc is that of PATH.  Lines go to OUT/cutlass.list (see gpu_peers.sh).
Exit status 77 where one of the two is missing."""

import argparse
import importlib.util
import os
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cubin_list  # noqa: E402

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cutlass_kernels.cu")
MARK = struct.pack("<2I", 0x4B4F5243, 0x48214C41)
# name, tile, stages: as in cutlass_kernels.cu
KERNELS = [("gemm_f16", "128x128x32", 4), ("gemm_tf32", "128x128x16", 4), ("gemm_f32", "128x128x8", 4),
           ("conv_f16", "128x64x64", 3)]


def skip(why):
    print("skipped:", why, file=sys.stderr)
    sys.exit(77)


def headers():
    named = os.environ.get("KORCH_CUTLASS")
    spec = None if named else importlib.util.find_spec("cutlass_library")
    folder = named or (spec and os.path.join(list(spec.submodule_search_locations)[0], "source", "include"))
    if not folder or not os.path.exists(os.path.join(folder, "cutlass", "cutlass.h")):
        skip(f"no cutlass/cutlass.h in {folder}" if folder else "no headers of CUTLASS here (pip install nvidia-cutlass, or KORCH_CUTLASS=FOLDER)")
    return folder


def compiled(nvcc, include, name, to):
    """The cubin's bytes, threads and shared memory of a block."""
    r = subprocess.run([nvcc, "-cubin", "-std=c++17", "-O3", "-DNDEBUG", "-w", "-arch=sm_80", "-I", include,
                        f"-DKERNEL_{name.upper()}", "-o", to, SOURCE], capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"cutlass_kernels.py: {name}: nvcc says: {r.stderr.strip()[-400:]}")
    with open(to, "rb") as f:
        elf = f.read()
    at = elf.find(MARK)
    if at < 0:
        sys.exit(f"cutlass_kernels.py: {name}: the object does not say how it is launched (korch_launch)")
    return (elf, *struct.unpack_from("<2I", elf, at + len(MARK)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--only", default="")
    args = p.parse_args()
    nvcc, include = shutil.which("nvcc"), headers()
    if not nvcc:
        skip("no nvcc in PATH")
    with tempfile.TemporaryDirectory() as folder, cubin_list.Writer(args.out, "cutlass") as rows:
        for name, tile, stages in (k for k in KERNELS if args.only in k[0]):
            elf, threads, shared = compiled(nvcc, include, name, os.path.join(folder, "k.cubin"))
            rows.add(f"cutlass_{name}_{tile}_w{threads // 32}_s{stages}_sm80.cubin", elf, 80, threads // 32, stages, shared)


if __name__ == "__main__":
    main()
