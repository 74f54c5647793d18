#!/usr/bin/env python3
"""The kernels of kernels.txt as others run them on this GPU: the same shapes, the same card, the same minute.

    peers_time.py [--device=cuda|cpu] [--small] [--only=PART] [--seconds=S]

One line a time, at once: "peer NAME | WHO | PRECISION | ns | TFLOP/s or GB/s".  WHO: torch (eager), compile
(torch.compile), ort (ONNX Runtime's CUDA provider), triton (the kernels of triton_kernels.py, each with
its own tile).  What is not here is a counted SKIP with its reason.  Times are medians of samples of at least 200 us by
the device's own events, operands in rotation over more than its cache.  --device=cpu walks the same way by the clock;
--small: shapes that a CPU does soon.  --seconds: no new one is begun after so many (80)."""

import argparse
import os
import statistics
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))

args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
args.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
args.add_argument("--small", action="store_true")
args.add_argument("--only", default="")
args.add_argument("--seconds", type=float, default=80)
args = args.parse_args()
BEGAN = time.monotonic()
skips = 0


def skip(what, why):
    global skips
    skips += 1
    print(f"SKIP: 1 part: {what}: {str(why).splitlines()[0][:200] if str(why) else type(why).__name__}", flush=True)


def is_late():
    return time.monotonic() - BEGAN > args.seconds


try:
    import torch
except ImportError as why:
    for who in ("torch", "compile", "ort", "triton"):
        skip(who, why)
    sys.exit(0)
if args.device == "cuda" and not torch.cuda.is_available():
    for who in ("torch", "compile", "ort", "triton"):
        skip(who, "torch sees no GPU")
    sys.exit(0)
