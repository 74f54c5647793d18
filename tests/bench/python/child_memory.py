"""One session in a process of its own: child_memory.py korch|onnxruntime|openvino FILE THREADS

Prints how much more memory is resident after three runs than before it imported anything but numpy, and the most that ever
was (both without the inputs)."""

import gc
import json
import sys

import numpy as np


def of_status(name):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(name + ":"))


def openvino_session(path, threads):
    import openvino

    request = openvino.Core().compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
                                                          "PERFORMANCE_HINT": "LATENCY"}).create_infer_request()
    inputs = {x.any_name: np.ones(list(x.shape), x.element_type.to_dtype()) for x in request.model_inputs}
    return inputs, lambda: request.infer(inputs)


def session(kind, path, threads):
    module = __import__(kind)
    o = module.SessionOptions()
    o.intra_op_num_threads = threads
    s = module.InferenceSession(path, o, providers=module.get_available_providers())
    inputs = {i.name: np.ones(i.shape, {"tensor(float)": "f4", "tensor(int64)": "i8"}[i.type]) for i in s.get_inputs()}
    return inputs, lambda: s.run(None, inputs)


def main():
    kind, path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    before = of_status("VmRSS")
    inputs, run = (openvino_session(path, threads) if kind == "openvino" else session(kind, path, threads))
    for _ in range(3):
        run()
    gc.collect()
    given = sum(x.nbytes for x in inputs.values())
    print(json.dumps({"held": of_status("VmRSS") - before - given, "most": of_status("VmHWM") - before - given}))


main()
