"""From an ONNX file to the first answer, in a new process each time: seconds of opening and of one run, without starting the
interpreter and importing.  First with nothing cached, then again from the cache; onnxruntime and OpenVINO beside it."""

import os
import statistics
import subprocess
import sys

import setting

SCRIPT = """
import sys, time
import numpy as np
import {module}
t = time.perf_counter()
{body}
print(time.perf_counter() - t)
"""
SESSION = """
o = {module}.SessionOptions()
o.intra_op_num_threads = int(sys.argv[2])
s = {module}.InferenceSession(sys.argv[1], o, providers={module}.get_available_providers())
s.run(None, {{i.name: np.ones(i.shape, "f4") for i in s.get_inputs()}})"""
OPENVINO = """
m = openvino.Core().compile_model(sys.argv[1], "CPU", {"INFERENCE_NUM_THREADS": int(sys.argv[2])})
m({x.any_name: np.ones(list(x.shape), "f4") for x in m.inputs})"""


def seconds(module, path, a, env):
    body = OPENVINO if module == "openvino" else SESSION.format(module=module)
    return float(subprocess.run([sys.executable, "-c", SCRIPT.format(module=module, body=body), path, str(a.threads)], env=env,
                                check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])


def main(a):
    setting.head("model", "MB", "korch, nothing cached, s", "korch, from the cache, s", "onnxruntime, s", "openvino, s")
    for name in a.names or [n + "_small" for n in setting.NAMES] + setting.NAMES:
        path = setting.model(name)
        times = {k: [] for k in ("cold", "warm", "onnxruntime", "openvino")}
        for k in range(a.rounds):
            # a folder of its own: the daemon of the round before leaves its own in its time
            env = setting.private(f"{setting.OUT}/first/{os.path.basename(path)}.{k}", fresh=True)
            times["cold"].append(seconds("korch", path, a, env))
            times["warm"].append(seconds("korch", path, a, env))
            for peer in ("onnxruntime", "openvino"):
                times[peer].append(seconds(peer, path, a, env))
        setting.line(name, f"{os.path.getsize(path) / 1e6:.1f}", *(f"{statistics.median(t):.2f}" for t in times.values()))
