"""ONNX files written by hand, for what the package onnx would refuse to write and without needing it.

    onnx_write.py FOLDER    writes the models of check_model.sh there"""

import struct
import sys

F32, I64, BOOL = 1, 7, 9


def varint(v):
    v &= (1 << 64) - 1
    out = b""
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def num(field, v):
    return varint(field << 3) + varint(v)


def part(field, v):
    v = v.encode() if isinstance(v, str) else v
    return varint(field << 3 | 2) + varint(len(v)) + v


def value(name, kind, dims):
    """dims: numbers, names of open extents, None for one without a name; or None: no shape at all."""
    t = num(1, kind)
    if dims is not None:
        t += part(2, b"".join(part(1, num(1, d) if isinstance(d, int) else part(2, d) if d else b"") for d in dims))
    return part(1, name) + part(2, part(1, t))


def tensor(name, kind, dims, values):
    raw = struct.pack("<%d%s" % (len(values), {F32: "f", I64: "q", BOOL: "?"}[kind]), *values)
    return b"".join(num(1, d) for d in dims) + num(2, kind) + part(8, name) + part(9, raw)


def node(op, ins, outs, name="", domain="", graphs=None, **ints):
    n = b"".join(part(1, i) for i in ins) + b"".join(part(2, o) for o in outs) + part(3, name) + part(4, op)
    for key, g in (graphs or {}).items():
        n += part(5, part(1, key) + part(6, g) + num(20, 5))
    for key, v in ints.items():
        n += part(5, part(1, key) + num(3, v) + num(20, 2))
    return n + (part(7, domain) if domain else b"")


def graph(nodes, outputs, inputs=(), tensors=()):
    return (b"".join(part(1, n) for n in nodes) + part(2, "g") + b"".join(part(5, t) for t in tensors) +
            b"".join(part(11, i) for i in inputs) + b"".join(part(12, o) for o in outputs))


def model(g, opset=16, domains=()):
    return (num(1, 8) + part(7, g) + part(8, num(2, opset)) +
            b"".join(part(8, part(1, d) + num(2, 1)) for d in domains))


def voice():
    """Which branch runs hangs on the sample rate, and their results have other shapes."""
    wide = graph([node("Add", ["x", "x"], ["w"], "wide_add")], [value("w", F32, None)])
    narrow = graph([node("ReduceMax", ["x"], ["n"], "narrow_max", keepdims=0)], [value("n", F32, None)])
    nodes = [node("Equal", ["sr", "k"], ["is_wide"], "is_wide"),
             node("If", ["is_wide"], ["y"], "pick", graphs={"then_branch": wide, "else_branch": narrow})]
    return model(graph(nodes, [value("y", F32, None)], [value("x", F32, ["batch", "samples"]), value("sr", I64, [])],
                       [tensor("k", I64, [], [16000])]))


def foreign():
    """Operators of others, one that does not exist, one that comes later, and two open inputs."""
    nodes = [node("FusedConv", ["image", "w"], ["a0"], "conv0", "com.microsoft")]
    nodes += [node("FusedConv", ["a%d" % i, "w"], ["a%d" % (i + 1)], "conv%d" % (i + 1), "com.microsoft") for i in range(11)]
    nodes += [node("Loop2", ["a11"], ["b"], "loop"), node("TreeEnsemble", ["ids"], ["z"], "tree", "ai.onnx.ml"),
              node("Gelu", ["b"], ["y"], "gelu")]
    return model(graph(nodes, [value("y", F32, ["n", 3]), value("z", F32, None)],
                       [value("image", F32, ["n", 3, "image_height", "image_width"]), value("ids", I64, ["n", None])],
                       [tensor("w", F32, [3, 3, 1, 1], [1.0] * 9)]), 16, ["com.microsoft", "ai.onnx.ml"])


def meets():
    """Two open inputs that must agree, and one that does not."""
    nodes = [node("Add", ["x", "y"], ["a"], "add"), node("Concat", ["a", "z"], ["b"], "cat", axis=1)]
    return model(graph(nodes, [value("b", F32, None)],
                       [value("x", F32, ["n", 3]), value("y", F32, ["n", 1]), value("z", F32, ["m", 2])]))


def wide():
    """Names longer than any message has room for, and bytes that a terminal would obey."""
    many = [value("in%d%s" % (i, "x" * 3000), F32, ["d%d%s" % (i, "y" * 2000)]) for i in range(20)]
    nodes = [node("Relu", ["in0" + "x" * 3000], ["y"], "a\x1b[31mb" + "z" * 5000), node("O" * 3000, ["y"], ["z"], "n", "d" * 3000)]
    return model(graph(nodes, [value("z", F32, None)], many))


def escape():
    """A node that fails, whose name a terminal would obey."""
    nodes = [node("Squeeze", ["x", "one"], ["y"], "a\x1b[31mb")]
    return model(graph(nodes, [value("y", F32, None)], [value("x", F32, [3])], [tensor("one", I64, [1], [0])]))


if __name__ == "__main__":
    for make in (voice, foreign, meets, wide, escape):
        with open("%s/%s.onnx" % (sys.argv[1], make.__name__), "wb") as f:
            f.write(make())
