"""What the tests share: models made here, one private daemon's data folder for all."""

import contextlib
import os
import select
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

KINDS = {"f4": TensorProto.FLOAT, "f8": TensorProto.DOUBLE, "i4": TensorProto.INT32, "i8": TensorProto.INT64,
         "?": TensorProto.BOOL, "f2": TensorProto.FLOAT16}


@pytest.fixture(scope="session", autouse=True)
def data_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    os.environ["XDG_DATA_HOME"] = str(folder)
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    return folder


def model(nodes, inputs, outputs, weights=()):
    """An ONNX model; inputs and outputs as {name: (kind, shape)}."""
    def values(ports):
        return [helper.make_tensor_value_info(n, KINDS[k], s) for n, (k, s) in ports.items()]

    graph = helper.make_graph([helper.make_node(op, i, o, **a) for op, i, o, a in nodes], "g", values(inputs),
                              values(outputs), [onnx.numpy_helper.from_array(w, n) for n, w in dict(weights).items()])
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    m.ir_version = 8
    onnx.checker.check_model(m)
    return m


@pytest.fixture(scope="session")
def mlp(tmp_path_factory):
    """x f32[4,8] -> y f32[4,5] and s f32[4,1]"""
    rng = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("mlp") / "mlp.onnx"
    onnx.save(model([("MatMul", ["x", "w"], ["h"], {}), ("Relu", ["h"], ["y"], {}),
                     ("ReduceSum", ["y", "axes"], ["s"], {"keepdims": 1})],
                    {"x": ("f4", [4, 8])}, {"y": ("f4", [4, 5]), "s": ("f4", [4, 1])},
                    {"w": rng.standard_normal((8, 5)).astype("f4"), "axes": np.array([1], "i8")}), path)
    return path


@pytest.fixture(scope="session")
def open_model(tmp_path_factory):
    """x f32[batch,3] -> y, of what shape a run brings"""
    path = tmp_path_factory.mktemp("open") / "open.onnx"
    onnx.save(model([("Exp", ["x"], ["y"], {})], {"x": ("f4", ["batch", 3])}, {"y": ("f4", ["batch", 3])}), path)
    return path


@contextlib.contextmanager
def farm(folder, device):
    """The address of a daemon over that folder, with one worker."""
    from korch._programs import program

    children = []

    def start(name, *words):
        ours, theirs = os.pipe()
        children.append(subprocess.Popen([program(name), *words, "-q", "--ready-fd", str(theirs)], pass_fds=[theirs]))
        os.close(theirs)
        ready = os.read(ours, 1)
        os.close(ours)
        assert ready, f"{name} does not start"

    url = f"ipc://{folder}/s"
    try:
        start("korchd", "--data", str(folder / "data"), "--listen", url)
        start("korch-worker", "--daemon", url, "--device", device)
        yield url
    finally:
        for child in reversed(children):
            child.terminate()
            child.wait()


TIER1 = [line.split("\t")[0] for line in open(os.path.join(os.path.dirname(__file__), "../onnx/tier1.txt"))]


def node_cases():
    """{name: folder} of the node tests of tier 1, which tests/onnx/cases made."""
    top = os.environ.get("KORCH_NODE_TESTS")
    if not top:
        pytest.skip("no node tests: KORCH_NODE_TESTS names no folder (tests/onnx/cases makes one)")
    return {name: os.path.join(top, name) for name in TIER1}


def read_pb(path):
    t = TensorProto()
    with open(path, "rb") as f:
        t.ParseFromString(f.read())
    return onnx.numpy_helper.to_array(t)


def small_models():
    """The folders of tests/models/small.tar.xz, unpacked by tests/python/run.sh."""
    top = os.environ.get("KORCH_SMALL_MODELS", "")
    return sorted(os.path.join(top, d) for d in os.listdir(top)) if top else []


def until(child, word):
    """Reads what a child says up to a line with that word."""
    for line in child.stdout:
        if word in line:
            return
    raise AssertionError(f"it ended before it said {word}")


def processes(word):
    """Numbers of the processes that have `word` in their command line."""
    said = subprocess.run(["ps", "-eo", "pid=,args="], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [int(line.split()[0]) for line in said.splitlines() if word in line]


def await_end(folder):
    """Until no program over that folder is left: a private daemon stays for ten seconds."""
    while left := processes(str(folder)):
        for pid in left:
            try:
                end = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            select.select([end], [], [])
            os.close(end)
