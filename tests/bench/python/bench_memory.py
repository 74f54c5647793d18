"""What a session holds beyond weights and work: resident memory of a process after three runs, less what it had
with numpy imported and the inputs made, less weights, and work memory with the kernels' scratch, as korch-plan tells them."""

import json
import os
import statistics
import subprocess
import sys

import setting

MIB = 1 << 20


def sizes(plan):
    out = subprocess.run([f"{setting.BIN}/korch-plan", "show", plan, "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out.strip().split("\n")[-1])


def child(kind, path, threads, env):
    """(beyond the baseline, of which anonymous, most at any time) in bytes."""
    said = subprocess.run([sys.executable, os.path.join(setting.HERE, "child_memory.py"), kind, path, str(threads)],
                          env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(said.strip().split("\n")[-1])


def main(a):
    env = setting.private(setting.OUT + "/data")
    setting.head("model", "weights MiB", "work MiB", "korch, its plan: beyond both", "at most while opening", "korch, its ONNX file",
                 "onnxruntime: beyond weights", "openvino: beyond weights")
    for name in a.names or [n + "_small" for n in setting.NAMES] + setting.NAMES:
        path = setting.model(name)
        plan = setting.plan(path, a)
        s = sizes(plan)
        weights, work = s["constant_bytes"] / MIB, (s["work_bytes"] + s["scratch_bytes"]) / MIB
        got = {}
        for _ in range(a.rounds):
            for kind, what in (("korch", plan), ("korch", path), ("onnxruntime", path), ("openvino", path)):
                got.setdefault((kind, what), []).append(child(kind, what, a.threads, env))

        def median(kind, what, key):
            return statistics.median(x[key] for x in got[kind, what]) / MIB

        setting.line(name, f"{weights:.1f}", f"{work:.1f}", f"{median('korch', plan, 'held') - weights - work:.1f}",
                     f"{median('korch', plan, 'most') - weights - work:.1f}",
                     f"{median('korch', path, 'held') - weights - work:.1f}",
                     f"{median('onnxruntime', path, 'held') - weights:.1f}",
                     f"{median('openvino', path, 'held') - weights:.1f}")
