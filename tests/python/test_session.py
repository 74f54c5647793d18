"""korch.InferenceSession beside onnxruntime's: the same script, the same numbers."""

import threading

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import read_pb, small_models

import korch

ONE_SCRIPT = '''
import numpy as np
import {module} as ort

options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
options.intra_op_num_threads = 1
session = ort.InferenceSession(path, options, providers=ort.get_available_providers())
name = session.get_inputs()[0].name
shape = session.get_inputs()[0].shape
assert session.get_inputs()[0].type == "tensor(float)"
x = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
result = session.run([o.name for o in session.get_outputs()], {{name: x}})
'''


def run_script(module, path):
    names = {"path": str(path)}
    exec(ONE_SCRIPT.format(module=module), names)
    return names["result"]


def test_one_line_changed(mlp):
    have, want = run_script("korch", mlp), run_script("onnxruntime", mlp)
    assert len(have) == len(want) == 2
    for h, w in zip(have, want):
        assert h.shape == w.shape and h.dtype == w.dtype
        np.testing.assert_allclose(h, w, rtol=1e-5, atol=1e-6)


def test_names_types_shapes(mlp):
    have, want = korch.InferenceSession(str(mlp)), onnxruntime.InferenceSession(str(mlp))
    for h, w in zip(have.get_inputs() + have.get_outputs(), want.get_inputs() + want.get_outputs()):
        assert (h.name, h.type, h.shape) == (w.name, w.type, w.shape)


def test_outputs_by_name_and_order(mlp):
    session = korch.InferenceSession(mlp)
    x = np.ones((4, 8), "f4")
    y, s = session.run(None, {"x": x})
    s2, y2 = session.run(["s", "y"], {"x": x})
    assert np.array_equal(y, y2) and np.array_equal(s, s2)
    np.testing.assert_allclose(y.sum(1, keepdims=True), s, rtol=1e-6)


def test_bytes_of_a_model_and_of_a_plan(mlp, tmp_path):
    x = np.ones((4, 8), "f4")
    a = korch.InferenceSession(mlp.read_bytes()).run(["y"], {"x": x})[0]
    plan = korch.tune(mlp, tmp_path / "p.korch", budget=0)
    b = korch.InferenceSession((tmp_path / "p.korch").read_bytes()).run(["y"], {"x": x})[0]
    assert np.array_equal(a, b) and np.array_equal(a, plan.run({"x": x})["y"])
    assert korch.InferenceSession((tmp_path / "p.korch").read_bytes()).get_modelmeta().custom_metadata_map == {}


def test_arrays_that_are_copied_or_not(mlp):
    session = korch.InferenceSession(mlp)
    x = np.arange(32, dtype="f4").reshape(4, 8)
    want = session.run(["y"], {"x": x})[0]
    readonly = x.copy()
    readonly.flags.writeable = False
    unaligned = np.frombuffer(b"\0" + x.tobytes(), "u1")[1:].view("f4").reshape(4, 8)
    for same in (readonly, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], x.astype(">f4"), unaligned, x.tolist()):
        if isinstance(same, list):
            same = np.array(same, "f4")
        assert np.array_equal(session.run(["y"], {"x": same})[0], want)


def test_outputs_in_place(mlp):
    session = korch.InferenceSession(mlp)
    x, mine = np.ones((4, 8), "f4"), np.zeros((4, 5), "f4")
    y, _ = session.run(None, {"x": x}, out={"y": mine})
    assert y is mine and mine.any()


def test_io_binding(mlp):
    x, mine = np.ones((4, 8), "f4"), np.zeros((4, 5), "f4")
    results = {}
    for module in (korch, onnxruntime):
        session = module.InferenceSession(str(mlp))
        binding = session.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_output("s")
        binding.bind_output("y", "cpu", 0, np.float32, mine.shape, mine.ctypes.data)
        mine[:] = 0
        session.run_with_iobinding(binding)
        s, y = binding.copy_outputs_to_cpu()
        assert np.array_equal(y, mine) and y.any()
        assert np.array_equal(binding.get_outputs()[0].numpy(), s)
        value = module.OrtValue.ortvalue_from_numpy(x)
        assert value.shape() == [4, 8]
        assert np.array_equal(session.run_with_ort_values(["s"], {"x": value})[0].numpy(), s)
        results[module] = s, y
    for have, want in zip(*results.values()):
        np.testing.assert_allclose(have, want, rtol=1e-5)


def test_what_the_model_says_of_itself(mlp, tmp_path):
    m = onnx.load(mlp)
    m.producer_name, m.domain, m.model_version, m.doc_string = "tests", "org.korch", 7, "two lines\nof words"
    onnx.helper.set_model_props(m, {"names": "{0: 'cat'}", "stride": "32"})
    onnx.save(m, tmp_path / "m.onnx")
    have = korch.InferenceSession(tmp_path / "m.onnx").get_modelmeta()
    want = onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).get_modelmeta()
    for name in ("producer_name", "graph_name", "domain", "description", "graph_description", "version",
                 "custom_metadata_map"):
        assert getattr(have, name) == getattr(want, name), name
    assert have.custom_metadata_map["stride"] == "32"


def test_plans_of_another_folder(mlp, tmp_path):
    x = {"x": np.ones((4, 8), "f4")}
    korch.tune(mlp, tmp_path / "p.korch", budget=0, data=tmp_path / "data").run(x)
    with pytest.raises(korch.Untrusted) as e:
        korch.InferenceSession(tmp_path / "p.korch")
    assert "--trust" in str(e.value)
    for how in ({"trust": "any"}, {"trust": tmp_path / "data" / "sign.pub"}, {"data": tmp_path / "data"}):
        korch.InferenceSession(tmp_path / "p.korch", **how).run(None, x)
    korch.InferenceSession(mlp, data=tmp_path / "data").run(None, x)


def test_an_open_extent_takes_the_arrays(open_model):
    session = korch.InferenceSession(open_model)
    want = onnxruntime.InferenceSession(str(open_model))
    assert session.get_inputs()[0].shape == want.get_inputs()[0].shape == ["batch", 3]
    for n in (1, 4, 1):
        x = np.random.default_rng(n).standard_normal((n, 3)).astype("f4")
        np.testing.assert_allclose(session.run(None, {"x": x})[0], np.exp(x), rtol=1e-5)


def test_shapes_close_it(open_model):
    session = korch.InferenceSession(open_model, shapes={"batch": 7})
    assert session.get_inputs()[0].shape == [7, 3]


def test_two_sessions_in_threads(mlp):
    sessions = [korch.InferenceSession(mlp, threads=1) for _ in range(2)]
    x = [np.full((4, 8), k + 1, "f4") for k in range(2)]
    want = [s.run(["y"], {"x": a})[0] for s, a in zip(sessions, x)]
    wrong = []

    def many(s, a, w):
        for _ in range(300):
            if not np.array_equal(s.run(["y"], {"x": a})[0], w):
                wrong.append(1)

    # both sessions from both threads: runs of one take turns
    threads = [threading.Thread(target=many, args=(sessions[k], x[k], want[k])) for k in range(2) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("folder", small_models())
def test_small_models(folder):
    session, want = korch.InferenceSession(folder + "/model.onnx"), onnxruntime.InferenceSession(folder + "/model.onnx")
    x = {session.get_inputs()[0].name: read_pb(folder + "/test_data_set_0/input_0.pb")}
    for h, w in zip(session.run(None, x), want.run(None, x)):
        assert np.abs(h - w).max() <= 1e-4 * np.abs(w).max()
