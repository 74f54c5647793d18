"""Wrong calls: each a clear exception, nothing crashes, nothing stays behind."""

import os
import signal
import subprocess
import sys

import numpy as np
import onnx
import pytest
from conftest import await_end, model, small_models, until

import korch

GOOD = np.ones((4, 8), "f4")

FEEDS = [
    ({}, "input 'x' is missing"),
    ({"y": GOOD}, "input 'x' is missing"),
    ({"x": GOOD, "z": GOOD}, "no input is called 'z'"),
    ({"x": GOOD, 7: GOOD}, "no input is called 7"),
    ({"x": GOOD.astype("f8")}, "input 'x' is of type float32; an array of float64 was given"),
    ({"x": GOOD.astype("i4")}, "an array of int32 was given"),
    ({"x": GOOD[:3]}, "input 'x' has the shape [4, 8]; an array of [3, 8] was given"),
    ({"x": GOOD.T}, "an array of [8, 4] was given"),
    ({"x": np.float32(1)}, "an array of [] was given"),
    ({"x": "text"}, "input 'x' is of type float32"),
    ({"x": None}, "input 'x' is of type float32"),
    ({"x": [[1.0, 2.0], [3.0]]}, "'x' cannot be read as an array"),
]


@pytest.fixture(scope="module")
def session(mlp):
    return korch.InferenceSession(mlp)


@pytest.mark.parametrize("feed,words", FEEDS, ids=range(len(FEEDS)))
def test_feeds(session, feed, words):
    with pytest.raises(korch.InvalidArgument) as e:
        session.run(None, feed)
    assert words in str(e.value)
    session.run(None, {"x": GOOD})


def test_arguments_that_are_none(mlp):
    korch.InferenceSession(mlp, providers=["CPUExecutionProvider"], provider_options=[{}], disabled_optimizers=[])
    with pytest.raises(TypeError) as e:
        korch.InferenceSession(mlp, thread=2)
    assert "no argument called thread" in str(e.value)


def test_feed_that_is_no_dict(session):
    with pytest.raises(TypeError):
        session.run(None, [GOOD])


@pytest.mark.parametrize("out,words", [
    ({"z": GOOD}, "no output is called 'z'"),
    ([GOOD], "out: a dict"),
], ids=range(2))
def test_outputs_that_are_none(session, out, words):
    with pytest.raises(korch.InvalidArgument) as e:
        session.run(None, {"x": GOOD}, out=out)
    assert words in str(e.value)


@pytest.mark.parametrize("mine,words", [
    (np.zeros((4, 5), "f8"), "output 'y' is of type float32"),
    (np.zeros((5, 4), "f4"), "output 'y' has the shape [4, 5]"),
    (np.zeros((4, 10), "f4")[:, ::2], "not dense"),
    (np.broadcast_to(np.float32(0), (4, 5)), "read-only"),
], ids=range(4))
def test_outputs_in_place(session, mine, words):
    with pytest.raises(korch.InvalidArgument) as e:
        session.run(None, {"x": GOOD}, out={"y": mine})
    assert words in str(e.value)


def test_output_over_input(session):
    # libkorch's own sentence
    whole = np.zeros((4, 8), "f4")
    with pytest.raises(korch.InvalidArgument) as e:
        session.run(None, {"x": whole}, out={"y": whole.reshape(-1)[:20].reshape(4, 5)})
    assert "output 0 overlaps input 0" in str(e.value)


def test_unknown_output(session):
    with pytest.raises(korch.InvalidArgument) as e:
        session.run(["nothing"], {"x": GOOD})
    assert "no output is called 'nothing'; there are: y, s" in str(e.value)


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    """y = a b of f32[2,3] and f32[3,2]"""
    path = tmp_path_factory.mktemp("product") / "product.onnx"
    onnx.save(model([("MatMul", ["a", "b"], ["y"], {})], {"a": ("f4", [2, 3]), "b": ("f4", [3, 2])},
                    {"y": ("f4", [2, 2])}), path)
    return korch.InferenceSession(path)


def test_order_of_names(product):
    a, b = np.ones((2, 3), "f4"), np.ones((3, 2), "f4")
    assert (product.run(["y", "y"], {"b": b, "a": a})[1] == 3).all()
    with pytest.raises(korch.InvalidArgument) as e:
        product.run(None, {"a": b, "b": a})
    assert "input 'a' has the shape [2, 3]; an array of [3, 2] was given" in str(e.value)
    with pytest.raises(korch.InvalidArgument) as e:
        product.run(None, {"a": a, "c": b})
    assert "input 'b' is missing" in str(e.value)


