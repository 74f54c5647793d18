"""Korch as a backend of the package onnx: korch.backend.prepare(model).run(inputs), run_model, run_node.

    import korch.backend
    korch.backend.run_model(onnx.load("m.onnx"), [x])

Wants the package onnx.  A model is run by the plan that can be had at once (korch.tune finds better ones).
"""

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.shape_inference
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from . import tuning
from ._errors import Error, InvalidArgument
from .session import InferenceSession

_KINDS = {DeviceType.CPU: None, DeviceType.CUDA: "cuda"}
_SMALL = 256  # elements of an input that may be a shape, axes, sizes: what becomes a constant of the plan
_KEPT = 8     # plans for different constants


def _korch_device(device):
    if not KorchBackend.supports_device(device):
        raise InvalidArgument(f"device {device!r}: CPU or CUDA")
    d = Device(device)
    kind = _KINDS[d.type]
    return f"{kind}:{d.device_id}" if kind and d.device_id else kind


class KorchRep(BackendRep):
    """A model that is ready to run.

    Inputs on which shapes hang (those of Reshape, axes, sizes) are constants of a plan: such a model gets a plan for
    each set of them that it meets.
    """

    def __init__(self, model, **settings):
        self._bytes = model.SerializeToString()
        self._settings = settings
        weights = {w.name for w in model.graph.initializer}
        self._inputs = [i for i in model.graph.input if i.name not in weights]
        self._constants = [i.name for i in self._inputs if _may_be_constant(i)]
        self._sessions = {}
        self._session = None
        try:
            self._session = self._open({})
        except Error:
            if not self._constants:
                raise

    def _open(self, values):
        return InferenceSession(self._bytes, values=values, **self._settings)

    def _session_of(self, feed):
        """The session, and what of the feed it still wants."""
        if self._session is not None:
            return self._session, feed
        values = {n: np.asarray(feed[n]) for n in self._constants if np.asarray(feed[n]).size <= _SMALL}
        key = tuple((n, v.shape, v.tobytes()) for n, v in values.items())
        if key not in self._sessions:
            while len(self._sessions) >= _KEPT:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[key] = self._open(values)
        return self._sessions[key], {n: x for n, x in feed.items() if n not in values}

    def run(self, inputs, **kwargs):
        """The outputs, as a tuple with their names as fields."""
        session, feed = self._session_of(self._feed(inputs))
        names = [o.name for o in session.get_outputs()]
        arrays = session.run(None, feed)
        return namedtupledict("Outputs", names)(
            *(_of_kind(o.type, x) for o, x in zip(session.get_outputs(), arrays)))

    def _feed(self, inputs):
        if isinstance(inputs, dict):
            return dict(inputs)
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if len(inputs) != len(self._inputs):
            raise InvalidArgument(f"{len(inputs)} arrays were given for {len(self._inputs)} inputs")
        return {i.name: x for i, x in zip(self._inputs, inputs)}


def _may_be_constant(info):
    t = info.type.tensor_type
    return t.elem_type in (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.BOOL) and \
        len(t.shape.dim) <= 1


def _of_kind(kind, x):
    """bfloat16 has no name in numpy: the package that onnx has it from does."""
    if kind != "tensor(bfloat16)":
        return x
    import ml_dtypes

    return x.view(ml_dtypes.bfloat16)


class KorchBackend(Backend):
    """The functions of onnx.backend."""

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        """Has it only operators that Korch knows, and in ways that it knows, as far as they can be told?"""
        if not cls.supports_device(device):
            return False
        path = tuning.temporary_plan()
        try:
            onnx.save(model, path, format="protobuf")
            said = tuning.check(path, **kwargs)
            hangs = any(x["open"] for x in said["inputs"]) or any(map(_may_be_constant, model.graph.input))
            return said["would_tune"] or (hangs and not said["unsupported"])
        except Error:
            return False
        finally:
            tuning.drop_temporary(path)

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        """kwargs are those of korch.InferenceSession."""
        super().prepare(model, device, **kwargs)  # checks the model
        return KorchRep(model, device=_korch_device(device), **kwargs)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        """outputs_info: [(numpy type, shape)] of the outputs, where they cannot be inferred."""
        super().run_node(node, inputs, device, outputs_info, **kwargs)  # checks the node
        return cls.run_model(_model_of_node(node, inputs, outputs_info, kwargs.pop("opset_version", None)), inputs,
                             device, **kwargs)

    @classmethod
    def supports_device(cls, device):
        """By its kind alone: a GPU is looked for when a model is prepared."""
        try:
            return Device(device).type in _KINDS
        except (AttributeError, ValueError):
            return False


def _info(name, x):
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)


def _model_of_node(node, inputs, outputs_info, opset):
    names = [n for n in node.input if n]
    inputs = [np.asarray(x) for x in inputs]
    if len(names) != len(inputs):
        raise InvalidArgument(f"{len(inputs)} arrays were given for {len(names)} inputs of {node.op_type}")
    if outputs_info:
        outputs = [onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(t)), shape)
                   for n, (t, shape) in zip(node.output, outputs_info)]
    else:
        outputs = [onnx.helper.make_empty_tensor_value_info(n) for n in node.output if n]
    graph = onnx.helper.make_graph([node], "node", [_info(n, x) for n, x in zip(names, inputs)], outputs)
    opsets = [onnx.helper.make_opsetid(node.domain, opset or onnx.defs.onnx_opset_version())]
    model = onnx.helper.make_model(graph, opset_imports=opsets)
    return model if outputs_info else onnx.shape_inference.infer_shapes(model, data_prop=True)


is_compatible = KorchBackend.is_compatible
prepare = KorchBackend.prepare
run_model = KorchBackend.run_model
run_node = KorchBackend.run_node
supports_device = KorchBackend.supports_device
