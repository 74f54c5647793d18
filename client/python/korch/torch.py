"""torch.compile(model, backend="korch"): graphs of torch run by plans.

    model = torch.compile(model.eval(), backend="korch")
    with torch.inference_mode():
        y = model(x)

A graph is exported to ONNX with its parameters as constants (torch.onnx, which wants the packages onnx and onnxscript),
and opened as a session.  Tensors go in and come out by DLPack, without a copy.  Each set of shapes has a plan of its own.
What cannot be exported, what Korch does not know and what needs gradients runs eagerly, with one warning that says why.

Options, as torch.compile(..., options={"tune": "background"}): tune, budget, progress, threads, daemon, data, tolerance,
as for korch.InferenceSession.
"""

import contextlib
import logging
import os
import shutil
import tempfile
import warnings
import weakref

import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

from ._errors import Error, InvalidArgument
from .session import InferenceSession

_OPTIONS = {"tune", "budget", "progress", "threads", "daemon", "data", "tolerance"}
_MOST_PLANS = 8  # of one graph, for different shapes and weights


class EagerWarning(RuntimeWarning):
    """A graph that torch runs itself."""


class _Eager(Exception):
    """Why a graph stays torch's."""


def backend(graph, example_inputs, *, options=None, mode=None):
    """What torch calls; the entry point "korch" of the group torch_dynamo_backends."""
    del mode
    unknown = set(options or {}) - _OPTIONS
    if unknown:
        raise InvalidArgument(f"options: {', '.join(sorted(unknown))}: there are {', '.join(sorted(_OPTIONS))}")
    if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in example_inputs):
        _warn("it needs gradients; call it under torch.inference_mode() or torch.no_grad()")
        return graph.forward
    return _Graph(graph, example_inputs, options or {})


def _warn(why):
    warnings.warn(f"korch: torch runs this graph itself: {why}", EagerWarning, stacklevel=3)


# ---- a graph and its plans -------------------------------------------------------------------------------------------
class _Graph:
    """A graph of torch.compile: each call takes the plan for its shapes and weights, or makes it."""

    def __init__(self, graph, example_inputs, options):
        self._graph, self._options = graph, options
        # Dynamo lifts a module's parameters and buffers to inputs, and marks them.
        self._weights = [i for i, x in enumerate(example_inputs) if isinstance(x, torch.nn.Parameter) or
                         getattr(x, "_dynamo_static_input_type", None)]
        self._plans = []

    def __call__(self, *inputs):
        for plan in self._plans:
            if plan.fits(inputs):
                return plan.run(inputs)
        plan = self._make(inputs)
        self._plans = [plan, *self._plans[:_MOST_PLANS - 1]]
        return plan.run(inputs)

    def _make(self, inputs):
        fits = _Fits(inputs, self._weights)
        try:
            return _Plan(fits, self._graph, inputs, self._weights, self._options)
        except (_Eager, Error) as e:
            _warn(e)
            return _EagerPlan(fits, self._graph)


def _version(x):
    return 0 if x.is_inference() else x._version


class _Fits:
    """Do inputs have the weights, not changed in place since, and the shapes that a plan was made for?"""

    def __init__(self, inputs, weights):
        self._weights = [(i, weakref.ref(inputs[i]), _version(inputs[i])) for i in weights]
        self._shapes = [(i, _shape(x)) for i, x in enumerate(inputs) if i not in weights]

    def __call__(self, inputs):
        for i, weight, version in self._weights:
            x = inputs[i]
            if weight() is not x or _version(x) != version:
                return False
        for i, shape in self._shapes:
            if _shape(inputs[i]) != shape:
                return False
        return True


def _shape(x):
    return x.shape if isinstance(x, torch.Tensor) else x


class _EagerPlan:
    def __init__(self, fits, graph):
        self.fits, self._graph = fits, graph

    def run(self, inputs):
        return self._graph.forward(*inputs)


# ---- one plan ----------------------------------------------------------------------------------------------------------
class _Fixed(torch.nn.Module):
    """The graph as a function of the tensors that change, with the weights and numbers of one call."""

    def __init__(self, graph, inputs, places):
        super().__init__()
        self._graph, self._places = [graph], places  # in a list: it is no part of the exported module
        self._fixed = [x.detach() if isinstance(x, torch.Tensor) else x for x in inputs]
        for i, x in enumerate(self._fixed):
            if i not in places and isinstance(x, torch.Tensor):
                self.register_buffer(f"w{i}", x)

    def forward(self, *tensors):
        at = dict(zip(self._places, tensors))
        every = [at[i] if i in at else getattr(self, f"w{i}", x) for i, x in enumerate(self._fixed)]
        return tuple(y for y in pytree.tree_leaves(self._graph[0].forward(*every)) if isinstance(y, torch.Tensor))


