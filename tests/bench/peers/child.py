"""One peer with one model, in a process of its own: timed whenever a line comes in.

    child.py ort|openvino|inductor|korch MODEL.onnx THREADS     (korch: a plan)

Every line on stdin is a number of runs; the answer is a line of JSON with their median by the wall
clock and by the process's CPU clock.  The first line out names the version."""

import json
import sys
import time

import numpy as np


def feed_of(shapes_and_types):
    r = np.random.default_rng(1)
    return {name: (r.integers(0, 100, shape) if np.issubdtype(t, np.integer) else r.standard_normal(shape)).astype(t)
            for name, shape, t in shapes_and_types}


def ort(path, threads):
    import onnxruntime
    return session(onnxruntime, path, threads)


def korch(path, threads):
    import korch as ours
    return session(ours, path, threads)


def session(rt, path, threads):
    o = rt.SessionOptions()
    o.intra_op_num_threads, o.inter_op_num_threads = threads, 1
    o.graph_optimization_level = rt.GraphOptimizationLevel.ORT_ENABLE_ALL
    o.log_severity_level = 3
    s = rt.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    feed = feed_of([(i.name, i.shape, kinds[i.type]) for i in s.get_inputs()])
    return rt.__version__, lambda: s.run(None, feed)


def openvino(path, threads):
    import openvino as ov
    m = ov.Core().compile_model(path, "CPU", {
        "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32"})
    request = m.create_infer_request()
    feed = feed_of([(i.any_name, list(i.shape), i.element_type.to_dtype()) for i in m.inputs])
    return ov.__version__.split("-")[0], lambda: request.infer(feed)


def inductor(path, threads):
    import onnx
    import torch
    from onnx_torch import Module
    torch.set_num_threads(threads)
    torch._inductor.config.freezing = True
    m = Module(onnx.load(path)).eval()
    x = [torch.from_numpy(v) for v in feed_of([(n, s, np.float32) for n, s in m.inputs]).values()]
    with torch.no_grad():
        f = torch.compile(m)
        f(*x)

    def run():
        with torch.no_grad():
            return f(*x)
    return torch.__version__, run


def main():
    kind, path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    version, run = {"ort": ort, "openvino": openvino, "inductor": inductor, "korch": korch}[kind](path, threads)
    run()
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        wall, cpu = [], []
        run()
        run()
        for _ in range(int(line)):
            a, c = time.perf_counter_ns(), time.process_time_ns()
            run()
            wall.append(time.perf_counter_ns() - a)
            cpu.append(time.process_time_ns() - c)
        print(json.dumps({"median_ns": float(np.median(wall)), "cpu_ns": float(np.median(cpu))}), flush=True)


main()
