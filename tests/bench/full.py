#!/usr/bin/env python3
"""Models at full size, from ONNX to a checked plan: one command for the figures of whole jobs.

    tests/bench/full.py [NAME ...] [--model FILE.onnx ...] [--budget 600] [--rounds 3]

NAME is a model of korch-make-model (default: candy segformer_b0).  Each is tuned cold over an empty
data folder, tuned again (warm), tuned as the two baselines, compared with ONNX Runtime's outputs on one
seeded input (largest error over largest magnitude, at most 1e-3), verified, and timed beside ONNX
Runtime and OpenVINO by tests/bench/peers.  Everything lies under build/full.  Exits 1 when a plan is wrong."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BIN = os.path.join(ROOT, "build", "bin")
OUT = os.path.join(ROOT, "build", "full")

REFERENCE = r"""
import sys
import numpy as np, onnxruntime as ort
model, folder = sys.argv[1], sys.argv[2]
s = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
r = np.random.default_rng(3)
feed = {i.name: r.standard_normal(i.shape).astype(np.float32) for i in s.get_inputs()}
for k, (name, x) in enumerate(feed.items()):
    np.save(f"{folder}/input_{k}.npy", x)
    print(name)
for k, y in enumerate(s.run(None, feed)):
    np.save(f"{folder}/reference_{k}.npy", y)
"""
COMPARE = r"""
import glob, sys
import numpy as np
folder, worst = sys.argv[1], 0.0
have = sorted(glob.glob(f"{folder}/out/*.npy"))
want = sorted(glob.glob(f"{folder}/reference_*.npy"))
assert len(have) == len(want), f"{len(have)} outputs, {len(want)} wanted"
outs = [np.load(f) for f in have]
for f in want:
    y = np.load(f)
    # outputs are told apart by shape and, among equal ones, by the nearest
    errors = [float(np.max(np.abs(x - y)) / max(np.max(np.abs(y)), 1e-30)) for x in outs if x.shape == y.shape]
    worst = max(worst, min(errors, default=float("inf")))
print(worst)
"""


def submit(model, plan, data, fusion, budget):
    env = dict(os.environ, XDG_DATA_HOME=data, XDG_CACHE_HOME=data + "/cache")
    began = time.monotonic()
    out = subprocess.run([f"{BIN}/korch-submit", model, "-o", plan, "--fusion", fusion, "--budget", str(budget),
                          "--threads", "1", "--json", "--quiet"], check=True, capture_output=True, text=True, env=env).stdout
    got = json.loads([line for line in out.splitlines() if line.startswith("{")][-1])
    got["wall"] = time.monotonic() - began
    return got


def error_of(python, model, plan, folder):
    os.makedirs(folder + "/out", exist_ok=True)
    names = subprocess.run([python, "-c", REFERENCE, model, folder], check=True, capture_output=True,
                           text=True).stdout.split("\n")[:-1]
    inputs = [a for k, n in enumerate(names) for a in ("--input", f"{n}={folder}/input_{k}.npy")]
    subprocess.run([f"{BIN}/korch-run", plan, "--threads", "1", "--repeat", "1", "--warmup", "0", "--output-dir", folder + "/out",
                    "--quiet", "--trust", "any"] + inputs, check=True, capture_output=True)
    return float(subprocess.run([python, "-c", COMPARE, folder], check=True, capture_output=True, text=True).stdout)


def bench(name, model, a, python):
    folder = os.path.join(OUT, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    if model is None:
        model = f"{folder}/{name}.onnx"
        subprocess.run([f"{BIN}/korch-make-model", name, model], check=True, capture_output=True)
    plans = {f: f"{folder}/{name}.{f}.korch" for f in ("full", "operator", "none")}
    cold = submit(model, plans["full"], folder + "/data", "full", a.budget)
    submit(model, plans["operator"], folder + "/data", "operator", a.budget)
    submit(model, plans["none"], folder + "/data", "none", a.budget)
    warm = submit(model, folder + "/warm.korch", folder + "/data", "full", a.budget)
    for p in plans.values():
        subprocess.run([f"{BIN}/korch-plan", "verify", p], check=True, capture_output=True)
    worst = error_of(python, model, plans["full"], folder)
    print(f"{name}: {cold['operators']} operators -> {cold['primitives']} primitives -> {cold['candidates']} candidates -> "
          f"{cold['distinct']} distinct -> {cold['measured']} measured ({100 * cold['measured'] / max(cold['distinct'], 1):.0f} %)"
          f" -> {cold['chosen']} kernels")
    print(f"  cold {cold['wall']:.0f} s, warm {warm['wall']:.1f} s ({warm['measured']} measured); sum {cold['latency_ns'] / 1e6:.1f} ms, "
          f"bound {cold['bound_ns'] / 1e6:.1f} ms, {'proved' if cold['proved'] else 'not proved'}; error {worst:.1e}")
    subprocess.run([sys.executable, f"{HERE}/peers", "--plans", model, *plans.values(), "--rounds", str(a.rounds)], check=True)
    sys.stdout.flush()
    return worst <= 1e-3


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*")
    p.add_argument("--model", action="append", default=[])
    p.add_argument("--budget", type=float, default=600)
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    sys.dont_write_bytecode = True
    sys.path.insert(0, f"{HERE}/peers")
    import env
    python = env.python_of()
    jobs = [(n, None) for n in a.names or ([] if a.model else ["candy", "segformer_b0"])]
    jobs += [(os.path.basename(os.path.dirname(os.path.abspath(m))) or "model", m) for m in a.model]
    right = [bench(n, m, a, python) for n, m in jobs]
    sys.exit(0 if all(right) else 1)


main()
