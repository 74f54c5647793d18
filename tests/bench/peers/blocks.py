"""Blocks and single operators, as ONNX files.

A block that convolutions make up is written twice, once and four times in a row: a third of the difference
is what one more layer costs, and nobody is charged for the change of layout at the model's ends."""

import os
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    def __init__(self, name):
        self.name, self.nodes, self.weights, self.inputs, self.n = name, [], [], [], 0

    def op(self, kind, *ins, **at):
        self.n += 1
        out = f"t{self.n}"
        self.nodes.append(helper.make_node(kind, list(ins), [out], **at))
        return out

    def input(self, *shape):
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def const(self, value):
        self.n += 1
        self.weights.append(numpy_helper.from_array(np.asarray(value), f"c{self.n}"))
        return f"c{self.n}"

    def weight(self, *shape, scale=None, mean=0):
        r = np.random.default_rng(zlib.crc32(f"{self.name}/{self.n}".encode()))
        fan = np.prod(shape[1:]) if len(shape) > 1 else 100
        v = mean + r.standard_normal(shape) * (scale or np.sqrt(1.0 / fan))
        return self.const(v.astype(np.float32))

    def ints(self, *v):
        return self.const(np.array(v, np.int64))

    def num(self, v):
        return self.const(np.float32(v))

    def conv(self, x, ci, co, k, s=1, g=1, p=None):
        p = k // 2 if p is None else p
        return self.op("Conv", x, self.weight(co, ci // g, k, k), self.weight(co), kernel_shape=[k, k],
                       strides=[s, s], pads=[p] * 4, group=g)

    def linear(self, x, ci, co):
        w = self.weight(co, ci)
        self.weights[-1].CopyFrom(numpy_helper.from_array(numpy_helper.to_array(self.weights[-1]).T.copy(), w))
        return self.op("Add", self.op("MatMul", x, w), self.weight(co))

    def mish(self, x):
        return self.op("Mul", x, self.op("Tanh", self.op("Softplus", x)))

    def silu(self, x):
        return self.op("Mul", x, self.op("Sigmoid", x))

    def gelu(self, x):
        e = self.op("Add", self.op("Erf", self.op("Div", x, self.num(np.sqrt(2)))), self.num(1))
        return self.op("Mul", self.op("Mul", x, e), self.num(0.5))

    def norm(self, x, c):
        return self.op("LayerNormalization", x, self.weight(c, scale=0.1, mean=1), self.weight(c), axis=-1, epsilon=1e-6)

    def save(self, path, *outputs):
        outs = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
        g = helper.make_graph(self.nodes, self.name, self.inputs, outs, self.weights)
        m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(onnx.shape_inference.infer_shapes(m))
        onnx.save(onnx.shape_inference.infer_shapes(m), path)


# ---- what one more layer is: f(net, x) -> x of the same shape ------------------------------------
def conv_relu(c, k=3):
    return lambda n, x: n.op("Relu", n.conv(x, c, c, k))


def conv_silu(c):
    return lambda n, x: n.silu(n.conv(x, c, c, 1))


def candy(c):
    def f(n, x):
        x = n.op("Pad", x, n.ints(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect")
        x = n.conv(x, c, c, 3, p=0)
        return n.op("Relu", n.op("InstanceNormalization", x, n.weight(c, scale=0.1, mean=1), n.weight(c)))
    return f


def depthwise(c, k):
    return lambda n, x: n.op("HardSwish", n.conv(x, c, c, k, g=c))


def groups(c, g, k):
    return lambda n, x: n.op("Relu", n.conv(x, c, c, k, g=g))


def mbconv(c, k):
    def f(n, x):
        y = n.op("HardSwish", n.conv(x, c, 4 * c, 1))
        y = n.op("HardSwish", n.conv(y, 4 * c, 4 * c, k, g=4 * c))
        return n.op("Add", x, n.conv(y, 4 * c, c, 1))
    return f


def yolo_unit(c):
    def f(n, x):
        return n.op("Add", x, n.mish(n.conv(n.mish(n.conv(x, c, c // 2, 1)), c // 2, c, 3)))
    return f


def linear_attention(c, size, dim=16):
    def f(n, x):
        qkv = n.conv(x, c, 3 * c, 1)
        more = n.conv(n.conv(qkv, 3 * c, 3 * c, 5, g=3 * c), 3 * c, 3 * c, 1, g=3 * c // dim)
        y = n.op("Reshape", n.op("Concat", qkv, more, axis=1), n.ints(1, 2 * c // dim, 3 * dim, size * size))
        q, k, v = (n.op("Slice", y, n.ints(dim * i), n.ints(dim * (i + 1)), n.ints(2)) for i in range(3))
        q, k = n.op("Relu", q), n.op("Relu", k)
        v = n.op("Pad", v, n.ints(0, 0, 0, 0, 0, 0, 1, 0), n.num(1))
        y = n.op("MatMul", n.op("MatMul", v, n.op("Transpose", k, perm=[0, 1, 3, 2])), q)
        top = n.op("Slice", y, n.ints(0), n.ints(dim), n.ints(2))
        low = n.op("Slice", y, n.ints(dim), n.ints(dim + 1), n.ints(2))
        y = n.op("Reshape", n.op("Div", top, n.op("Add", low, n.num(1e-5))), n.ints(1, 2 * c, size, size))
        return n.op("Add", x, n.conv(y, 2 * c, c, 1))
    return f


def segformer(d, size, heads, reduce):
    """One encoder block over tokens [1, size*size, d]."""
    t, dim, m = size * size, d // heads, (size // reduce) ** 2

    def image(n, x, c, s):
        return n.op("Reshape", n.op("Transpose", x, perm=[0, 2, 1]), n.ints(1, c, s, s))

    def tokens(n, x, c, count):
        return n.op("Transpose", n.op("Reshape", x, n.ints(1, c, count)), perm=[0, 2, 1])

    def split(n, x, count, perm):
        return n.op("Transpose", n.op("Reshape", x, n.ints(1, count, heads, dim)), perm=perm)

    def f(n, x):
        y = n.norm(x, d)
        r = n.op("Conv", image(n, y, d, size), n.weight(d, d, reduce, reduce), n.weight(d),
                 kernel_shape=[reduce] * 2, strides=[reduce] * 2)
        r = n.norm(tokens(n, r, d, m), d)
        q = split(n, n.linear(y, d, d), t, [0, 2, 1, 3])
        k, v = split(n, n.linear(r, d, d), m, [0, 2, 3, 1]), split(n, n.linear(r, d, d), m, [0, 2, 1, 3])
        a = n.op("Softmax", n.op("Mul", n.op("MatMul", q, k), n.num(dim ** -0.5)), axis=-1)
        a = n.op("Reshape", n.op("Transpose", n.op("MatMul", a, v), perm=[0, 2, 1, 3]), n.ints(1, t, d))
        x = n.op("Add", x, n.linear(a, d, d))
        y = n.linear(n.norm(x, d), d, 4 * d)
        y = n.gelu(tokens(n, n.conv(image(n, y, 4 * d, size), 4 * d, 4 * d, 3, g=4 * d), 4 * d, t))
        return n.op("Add", x, n.linear(y, 4 * d, d))
    return f


def decoder(path):
    n, ups = Net("decoder"), []
    for c, s in ((32, 128), (64, 64), (160, 32), (256, 16)):
        x = n.conv(n.input(1, c, s, s), c, 256, 1)
        ups.append(x if s == 128 else n.op("Resize", x, "", "", n.ints(1, 256, 128, 128), mode="linear",
                                           coordinate_transformation_mode="half_pixel"))
    n.save(path, n.conv(n.op("Relu", n.conv(n.op("Concat", *reversed(ups), axis=1), 1024, 256, 1)), 256, 150, 1))


# name, f, shape, must, stretch; must against the best peer, with '/unfused' against our own one-kernel-per-operator plan
CHAINS = [
    ("conv3x3 64@56 ReLU", conv_relu(64), (1, 64, 56, 56), 2.2, 2.7),
    ("conv3x3 128@28 ReLU", conv_relu(128), (1, 128, 28, 28), 2.2, 2.7),
    ("conv3x3 256@14 ReLU", conv_relu(256), (1, 256, 14, 14), 0.93, 2.3),
    ("conv1x1 128@28 SiLU", conv_silu(128), (1, 128, 28, 28), 0.93, 1.05),
    ("conv1x1 64@80 SiLU", conv_silu(64), (1, 64, 80, 80), 0.93, 1.1),
    ("Candy layer 32@224", candy(32), (1, 32, 224, 224), 2.0, 2.5),
    ("Candy layer 128@56", candy(128), (1, 128, 56, 56), 2.5, 3.1),
    ("dw3x3 96@56 HardSwish", depthwise(96, 3), (1, 96, 56, 56), 1.1, 1.3),
    ("dw5x5 192@28 HardSwish", depthwise(192, 5), (1, 192, 28, 28), 1.1, 1.3),
    ("dw3x3 64@112 HardSwish", depthwise(64, 3), (1, 64, 112, 112), 0.9, 1.3),
    ("gconv1x1 136@28 of 4 ReLU", groups(136, 4, 1), (1, 136, 28, 28), 1.0, 1.5),
    ("gconv1x1 272@14 of 4 ReLU", groups(272, 4, 1), (1, 272, 14, 14), 1.0, 1.5),
    ("gconv3x3 272@14 of 4 ReLU", groups(272, 4, 3), (1, 272, 14, 14), 1.0, 1.5),
    ("MBConv 32@56", mbconv(32, 3), (1, 32, 56, 56), 1.15, 1.35),
    ("MBConv 64@28", mbconv(64, 5), (1, 64, 28, 28), 1.0, 1.35),
    ("MBConv 32@224 /unfused", mbconv(32, 3), (1, 32, 224, 224), 1.3, 1.6),
    ("EfficientViT linear attention 64@32", linear_attention(64, 32), (1, 64, 32, 32), 1.5, 2.0),
    ("Segformer block 1", segformer(32, 128, 1, 8), (1, 16384, 32), 1.15, 1.3),
    ("Segformer block 2", segformer(64, 64, 2, 4), (1, 4096, 64), 1.15, 1.3),
    ("Segformer block 3", segformer(160, 32, 5, 2), (1, 1024, 160), 1.15, 1.3),
    ("YOLOv4 unit 64@76", yolo_unit(64), (1, 64, 76, 76), 1.4, 2.0),
    ("YOLOv4 unit 128@38", yolo_unit(128), (1, 128, 38, 38), 1.4, 2.0),
]
SINGLES = [
    ("Mish 1M", Net.mish, (1, 64, 128, 128), 1.0, 1.5),
    ("GELU 1M", Net.gelu, (1, 4096, 256), 1.0, 1.5),
    ("SiLU 1M", Net.silu, (1, 64, 128, 128), 1.0, 1.5),
    ("LRN 192@55", lambda n, x: n.op("LRN", x, size=5, alpha=1e-4, beta=0.75), (1, 192, 55, 55), 1.0, 1.5),
    ("power 1M", lambda n, x: n.op("Pow", n.op("Abs", x), n.num(1.7)), (1, 64, 128, 128), 1.0, 1.5),
    ("LayerNorm 16384x32", lambda n, x: n.norm(x, 32), (1, 16384, 32), 1.0, 1.5),
    ("LayerNorm 1024x160", lambda n, x: n.norm(x, 160), (1, 1024, 160), 1.0, 1.5),
    ("softmax 16384x256", lambda n, x: n.op("Softmax", x, axis=-1), (1, 16384, 256), 1.0, 1.5),
    ("softmax 1024x256", lambda n, x: n.op("Softmax", x, axis=-1), (1, 1024, 256), 1.0, 1.5),
]
NAMES = [c[0] for c in CHAINS] + ["Segformer decoder"] + [c[0] for c in SINGLES]


def make(folder, name):
    """(files, must, stretch): one file, or the block four times and once."""
    base = os.path.join(folder, "".join(c if c.isalnum() else "_" for c in name))
    if name == "Segformer decoder":
        decoder(base + ".onnx")
        return [base + ".onnx"], 5.0, 9.0
    for title, f, shape, must, stretch in SINGLES:
        if title == name:
            n = Net(name)
            n.save(base + ".onnx", f(n, n.input(*shape)))
            return [base + ".onnx"], must, stretch
    for title, f, shape, must, stretch in CHAINS:
        if title == name:
            for times in (4, 1):
                n = Net(name)
                x = n.input(*shape)
                for _ in range(times):
                    x = f(n, x)
                n.save(f"{base}.{times}.onnx", x)
            return [f"{base}.4.onnx", f"{base}.1.onnx"], must, stretch
    raise KeyError(name)
