#!/usr/bin/env python3
"""dump_cases.py OUT LIST...: writes ONNX's node tests as folders (model.onnx and
test_data_set_0/{input,output}_J.pb), out of the installed onnx package, which makes them in memory.
A LIST names one test a line; its 7th tab-separated column, if not "-", names inputs that Korch
needs as constants (shapes, axes): they become initializers and the others are numbered anew."""
import os
import sys
import warnings

warnings.filterwarnings("ignore")
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests


def read_lists(paths):
    constants = {}
    for path in paths:
        with open(path) as f:
            for line in f:
                field = line.rstrip("\n").split("\t")
                baked = field[6] if len(field) > 6 else "-"
                constants[field[0]] = set() if baked == "-" else set(baked.split(","))
    return constants


def tensor(value, name):
    if isinstance(value, TensorProto):
        t = TensorProto()
        t.CopyFrom(value)
    else:
        import numpy

        t = numpy_helper.from_array(numpy.asarray(value, order="C"))
    t.name = name
    return t


def save(path, message):
    with open(path, "wb") as f:
        f.write(message.SerializeToString(deterministic=True))


def dump(out, case, constants):
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    given, expected = case.data_sets[0]
    graph = model.graph
    pairs = [(info, tensor(v, info.name)) for info, v in zip(list(graph.input), given)]
    graph.initializer.extend(t for info, t in pairs if info.name in constants)
    pairs = [(info, t) for info, t in pairs if info.name not in constants]
    kept = []
    for info, _ in pairs:
        copy = onnx.ValueInfoProto()
        copy.CopyFrom(info)
        kept.append(copy)
    del graph.input[:]
    graph.input.extend(kept)
    folder = os.path.join(out, case.name)
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data, exist_ok=True)
    save(os.path.join(folder, "model.onnx"), model)
    for j, (_, t) in enumerate(pairs):
        save(os.path.join(data, f"input_{j}.pb"), t)
    for j, (info, v) in enumerate(zip(graph.output, expected)):
        save(os.path.join(data, f"output_{j}.pb"), tensor(v, info.name))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    constants = read_lists(sys.argv[2:])
    n = 0
    for case in load_model_tests(kind="node"):
        if case.name in constants:
            dump(sys.argv[1], case, constants[case.name])
            n += 1
    print(f"{n} of {len(constants)} cases")
    sys.exit(n != len(constants))


main()