DEVICE = args.device
S = 32 if args.small else 1  # extents are divided by it
KIND = {"f32": torch.float32, "tf32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


# ---- what is computed: name, operands' shapes, function, flops, the precisions -------------------------
def attention(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0)


def conv(x, w):
    return torch.nn.functional.conv2d(x, w, padding=1)


def mlp(x, w, b):
    return torch.nn.functional.gelu(x @ w + b)


def chain(a, b):
    s = a + b
    return torch.relu(s * torch.sigmoid(s))


def works():
    n, m = 4096 // S, 1024 // S
    side, deep = 224 // min(S, 8), 512 // min(S, 8)
    channels = 64 // min(S, 8)
    heads = 16 // min(S, 8)
    everything = ("f16", "bf16", "tf32", "f32")
    yield "gemm_4096", [(n, n), (n, n)], torch.matmul, 2 * n**3, everything
    yield "gemm_1024", [(m, m), (m, m)], torch.matmul, 2 * m**3, everything
    yield "conv_224", [(1, channels, side, side), (channels, channels, 3, 3)], conv, 18 * channels**2 * side**2, everything
    yield "conv_14", [(1, deep, 14, 14), (deep, deep, 3, 3)], conv, 18 * deep**2 * 196, everything
    yield "attention", [(1, heads, m, 64)] * 3, attention, 4 * heads * m * m * 64, everything
    yield "mlp", [(m, m), (m, 4 * m), (4 * m,)], mlp, 8 * m**3, everything
    yield "softmax", [(n, n)], lambda x: torch.softmax(x, 1), 0, ("f32",)
    yield "softmax_1000", [(n, 1000 // S)], lambda x: torch.softmax(x, 1), 0, ("f32",)
    yield "layernorm", [(n, m)], lambda x: torch.nn.functional.layer_norm(x, x.shape[1:]), 0, ("f32",)
    yield "chain", [(n, n)] * 2, chain, 0, ("f32",)
    yield "depthwise", [(1, channels, 112, 112), (channels, 1, 3, 3)], (
        lambda x, w: torch.nn.functional.conv2d(x, w, padding=1, groups=x.shape[1])), 0, ("f32",)


def operands(shapes, precision):
    made = [torch.randn(s, device=DEVICE, dtype=KIND[precision]) * 0.1 for s in shapes]
    # channels last, as a plan has them
    return [t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 and len(shapes) == 2 else t for t in made]


def set_precision(precision):
    allow = precision != "f32"
    torch.backends.cuda.matmul.allow_tf32 = allow
    torch.backends.cudnn.allow_tf32 = allow


# ---- time ---------------------------------------------------------------------------------------------
def sample_ns(run, calls):
    if DEVICE == "cpu":
        begin = time.perf_counter_ns()
        for i in range(calls):
            run(i)
        return (time.perf_counter_ns() - begin) / calls
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for i in range(calls):
        run(i)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e6 / calls


def median_ns(run):
    """Of samples of 200 us at least, until a tenth of a second is spent on them or there are 30."""
    for i in range(3):
        run(i)
    one = max(sample_ns(run, 2), 100.0)
    calls = max(1, min(1000, int(200e3 / one) + 1))
    samples, until = [], time.monotonic() + 0.3
    while len(samples) < 30 and (len(samples) < 3 or time.monotonic() < until):
        samples.append(sample_ns(run, calls))
    return statistics.median(samples)


def copies(shapes, precision):
    """So many sets of operands that none is in the cache when its turn comes."""
    one = operands(shapes, precision)
    size = sum(t.numel() * t.element_size() for t in one)
    cache = torch.cuda.get_device_properties(0).L2_cache_size if DEVICE == "cuda" else 1 << 20
    more = min(16, 1 + 2 * cache // max(size, 1))
    return [one] + [operands(shapes, precision) for _ in range(more - 1)]


def captured(call, sets):
    """A graph of one call a set: what eager spends on starting kernels is not the kernels'."""
    if DEVICE == "cpu":
        return lambda i: call(*sets[i % len(sets)])
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for s in sets[:2]:
            call(*s)
    side.synchronize()
    graphs = []
    for s in sets:
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1]):
            call(*s)
    return lambda i: graphs[i % len(graphs)].replay()


def say(name, who, precision, ns, flops, sets):
    size = sum(t.numel() * t.element_size() for t in sets[0]) + (sets[0][0].numel() * sets[0][0].element_size())
    rate = f"{flops / ns / 1e3:.4g} TFLOP/s" if flops else f"{size / ns:.4g} GB/s"
    print(f"peer {name} | {who} | {precision} | {ns:.0f} ns | {rate}", flush=True)


# ---- who ----------------------------------------------------------------------------------------------
def by_torch(name, shapes, call, flops, precision):
    sets = copies(shapes, precision)
    say(name, "torch", precision, median_ns(captured(call, sets)), flops, sets)


def by_compile(name, shapes, call, flops, precision):
    torch._dynamo.reset()
    sets = copies(shapes, precision)
    best = torch.compile(call, dynamic=False)
    say(name, "compile", precision, median_ns(captured(best, sets)), flops, sets)


def ort_model(name, shapes, precision):
    import onnx
    from onnx import TensorProto, helper

    kind = TensorProto.FLOAT16 if precision == "f16" else TensorProto.FLOAT
    nodes = {
        "gemm": [("MatMul", ["x0", "x1"], {})],
        "conv": [("Conv", ["x0", "x1"], {"pads": [1, 1, 1, 1]})],
        "depthwise": [("Conv", ["x0", "x1"], {"pads": [1, 1, 1, 1], "group": shapes[0][1]})],
        "softmax": [("Softmax", ["x0"], {"axis": 1})],
    }.get(name.split("_")[0])
    if nodes is None:
        return None
    graph = helper.make_graph(
        [helper.make_node(op, given, ["y"], **at) for op, given, at in nodes], name,
        [helper.make_tensor_value_info(f"x{i}", kind, s) for i, s in enumerate(shapes)],
        [helper.make_tensor_value_info("y", kind, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def by_ort(name, shapes, call, flops, precision):
    import onnxruntime as ort

    if precision == "bf16":
        return
    provider = "CUDAExecutionProvider" if DEVICE == "cuda" else "CPUExecutionProvider"
    if provider not in ort.get_available_providers():
        raise ImportError(f"this onnxruntime has no {provider}")
    model = ort_model(name, shapes, precision)
    if model is None:
        return
    given = {"use_tf32": "1" if precision == "tf32" else "0"} if DEVICE == "cuda" else {}
    session = ort.InferenceSession(model, providers=[(provider, given)])
    sets = copies(shapes, precision)
    kind = "float16" if precision == "f16" else "float32"
    import numpy as np
    bindings = []
    for s in sets:
        b = session.io_binding()
        for i, t in enumerate(s):
            t = s[i] = t.contiguous()
            b.bind_input(f"x{i}", DEVICE, 0, np.dtype(kind), tuple(t.shape), t.data_ptr())
        b.bind_output("y", DEVICE)
        bindings.append(b)
    # its own stream: the wall clock over many calls, behind a wait for all of them
    def run(i):
        session.run_with_iobinding(bindings[i % len(bindings)])
    for i in range(3):
        run(i)
    took = []
    for _ in range(10):
        begin = time.perf_counter_ns()
        for i in range(20):
            run(i)
        took.append((time.perf_counter_ns() - begin) / 20)
    say(name, "ort", precision, statistics.median(took), flops, sets)


def triton_runs():
    """(name, precision, tile, flops, shapes, call) of the kernels of triton_kernels.py."""
    import triton_kernels as t

    n = 4096
    for entry in t.KERNELS:
        name, tile, kernel, _, at, warps, stages, _ = entry
        words = {"num_warps": warps, "num_stages": stages}
        if kernel is t.gemm:
            precision = name.split("_")[1]
            grid = (-(-n // at["TM"]) * -(-n // at["TN"]),)

            def call(a, b, grid=grid, at=at, words=words):
                c = torch.empty_like(a)
                t.gemm[grid](a, b, c, n, n, n, **at, **words)
                return c
            yield "gemm_4096", precision, tile, 2 * n**3, [(n, n), (n, n)], call
        elif kernel is t.softmax:
            def call(x, at=at, words=words):
                y = torch.empty_like(x)
                t.softmax[(n,)](x, y, n, **at, **words)
                return y
            yield "softmax", "f32", tile, 0, [(n, n)], call
        elif kernel is t.layernorm:
            def call(x, s, b, at=at, words=words):
                y = torch.empty_like(x)
                t.layernorm[(n,)](x, y, s, b, 1024, 1e-5, **at, **words)
                return y
            yield "layernorm", "f32", tile, 0, [(n, 1024), (1024,), (1024,)], call
        elif kernel is t.attention:
            def call(q, k, v, at=at, words=words):
                y = torch.empty_like(q)
                t.attention[(1024 // at["TM"], 16)](q, k, v, y, 1.0, **at, **words)
                return y
            yield "attention", "f16", tile, 4 * 16 * 1024 * 1024 * 64, [(16, 1024, 64)] * 3, call


def all_triton():
    if DEVICE == "cpu":
        return skip("triton", "it needs a GPU")
    try:
        runs = list(triton_runs())
    except (ImportError, SystemExit) as why:
        return skip("triton", why)
    for name, precision, tile, flops, shapes, call in runs:
        if args.only not in name:
            continue
        if is_late():
            return skip(f"triton {name}", "no time left")
        try:
            sets = copies(shapes, precision)
            say(name, f"triton {tile}", precision, median_ns(captured(call, sets)), flops, sets)
        except Exception as why:  # one kernel that a version does not take is no end of the others
            skip(f"triton {name} {precision} {tile}", why)


def main():
    broken = set()
    all_works = [w for w in works() if args.only in w[0]]
    # eager first: it is soon done, and the most wanted; then Triton's own, then what compiles for long
    for who, run in (("torch", by_torch), ("triton", None), ("ort", by_ort), ("compile", by_compile)):
        if run is None:
            all_triton()
            continue
        if who == "compile" and args.small:
            skip(who, "its search takes a minute each on a CPU")
            continue
        for name, shapes, call, flops, precisions in all_works:
            for precision in precisions:
                if who in broken or (DEVICE == "cpu" and precision != "f32"):
                    continue
                if is_late():
                    skip(f"{who} {name} {precision}", "no time left")
                    continue
                set_precision(precision)
                try:
                    run(name, shapes, call, flops, precision)
                except ImportError as why:
                    skip(who, why)
                    broken.add(who)
                except Exception as why:  # the others are worth their time
                    skip(f"{who} {name} {precision}", why)
    print(f"peers: {skips} parts skipped, {time.monotonic() - BEGAN:.0f} s", flush=True)


main()
