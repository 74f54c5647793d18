"""What a call costs: the time of session.run for a graph of four inputs, two outputs and 32 additions, each library in a process
of its own, in turns.

A call's overhead is that time less the graph's own: korch-run's for Korch; for onnxruntime that of a run whose arrays were
bound before, which is the least that it can do."""

import json
import statistics
import subprocess
import sys

import setting

TURNS = 20


def write(path):
    import onnx
    from onnx import TensorProto, helper

    def values(names):
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, [16]) for n in names]

    nodes = [helper.make_node("Add", ["a", "b"], ["x"]), helper.make_node("Add", ["c", "d"], ["y"])]
    m = helper.make_model(helper.make_graph(nodes, "call", values("abcd"), values("xy")),
                          opset_imports=[helper.make_opsetid("", 17)])
    m.ir_version = 8
    onnx.save(m, path)


def by_program(plan, a, env):
    out = subprocess.run([f"{setting.BIN}/korch-run", plan, "--repeat", "3000", "--warmup", "100", "--threads", str(a.threads),
                          "--json"], env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out.strip().split("\n")[-1])["median_ns"]


def main(a):
    env, path = setting.private(setting.OUT + "/data"), setting.OUT + "/call.onnx"
    write(path)
    plan = setting.plan(path, a)
    them = {k: setting.Child("child_call.py", k, plan if k == "korch" else path, a, env)
            for k in ("korch", "onnxruntime", "openvino")}
    times, own = {}, []
    for _ in range(a.rounds):
        own.append(by_program(plan, a, env))
        for _ in range(TURNS):
            for kind, child in them.items():
                for way, t in child.ask("").items():
                    times.setdefault((kind, way), []).append(t)
    for child in them.values():
        child.close()
    own = {"korch": statistics.median(own), "onnxruntime": statistics.median(times["onnxruntime", "run_with_iobinding"])}
    base = times["onnxruntime", "run(None, feed)"]
    setting.head("call", "us", "the graph's own", "overhead", "beside onnxruntime's run(None, feed)")
    for (kind, way), ts in times.items():
        t, inside = statistics.median(ts), own.get(kind)
        setting.line(f"{kind}: {way}", f"{t / 1e3:.2f}", f"{inside / 1e3:.2f}" if inside else "–",
                     f"{(t - inside) / 1e3:.2f}" if inside else "–", f"{statistics.median(x / b for x, b in zip(ts, base)):.2f}")