class _Plan:
    """A session for one set of shapes and weights, and where each tensor of a call goes."""

    def __init__(self, fits, graph, inputs, weights, options):
        self.fits = fits
        self._places = [i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor) and i not in weights]
        self._device = _device_of(inputs)
        self._look(graph, inputs)
        folder = tempfile.mkdtemp(prefix="korch-torch-")
        remove = weakref.finalize(self, _remove, folder, os.getpid())
        path = os.path.join(folder, "graph.onnx")
        _export(_Fixed(graph, inputs, self._places), tuple(inputs[i].detach() for i in self._places), path)
        self._session = InferenceSession(path, **{
            "threads": torch.get_num_threads(), **options,
            "device": None if self._device.type == "cpu" else f"cuda:{self._device.index or 0}"})
        self._check(inputs)
        if options.get("tune") != "background":  # that reads the model again
            remove()

    def _look(self, graph, inputs):
        """What comes out: by a run of the graph on tensors without data."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        try:
            with torch.inference_mode(False), torch.no_grad(), FakeTensorMode():
                fakes = [_like(x) if isinstance(x, torch.Tensor) else x for x in inputs]
                leaves, self._tree = pytree.tree_flatten(graph.forward(*fakes))
        except Exception as e:  # an operator whose results hang on the data, or that needs them
            raise _Eager(f"its shapes cannot be told: {_root(e)}") from None
        tensors = [(i, x) for i, x in enumerate(fakes) if isinstance(x, torch.Tensor)]
        for i, x in tensors:
            if x._version:
                raise _Eager(f"it changes its input {_name(graph, i)} in place")
        places = {id(x.untyped_storage()): i for i, x in tensors}
        for y in leaves:
            if isinstance(y, torch.Tensor) and id(y.untyped_storage()) in places:
                raise _Eager(f"it gives back a view of its input {_name(graph, places[id(y.untyped_storage())])}")
        self._leaves = [(tuple(y.shape), y.dtype) if isinstance(y, torch.Tensor) else y for y in leaves]
        self._made = [i for i, y in enumerate(leaves) if isinstance(y, torch.Tensor)]
        if not self._made:
            raise _Eager("no tensor comes out of it")

    def _check(self, inputs):
        """The plan is of the tensors that torch has, whatever the way through ONNX made of them."""
        have, places = self._session.get_inputs(), {f"x{k}": i for k, i in enumerate(self._places)}
        self._feeds = [(a.name, places.get(a.name)) for a in have]
        for a, (name, i) in zip(have, self._feeds):
            if i is None:
                raise _Eager(f"the export made an input {name} of its own")
            if a.type != _onnx_type(inputs[i].dtype) or tuple(a.shape) != tuple(inputs[i].shape):
                raise _Eager(f"the export made {a.type} {a.shape} of its input {name}")
        have = self._session.get_outputs()
        if len(have) != len(self._made):
            raise _Eager(f"the export made {len(have)} outputs of {len(self._made)}")
        self._outputs = [(a.name, k, *self._leaves[k]) for a, k in zip(have, self._made)]
        for a, (_, _, shape, dtype) in zip(have, self._outputs):
            if a.type != _onnx_type(dtype) or tuple(a.shape) != shape:
                raise _Eager(f"the export made {a.type} {a.shape} of its output of {dtype} {list(shape)}")

    def run(self, inputs):
        feed = {}
        for name, i in self._feeds:
            x = inputs[i]
            if x.requires_grad:
                x = x.detach()
            feed[name] = x if x.is_contiguous() else x.contiguous()
        leaves = list(self._leaves)
        out = {}
        for name, k, shape, dtype in self._outputs:
            out[name] = leaves[k] = torch.empty(shape, dtype=dtype, device=self._device)
        self._session.run(None, feed, out=out)
        return pytree.tree_unflatten(leaves, self._tree)


def _like(x):
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)


def _remove(folder, owner):
    if os.getpid() == owner:  # and not a forked child, which ends with its parent's finalizers
        shutil.rmtree(folder, ignore_errors=True)


def _name(graph, i):
    return f"'{[n.name for n in graph.graph.nodes if n.op == 'placeholder'][i]}'"


def _device_of(inputs):
    found = {x.device for x in inputs if isinstance(x, torch.Tensor)}
    if len(found) != 1 or next(iter(found)).type not in ("cpu", "cuda"):
        raise _Eager(f"its tensors lie on {', '.join(sorted(map(str, found))) or 'no device'}; one CPU or GPU is needed")
    return found.pop()


_ONNX_TYPES = {torch.float32: "float", torch.float64: "double", torch.float16: "float16", torch.bfloat16: "bfloat16",
               torch.int8: "int8", torch.int16: "int16", torch.int32: "int32", torch.int64: "int64",
               torch.uint8: "uint8", torch.uint16: "uint16", torch.uint32: "uint32", torch.uint64: "uint64",
               torch.bool: "bool"}


def _onnx_type(dtype):
    return f"tensor({_ONNX_TYPES.get(dtype, dtype)})"


# ---- export --------------------------------------------------------------------------------------------------------------
def _encoder_layer(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
                   norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2,
                   ffn_bias_2, mask=None, mask_type=None):
    """torch.nn.TransformerEncoderLayer's one call (arguments as torch names them) in operators that ONNX has."""
    def norm(x, weight, bias):
        return F.layer_norm(x, (embed_dim,), weight, bias, eps)

    def attend(x):
        return _attention(x, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type)

    def feed_forward(x):
        x = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(x) if use_gelu else F.relu(x), ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attend(norm(src, norm_weight_1, norm_bias_1))
        return x + feed_forward(norm(x, norm_weight_2, norm_bias_2))
    x = norm(src + attend(src), norm_weight_1, norm_bias_1)
    return norm(x + feed_forward(x), norm_weight_2, norm_bias_2)


