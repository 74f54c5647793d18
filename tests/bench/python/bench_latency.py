"""The same plan by korch-run and through the session, beside onnxruntime and OpenVINO through theirs; milliseconds."""

import json
import statistics
import subprocess

import setting


def by_program(plan, repeat, a, env, key):
    out = subprocess.run([f"{setting.BIN}/korch-run", plan, "--repeat", str(repeat), "--warmup", "2", "--threads", str(a.threads),
                          "--json"], env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out.strip().split("\n")[-1])[key]


def main(a):
    key = "cpu_ns" if a.clock == "cpu" else "median_ns"
    env = setting.private(setting.OUT + "/data")
    setting.head("model", "korch-run", "korch's session", "beside korch-run", "onnxruntime", "openvino")
    for name in a.names or [n + "_small" for n in setting.NAMES] + setting.NAMES:
        path = setting.model(name)
        plan = setting.plan(path, a)
        them = {k: setting.Child("../peers/child.py", k, plan if k == "korch" else path, a, env) for k in ("korch", "ort", "openvino")}
        for c in them.values():
            c.answer()  # its version
        repeat = max(5, min(2000, int(3e8 / by_program(plan, 5, a, env, key))))
        times = {k: [] for k in ("program", *them)}
        for _ in range(a.rounds):
            times["program"].append(by_program(plan, repeat, a, env, key))
            for k, c in them.items():
                times[k].append(c.ask(repeat)[key])
        for c in them.values():
            c.close()
        ratio = statistics.median(s / p for s, p in zip(times["korch"], times["program"]))
        program, korch, ort, openvino = (f"{statistics.median(t) / 1e6:.3f}" for t in times.values())
        setting.line(name, program, korch, f"{ratio:.3f}", ort, openvino)
