"""The blocks of blocks.py as torch modules, for Inductor: their operators, and no others."""

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper


def conv(at, x, w, b=None):
    p = at.get("pads", [0, 0, 0, 0])
    if p[0] != p[2] or p[1] != p[3]:
        raise ValueError("pads differ at both ends")
    return F.conv2d(x, w, b, at.get("strides", 1), p[:2], at.get("dilations", 1), at.get("group", 1))


def pad(at, x, pads, value=None):
    n = x.dim()
    p = [int(v) for v in pads]
    flat = [v for d in reversed(range(n)) for v in (p[d], p[n + d])]
    while len(flat) > 2 and flat[-1] == flat[-2] == 0:
        flat = flat[:-2]
    mode = at.get("mode", "constant")
    return F.pad(x, flat, mode, float(value) if mode == "constant" and value is not None else None)


def cut(at, x, start, end, axes):
    for s, e, a in zip(start.tolist(), end.tolist(), axes.tolist()):
        x = x.narrow(a, s, min(e, x.shape[a]) - s)
    return x


OPS = {
    "Conv": conv, "Pad": pad, "Slice": cut,
    "Relu": lambda at, x: F.relu(x), "Sigmoid": lambda at, x: torch.sigmoid(x),
    "HardSwish": lambda at, x: F.hardswish(x), "Softplus": lambda at, x: F.softplus(x),
    "Tanh": lambda at, x: torch.tanh(x), "Erf": lambda at, x: torch.erf(x),
    "Add": lambda at, x, y: x + y, "Mul": lambda at, x, y: x * y, "Div": lambda at, x, y: x / y,
    "MatMul": lambda at, x, y: x @ y,
    "Softmax": lambda at, x: torch.softmax(x, at.get("axis", -1)),
    "Transpose": lambda at, x: x.permute(at["perm"]),
    "Reshape": lambda at, x, s: x.reshape(s.tolist()),
    "Concat": lambda at, *x: torch.cat(x, at["axis"]),
    "InstanceNormalization": lambda at, x, g, b: F.instance_norm(x, weight=g, bias=b, eps=at.get("epsilon", 1e-5)),
    "LayerNormalization": lambda at, x, g, b: F.layer_norm(x, g.shape, g, b, at.get("epsilon", 1e-5)),
    "Resize": lambda at, x, roi, scales, sizes: F.interpolate(x, sizes.tolist()[2:], mode="bilinear", align_corners=False),
}


class Module(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        g = model.graph
        self.inputs = [(i.name, [d.dim_value for d in i.type.tensor_type.shape.dim]) for i in g.input]
        self.outputs = [o.name for o in g.output]
        self.shapes = {}  # integers stay outside of the module: they are part of the code
        for t in g.initializer:
            v = np.array(numpy_helper.to_array(t))
            if v.dtype == np.float32:
                self.register_buffer("w_" + t.name, torch.from_numpy(v))
            else:
                self.shapes[t.name] = torch.from_numpy(v)
        self.steps = [(n.op_type, {a.name: onnx.helper.get_attribute_value(a) for a in n.attribute},
                       list(n.input), n.output[0]) for n in g.node]
        for _, at, _, _ in self.steps:
            at.update({k: v.decode() for k, v in at.items() if isinstance(v, bytes)})

    def forward(self, *xs):
        have = {name: x for (name, _), x in zip(self.inputs, xs)}
        have.update(self.shapes)
        for op, at, ins, out in self.steps:
            args = [have[i] if i in have else getattr(self, "w_" + i) if i else None for i in ins]
            have[out] = OPS[op](at, *args)
        return [have[o] for o in self.outputs]
