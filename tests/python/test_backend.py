"""korch.backend by ONNX's own runner of node tests, and its functions by hand."""

import warnings

import numpy as np
import onnx
import onnx.backend.test
import pytest
from conftest import model
from onnx import TensorProto, helper

import korch
import korch.backend

# A test or two of each kind: elementwise, reductions, products, windows, layouts, shapes that come as inputs, types.
CHOSEN = ("add", "add_bcast", "and2d", "argmax_default_axis_example", "averagepool_2d_default",
          "basic_conv_with_padding", "cast_FLOAT_to_DOUBLE", "cast_FLOAT_to_BFLOAT16", "clip_example", "concat_2d_axis_0",
          "convtranspose", "cumsum_1d", "einsum_transpose", "expand_dim_changed", "flatten_axis1", "gather_0",
          "gemm_all_attributes", "globalaveragepool", "layer_normalization_2d_axis0", "logsoftmax_axis_1", "matmul_3d",
          "maxpool_2d_strides", "mod_mixed_sign_int32", "not_3d", "pow_types_float32_int64", "reduce_sum_keepdims_example",
          "relu", "reshape_negative_dim", "sigmoid_example", "slice", "softmax_large_number", "split_equal_parts_1d_opset13",
          "squeeze", "tile", "transpose_default", "unsqueeze_axis_0", "where_example", "bitwise_and_i32_2d")


def chosen_cases():
    """ONNX's test case with the chosen tests: of the others it would say that each is skipped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the runner computes all its references, overflows among them
        case = onnx.backend.test.BackendTest(korch.backend, __name__).test_cases["OnnxBackendNodeModelTest"]
    for name in [n for n in dir(case) if n.startswith("test_")]:
        if name not in {f"test_{n}_cpu" for n in CHOSEN}:
            delattr(case, name)
    return case


OnnxBackendNodeModelTest = chosen_cases()


def test_the_runner_has_them_all():
    assert {n for n in dir(OnnxBackendNodeModelTest) if n.startswith("test_")} == {f"test_{n}_cpu" for n in CHOSEN}


X = np.arange(6, dtype="f4").reshape(2, 3)


def test_model():
    m = model([("Relu", ["x"], ["y"], {}), ("Neg", ["y"], ["z"], {})], {"x": ("f4", [2, 3])},
              {"y": ("f4", [2, 3]), "z": ("f4", [2, 3])})
    rep = korch.backend.prepare(m)
    for inputs in ([X], (X,), X, {"x": X}):
        out = rep.run(inputs)
        assert np.array_equal(out[0], X) and np.array_equal(out.z, -X) and np.array_equal(out["z"], -X)
    assert np.array_equal(korch.backend.run_model(m, [X]).y, X)
    with pytest.raises(korch.InvalidArgument) as e:
        rep.run([X, X])
    assert "2 arrays were given for 1 inputs" in str(e.value)


def test_node():
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])
    assert np.array_equal(korch.backend.run_node(node, [X]).y, X.T)
    assert np.array_equal(korch.backend.run_node(node, [X], outputs_info=[(np.float32, (3, 2))])[0], X.T)
    node = helper.make_node("ReduceMax", ["x"], ["y"], axes=[0], keepdims=0)
    assert np.array_equal(korch.backend.run_node(node, [X], opset_version=11).y, X.max(0))


def test_values_that_shapes_hang_on():
    m = model([("Reshape", ["x", "shape"], ["y"], {})], {"x": ("f4", [2, 3]), "shape": ("i8", [2])},
              {"y": ("f4", [None, None])})
    rep = korch.backend.prepare(m)
    for shape in ([3, 2], [6, 1], [-1, 3], [3, 2]):
        assert np.array_equal(rep.run([X, np.array(shape)]).y, X.reshape(shape))


def test_devices():
    assert korch.backend.supports_device("CPU") and korch.backend.supports_device("CUDA:1")
    assert not korch.backend.supports_device("TPU") and not korch.backend.supports_device("CUDA:x")
    with pytest.raises(korch.Error) as e:  # where there is a GPU and its driver, this finds it
        korch.backend.prepare(model([("Exp", ["x"], ["y"], {})], {"x": ("f4", [2])}, {"y": ("f4", [2])}), "TPU")
    assert "device 'TPU': CPU or CUDA" in str(e.value)


def test_what_cannot_be():
    value = helper.make_tensor_value_info
    ports = [value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])]
    strange = helper.make_model(helper.make_graph([helper.make_node("Strange", ["x"], ["y"], domain="my")], "g", *ports),
                                opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("my", 1)])
    assert not korch.backend.is_compatible(strange)
    wrong = model([("Dropout", ["x", "ratio", "trains"], ["y"], {})], {"x": ("f4", [2])}, {"y": ("f4", [2])},
                  {"ratio": np.float32(0.5), "trains": np.array(True)})
    assert not korch.backend.is_compatible(wrong)
    assert korch.backend.is_compatible(model([("Exp", ["x"], ["y"], {})], {"x": ("f4", [2])}, {"y": ("f4", [2])}))
    with pytest.raises(korch.InvalidFile) as e:
        korch.backend.prepare(strange)
    assert "Strange" in str(e.value)
    damaged = model([("Exp", ["x"], ["y"], {})], {"x": ("f4", [2])}, {"y": ("f4", [2])})
    damaged.graph.node[0].op_type = "Nothing"
    with pytest.raises(onnx.checker.ValidationError):
        korch.backend.prepare(damaged)
