#!/usr/bin/env python3
"""Whole models, Korch beside ONNX Runtime, in one run.

    tests/bench/peers.py MODEL.onnx PLAN.korch [PLAN.korch ...] [--rounds 7] [--repeat 5] [--threads 1]

Every round times each contestant in a process of its own, one after the other, pinned to the same
cores, so that drift of a shared machine meets all of them.  A contestant's figure is the median
over rounds of its median; a ratio is the median over rounds of the ratio within the round.
ONNX Runtime runs with all its optimisations.  Needs: pip install onnxruntime numpy (a virtual
environment under build/ is made when they are missing)."""

import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

ORT = r"""
import json, sys, time
import numpy as np, onnxruntime as ort
path, threads, repeat = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
o = ort.SessionOptions()
o.intra_op_num_threads, o.inter_op_num_threads = threads, 1
o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
s = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
r = np.random.default_rng(1)
kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
feed = {i.name: r.standard_normal(i.shape).astype(kinds[i.type]) for i in s.get_inputs()}
for _ in range(2):
    s.run(None, feed)
t = []
for _ in range(repeat):
    a = time.perf_counter_ns(); s.run(None, feed); t.append(time.perf_counter_ns() - a)
t.sort()
print(json.dumps({"median_ns": t[len(t) // 2], "version": ort.__version__}))
"""


def python_with_ort():
    """This interpreter, or one in build/peers-venv that has onnxruntime."""
    try:
        import numpy, onnxruntime  # noqa: F401
        return sys.executable
    except ImportError:
        pass
    venv = os.path.join(ROOT, "build", "peers-venv")
    python = os.path.join(venv, "bin", "python")
    if not os.path.exists(python):
        subprocess.check_call([sys.executable, "-m", "venv", venv])
        subprocess.check_call([python, "-m", "pip", "-q", "install", "onnxruntime", "numpy"])
    return python


def last_json(out):
    return json.loads([line for line in out.splitlines() if line.startswith("{")][-1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("plans", nargs="+")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--bin", default=os.path.join(ROOT, "build", "bin"))
    a = p.parse_args()
    python = python_with_ort()
    cores = ",".join(str(c) for c in sorted(os.sched_getaffinity(0))[: a.threads])
    pin = ["taskset", "-c", cores]
    rows = {"onnxruntime": pin + [python, "-c", ORT, a.model, str(a.threads), str(a.repeat)]}
    for plan in a.plans:
        rows[os.path.basename(plan)] = pin + [
            os.path.join(a.bin, "korch-run"), plan, "--repeat", str(a.repeat), "--warmup", "2",
            "--threads", str(a.threads), "--json"]
    times = {name: [] for name in rows}
    version = ""
    for _ in range(a.rounds):
        for name, command in rows.items():
            got = last_json(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            times[name].append(got["median_ns"])
            version = got.get("version", version)
    base = times["onnxruntime"]
    print(f"{a.model}, {a.threads} thread(s), onnxruntime {version}, {a.rounds} rounds of {a.repeat}")
    for name, t in times.items():
        ratio = statistics.median(b / x for b, x in zip(base, t))
        print(f"  {name:32s} {statistics.median(t) / 1e6:9.3f} ms   {ratio:5.2f}x of onnxruntime's speed")


if __name__ == "__main__":
    main()