_OF_KEYS = 1  # torch's type of a mask [batch, keys]; others broadcast to [batch, heads, queries, keys]


def _attention(x, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type):
    batch, length, width = x.shape
    q, k, v = F.linear(x, qkv_weight, qkv_bias).view(batch, length, 3, num_heads, -1).permute(2, 0, 3, 1, 4).unbind()
    if mask is not None:
        mask = mask[:, None, None, :] if mask_type == _OF_KEYS else mask
        if mask.dtype == torch.bool:  # true: not looked at
            mask = torch.zeros_like(mask, dtype=x.dtype).masked_fill(mask, float("-inf"))
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return F.linear(y.transpose(1, 2).reshape(batch, length, width), proj_weight, proj_bias)


def _self_attention(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None,
                    need_weights=True, average_attn_weights=True, mask_type=None):
    """torch.nn.MultiheadAttention's one call, of a tensor with itself."""
    if need_weights or query is not key or key is not value:
        return NotImplemented
    return _attention(query, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type), None


# What torch computes in one call when it does not train, and torch.onnx does not know.
_APART = {torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer,
          torch.ops.aten._native_multi_head_attention.default: _self_attention}


@contextlib.contextmanager
def _quiet():
    """torch.onnx says which of its own parts are missing, and how it fared."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _export(module, tensors, path):
    """Writes the module as ONNX with inputs x0, x1, ... in the order of `tensors`."""
    try:
        import onnxscript  # noqa: F401  what torch.onnx needs
    except ImportError:
        raise _Eager("torch.onnx needs the package onnxscript: pip install onnxscript") from None
    try:
        with torch.no_grad(), _quiet():
            program = torch.export.export(module.eval(), tensors, strict=False).run_decompositions(_APART)
            changed = [*program.graph_signature.buffers_to_mutate.values(),
                       *program.graph_signature.user_inputs_to_mutate.values()]
            if changed:
                raise _Eager(f"it changes {changed[0]} in place")
            torch.onnx.export(program, f=path, dynamo=True, verbose=False, external_data=True,
                              input_names=[f"x{i}" for i in range(len(tensors))])
    except _Eager:
        raise
    except Exception as e:  # whatever torch's exporter meets: the graph still runs as torch runs it
        raise _Eager(f"torch.onnx cannot export it: {_root(e)}") from None


def _root(e):
    """The first line of what an error goes back to."""
    while e.__cause__ is not None:
        e = e.__cause__
    return (str(e).strip() or type(e).__name__).splitlines()[0]
