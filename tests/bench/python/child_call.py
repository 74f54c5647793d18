"""One library's session in a process of its own: child_call.py korch|onnxruntime|openvino FILE THREADS

For every line on stdin each way of calling it is timed CALLS times; the answer is one object of nanoseconds a call."""

import json
import sys
import time

import numpy as np

CALLS = 500
FEED = {n: np.full(16, i, "f4") for i, n in enumerate("abcd")}


def opened(module, path, threads):
    o = module.SessionOptions()
    o.intra_op_num_threads = o.inter_op_num_threads = threads
    return module.InferenceSession(path, o, providers=module.get_available_providers())


def korch(path, threads):
    import korch as module

    s, out = opened(module, path, threads), {n: np.empty(16, "f4") for n in "xy"}
    return {"run(None, feed)": lambda: s.run(None, FEED), "run(names, feed)": lambda: s.run(["y", "x"], FEED),
            "run(None, feed, out=...)": lambda: s.run(None, FEED, out=out)}


def onnxruntime(path, threads):
    import onnxruntime as module

    s = opened(module, path, threads)
    binding = s.io_binding()
    for n, x in FEED.items():
        binding.bind_cpu_input(n, x)
    for n in "xy":
        binding.bind_output(n, "cpu")
    return {"run(None, feed)": lambda: s.run(None, FEED), "run(names, feed)": lambda: s.run(["y", "x"], FEED),
            "run_with_iobinding": lambda: s.run_with_iobinding(binding)}


def openvino(path, threads):
    import openvino as module

    request = module.Core().compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
                                                        "PERFORMANCE_HINT": "LATENCY"}).create_infer_request()
    return {"infer(feed)": lambda: request.infer(FEED)}


def timed(call):
    t = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - t) / CALLS


def main():
    ways = {"korch": korch, "onnxruntime": onnxruntime, "openvino": openvino}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
    for call in ways.values():
        timed(call)
    for _ in sys.stdin:
        print(json.dumps({name: timed(call) for name, call in ways.items()}), flush=True)


main()
