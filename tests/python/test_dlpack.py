"""Arrays of other libraries, by DLPack: in every layout and type, from every device, in and out."""

import capsule
import numpy as np
import onnx
import pytest
from conftest import model

import korch

X = np.arange(12, dtype="f4").reshape(3, 4)


def plan_of(tmp_path_factory, name, m):
    path = tmp_path_factory.mktemp(name) / f"{name}.onnx"
    onnx.save(m, path)
    return korch.InferenceSession(path)


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """y = x + x of f32[3,4]"""
    return plan_of(tmp_path_factory, "twice", model([("Add", ["x", "x"], ["y"], {})], {"x": ("f4", [3, 4])},
                                                    {"y": ("f4", [3, 4])}))


def wide():
    return np.repeat(X, 2, 1)[:, ::2]


def unaligned():
    return np.frombuffer(b"\0" + X.tobytes(), "u1")[1:].view("f4").reshape(3, 4)


@pytest.mark.parametrize("x,how", [
    (X, {}),
    (X, {"with_strides": False}),
    (X, {"device": capsule.CUDA_HOST}),
    (np.asfortranarray(X), {}),
    (wide(), {}),
    (X[::-1][::-1], {}),
    (np.broadcast_to(X[:1], (3, 4)), {}),
    (unaligned(), {}),
], ids=["dense", "no strides", "pinned", "columns first", "gaps", "twice reversed", "broadcast", "unaligned"])
def test_inputs(twice, x, how):
    array = capsule.Array(x, **how)
    assert np.array_equal(twice.run(None, {"x": array})[0], x + x)
    assert array.asked == 1


def test_reversed_input(twice):
    assert np.array_equal(twice.run(None, {"x": capsule.Array(X[::-1, ::-1])})[0], 2 * X[::-1, ::-1])


@pytest.mark.parametrize("x,how,words", [
    (X, {"device": capsule.CUDA}, "input 'x' lies in the memory of a device: a plan for the CPU wants it in the host's"),
    (X.astype("f8"), {}, "of type float32; an array of float64 was given"),
    (X[:2], {}, "has the shape [3, 4]; an array of [2, 4] was given"),
], ids=["GPU", "type", "shape"])
def test_refused_inputs(twice, x, how, words):
    with pytest.raises(korch.InvalidArgument) as e:
        twice.run(None, {"x": capsule.Array(x, **how)})
    assert words in str(e.value)


def test_an_array_whose_library_refuses(twice):
    class Refuses(capsule.Array):
        def __dlpack__(self, **how):
            raise BufferError("it needs gradients")

    with pytest.raises(korch.InvalidArgument) as e:
        twice.run(None, {"x": Refuses(X)})
    assert "input 'x' cannot be read as an array: it needs gradients" in str(e.value)


def test_outputs(twice):
    mine = np.zeros((3, 4), "f4")
    array = capsule.Array(mine)
    y, = twice.run(None, {"x": X}, out={"y": array})
    assert y is array and np.array_equal(mine, X + X)


def test_outputs_elsewhere(twice):
    with pytest.raises(korch.InvalidArgument) as e:
        twice.run(None, {"x": X}, out={"y": capsule.Array(X.copy(), device=capsule.CUDA)})
    assert "output 'y' lies in the memory of a device" in str(e.value)
    mine = np.zeros((3, 8), "f4")
    with pytest.raises(korch.InvalidArgument):
        twice.run(None, {"x": X}, out={"y": capsule.Array(mine[:, ::2])})
    assert not mine.any()


def test_results_are_handed_on_without_a_copy(twice):
    y, = twice.run(None, {"x": X})
    assert np.shares_memory(np.from_dlpack(y), y)


@pytest.mark.parametrize("kind", ["f8", "f2", "i4", "i8"])
def test_types(tmp_path_factory, kind):
    session = plan_of(tmp_path_factory, kind, model([("Add", ["x", "x"], ["y"], {})], {"x": (kind, [3, 4])},
                                                    {"y": (kind, [3, 4])}))
    x = X.astype(kind)
    for array in (capsule.Array(x), capsule.Array(x.T.copy().T)):
        assert np.array_equal(session.run(None, {"x": array})[0], x + x)


def test_bool(tmp_path_factory):
    session = plan_of(tmp_path_factory, "bool", model([("Not", ["x"], ["y"], {})], {"x": ("?", [3, 4])},
                                                      {"y": ("?", [3, 4])}))
    assert np.array_equal(session.run(None, {"x": capsule.Array(X > 5)})[0], X <= 5)


def bfloat_model():
    m = model([("Neg", ["x"], ["y"], {})], {"x": ("f4", [3, 4])}, {"y": ("f4", [3, 4])})
    for port in (m.graph.input[0], m.graph.output[0]):
        port.type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16
    return m


def test_bfloat16(tmp_path_factory):
    import ml_dtypes

    session = plan_of(tmp_path_factory, "bf16", bfloat_model())
    bits, want = capsule.bf16(X), capsule.bf16(-X)
    for same in (bits, bits.view(ml_dtypes.bfloat16), capsule.Array(bits, code=capsule.BFLOAT),
                 capsule.Array(np.asfortranarray(bits), code=capsule.BFLOAT)):
        assert np.array_equal(session.run(None, {"x": same})[0], want)
    with pytest.raises(korch.InvalidArgument):
        session.run(None, {"x": X})


def test_nothing_in_it(tmp_path_factory):
    session = plan_of(tmp_path_factory, "none", model([("Add", ["x", "x"], ["y"], {})], {"x": ("f4", [0, 4])},
                                                      {"y": ("f4", [0, 4])}))
    none = np.empty((0, 4), "f4")
    for x in (none, capsule.Array(none), capsule.Array(none, with_strides=False)):
        assert session.run(None, {"x": x}, out={"y": capsule.Array(none.copy())})[0].shape == (0, 4)


N = 40


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """y = x0 + x1 + ..., more inputs than a call has room for on its stack"""
    names = [f"x{i}" for i in range(N)]
    return plan_of(tmp_path_factory, "many", model([("Sum", names, ["y"], {})], {n: ("f4", [3, 4]) for n in names},
                                                   {"y": ("f4", [3, 4])}))


@pytest.mark.parametrize("make", [unaligned, lambda: X.astype(">f4"), lambda: capsule.Array(wide())],
                         ids=["unaligned", "other byte order", "gaps"])
def test_many_that_are_copied(many, make):
    for _ in range(20):
        y, = many.run(None, {f"x{i}": make() for i in range(N)})
    assert np.array_equal(y, N * X)