def test_feeds_of_an_open_model(open_model):
    session = korch.InferenceSession(open_model)
    for feed, kind, words in (({}, korch.InvalidArgument, "input 'x' is missing"),
                              ({"x": [[1.0, 2.0, 3.0]]}, korch.InvalidArgument, "input 'x' is no array"),
                              ({"x": np.ones((2, 4), "f4")}, korch.Error, "x"),
                              ({"x": np.ones((2, 3), "f8")}, korch.InvalidArgument, "of type float32"),
                              ([np.ones((2, 3), "f4")], TypeError, "input_feed is a dict")):
        with pytest.raises(kind) as e:
            session.run(None, feed)
        assert words in str(e.value)
    assert session.run(None, {"x": np.zeros((2, 3), "f4")})[0].tolist() == [[1] * 3] * 2


def test_files(tmp_path, mlp):
    with pytest.raises(korch.NoSuchFile) as e:
        korch.InferenceSession(tmp_path / "none.onnx")
    assert "none.onnx" in str(e.value) and isinstance(e.value, OSError)
    (tmp_path / "noise.onnx").write_bytes(b"\xff" * 100)
    with pytest.raises(korch.Error) as e:
        korch.InferenceSession(tmp_path / "noise.onnx")
    assert "noise.onnx" in str(e.value)
    whole = tmp_path / "p.korch"
    korch.tune(mlp, whole, budget=0)
    (tmp_path / "cut.korch").write_bytes(whole.read_bytes()[:5000])
    with pytest.raises(korch.Error) as e:
        korch.InferenceSession(tmp_path / "cut.korch")
    assert "cut.korch" in str(e.value)
    with pytest.raises(korch.InvalidArgument):
        korch.InferenceSession(whole, tune=True)
    with pytest.raises(korch.InvalidArgument):
        korch.InferenceSession(mlp, tune="sometimes")


def test_unsupported_operator(tmp_path):
    import onnx
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Strange", ["x"], ["y"])], "g", [value("x", TensorProto.FLOAT, [2])],
                              [value("y", TensorProto.FLOAT, [2])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    with pytest.raises(korch.Error) as e:
        korch.InferenceSession(tmp_path / "m.onnx")
    assert "Strange" in str(e.value)


def test_daemon_that_is_not_there(mlp, tmp_path):
    with pytest.raises(korch.Unreachable):
        korch.tune(mlp, tmp_path / "p.korch", budget=0, daemon=f"ipc://{tmp_path}/none")


def test_without_a_compiler(mlp, tmp_path):
    script = "import korch, sys\ntry: korch.InferenceSession(sys.argv[1])\nexcept korch.NotSetUp as e: print(e)"
    env = dict(os.environ, PATH="/nowhere", XDG_DATA_HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    said = subprocess.run([sys.executable, "-c", script, mlp], env=env, stdout=subprocess.PIPE, text=True).stdout
    assert "gcc" in said


def test_forked_child(session):
    child = os.fork()
    if child == 0:
        try:
            session.run(None, {"x": GOOD})
        except korch.InvalidArgument as e:
            os._exit(0 if "forked" in str(e) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    session.run(None, {"x": GOOD})


TUNING = """
import korch, sys
session = korch.InferenceSession(sys.argv[1], tune="background", budget=300, progress=lambda p: print(p.phase, flush=True))
print("open", flush=True)
{then}
"""


def started(then, path, folder):
    env = dict(os.environ, XDG_DATA_HOME=str(folder), XDG_CACHE_HOME=str(folder))
    return subprocess.Popen([sys.executable, "-c", TUNING.format(then=then), str(path)], env=env,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def candy():
    return small_models()[0] + "/model.onnx"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
def test_interpreter_is_killed_while_it_tunes(candy, tmp_path, how):
    child = started("sys.stdin.read()", candy, tmp_path)
    until(child, "measuring")
    child.send_signal(how)
    assert child.wait() == -how
    await_end(tmp_path)


def test_interpreter_ends_while_it_tunes(candy, tmp_path):
    child = started("raise SystemExit(3)", candy, tmp_path)
    assert child.wait() == 3
    await_end(tmp_path)


def test_interrupted_tuning(candy, tmp_path):
    script = ("import korch, signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
              "try: korch.tune(sys.argv[1], sys.argv[2], budget=300, "
              "progress=lambda p: print(p.phase, flush=True))\nexcept KeyboardInterrupt: print('interrupted')")
    env = dict(os.environ, XDG_DATA_HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    child = subprocess.Popen([sys.executable, "-c", script, candy, str(tmp_path / "p.korch")], env=env,
                             stdout=subprocess.PIPE, text=True)
    until(child, "measuring")
    child.send_signal(signal.SIGINT)
    assert "interrupted" in child.stdout.read()
    assert child.wait() == 0 and not (tmp_path / "p.korch").exists()
    await_end(tmp_path)


def test_progress_that_raises_cancels(candy, tmp_path):
    def no(p):
        if p.phase == "measuring":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        korch.tune(candy, tmp_path / "p.korch", budget=300, progress=no)
    assert not (tmp_path / "p.korch").exists()
