"""Kernels as others write them, compiled by Triton to cubins, without a device: peers of the generated ones.

    python3 triton_kernels.py OUT [--sm 80,90] [--only NAME-PART]

Each goes to OUT/triton_NAME_TILE_wWARPS_sSTAGES_smNN.cubin, and a line to OUT/triton.list (see gpu_peers.sh).
The work is that of bench-cuda's kernels: products of 4096 x 4096 x 4096, rows of softmax and LayerNorm, a chain of
pointwise operators, attention with 16 heads of 1024 x 64, a convolution of 64 channels 3 x 3 on 224 x 224 as a
product whose rows are found by division (channels last).  Tiles are those of Triton's own tutorials.
Exit status 77 where there is no Triton."""

import argparse
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cubin_list  # noqa: E402

try:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
except ImportError as why:
    print(f"skipped: no Triton here ({why}); KORCH_TEST_PYTHON names an interpreter that has it", file=sys.stderr)
    sys.exit(77)


# ---- what is compiled: names of arguments say what they are ------------------------------------
@triton.jit
def gemm(a, b, c, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, GROUP: tl.constexpr,
         PRECISION: tl.constexpr):
    """c = a b, rows in memory order; blocks go in groups of GROUP rows of tiles, for the cache's sake."""
    pid, wide = tl.program_id(0), tl.cdiv(N, TN)
    group, inside = pid // (GROUP * wide), pid % (GROUP * wide)
    rows = min(tl.cdiv(M, TM) - group * GROUP, GROUP)
    m = ((group * GROUP + inside % rows) * TM + tl.arange(0, TM)) % M
    n = ((inside // rows) * TN + tl.arange(0, TN)) % N
    k = tl.arange(0, TK)
    pa, pb = a + m[:, None] * K + k[None, :], b + k[:, None] * N + n[None, :]
    sums = tl.zeros((TM, TN), tl.float32)
    for i in range(0, tl.cdiv(K, TK)):
        x = tl.load(pa, mask=k[None, :] < K - i * TK, other=0.0)
        y = tl.load(pb, mask=k[:, None] < K - i * TK, other=0.0)
        sums = tl.dot(x, y, sums, input_precision=PRECISION)
        pa += TK
        pb += TK * N
    m = (group * GROUP + inside % rows) * TM + tl.arange(0, TM)
    n = (inside // rows) * TN + tl.arange(0, TN)
    tl.store(c + m[:, None] * N + n[None, :], sums.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def conv(x, w, y, H, W, C: tl.constexpr, F: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    """y = x * w, 3 x 3, padded by one, channels last; a tile's rows are places, its columns are output channels."""
    place = tl.program_id(0) * TM + tl.arange(0, TM)
    oy, ox = place // W, place % W
    n = tl.program_id(1) * TN + tl.arange(0, TN)
    k = tl.arange(0, TK)
    sums = tl.zeros((TM, TN), tl.float32)
    for step in range(0, 9 * (C // TK)):
        tap, part = step // (C // TK), step % (C // TK)
        iy, ix = oy + tap // 3 - 1, ox + tap % 3 - 1
        inside = (iy >= 0) & (iy < H) & (ix >= 0) & (ix < W) & (place < H * W)
        at = (iy * W + ix) * C + part * TK
        u = tl.load(x + at[:, None] + k[None, :], mask=inside[:, None], other=0.0)
        v = tl.load(w + (tap * C + part * TK + k[:, None]) * F + n[None, :])
        sums = tl.dot(u, v, sums)
    tl.store(y + place[:, None] * F + n[None, :], sums.to(y.dtype.element_ty), mask=place[:, None] < H * W)


@triton.jit
def softmax(x, y, columns, WIDE: tl.constexpr):
    at, row = tl.arange(0, WIDE), tl.program_id(0)
    v = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(y + row * columns + at, e / tl.sum(e, axis=0), mask=at < columns)


@triton.jit
def layernorm(x, y, scale, shift, columns, eps, WIDE: tl.constexpr):
    at, row = tl.arange(0, WIDE), tl.program_id(0)
    v = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    mean = tl.sum(v, axis=0) / columns
    d = tl.where(at < columns, v - mean, 0.0)
    r = 1 / tl.sqrt(tl.sum(d * d, axis=0) / columns + eps)
    s, b = tl.load(scale + at, mask=at < columns), tl.load(shift + at, mask=at < columns)
    tl.store(y + row * columns + at, d * r * s + b, mask=at < columns)


@triton.jit
def chain(a, b, y, n, WIDE: tl.constexpr):
    """sigmoid((a + b) a) b: four pointwise operators."""
    at = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    u, v = tl.load(a + at, mask=at < n), tl.load(b + at, mask=at < n)
    tl.store(y + at, tl.sigmoid((u + v) * u) * v, mask=at < n)


@triton.jit
def attention(q, k, v, y, scale, KEYS: tl.constexpr, D: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr):
    """Flash attention: a block has TM queries of a head, running maximum and sum in registers."""
    head = tl.program_id(1) * KEYS * D
    m, d, n = tl.program_id(0) * TM + tl.arange(0, TM), tl.arange(0, D), tl.arange(0, TN)
    rows = tl.load(q + head + m[:, None] * D + d[None, :])
    top, total = tl.full((TM,), -float("inf"), tl.float32), tl.zeros((TM,), tl.float32)
    sums = tl.zeros((TM, D), tl.float32)
    by = scale * 1.4426950408889634  # powers of two from here on
    for begin in range(0, KEYS, TN):
        keys = tl.load(k + head + (begin + n[None, :]) * D + d[:, None])
        s = tl.dot(rows, keys)
        above = tl.maximum(top, tl.max(s, 1) * by)
        p = tl.math.exp2(s * by - above[:, None])
        down = tl.math.exp2(top - above)
        total = total * down + tl.sum(p, 1)
        sums = sums * down[:, None]
        values = tl.load(v + head + (begin + n[:, None]) * D + d[None, :])
        sums = tl.dot(p.to(values.dtype), values, sums)
        top = above
    tl.store(y + head + m[:, None] * D + d[None, :], (sums / total[:, None]).to(y.dtype.element_ty))


# ---- the list: name, kernel, types of arguments, constants, warps, stages, architectures --------
def product(kind, tm, tn, tk, warps, stages, sms, precision="tf32"):
    element = {"f16": "fp16", "bf16": "bf16"}.get(kind, "fp32")
    at = {"TM": tm, "TN": tn, "TK": tk, "GROUP": 8, "PRECISION": precision}
    kinds = {"a": "*" + element, "b": "*" + element, "c": "*" + element, "M": "i32", "N": "i32", "K": "i32"}
    return (f"gemm_{kind}", f"{tm}x{tn}x{tk}", gemm, kinds, at, warps, stages, sms)


def plain(name, tile, kernel, at, warps, sms, **kinds):
    return (name, tile, kernel, kinds, at, warps, 1, sms)


BOTH = (80, 90)
KERNELS = [
    product("f16", 128, 128, 32, 4, 4, BOTH), product("f16", 128, 256, 64, 8, 3, BOTH),
    product("f16", 128, 128, 64, 8, 3, BOTH), product("bf16", 128, 128, 32, 4, 4, BOTH),
    product("tf32", 128, 128, 32, 4, 3, BOTH), product("tf32", 128, 64, 32, 4, 4, BOTH),
    product("f32", 64, 64, 16, 4, 2, BOTH, "ieee"), product("f32", 128, 64, 16, 4, 3, BOTH, "ieee"),
    plain("softmax", "4096", softmax, {"WIDE": 4096}, 8, BOTH, x="*fp32", y="*fp32", columns="i32"),
    plain("layernorm", "1024", layernorm, {"WIDE": 1024}, 4, BOTH, x="*fp32", y="*fp32", scale="*fp32",
          shift="*fp32", columns="i32", eps="fp32"),
    plain("chain", "1024", chain, {"WIDE": 1024}, 4, BOTH, a="*fp32", b="*fp32", y="*fp32", n="i32"),
    ("attention_f16", "128x64", attention,
     {"q": "*fp16", "k": "*fp16", "v": "*fp16", "y": "*fp16", "scale": "fp32"},
     {"KEYS": 1024, "D": 64, "TM": 128, "TN": 64}, 4, 3, BOTH),
    ("conv3x3_f16", "128x64x32", conv, {"x": "*fp16", "w": "*fp16", "y": "*fp16", "H": "i32", "W": "i32"},
     {"C": 64, "F": 64, "TM": 128, "TN": 64, "TK": 32}, 4, 4, BOTH),
]


def compiled(entry, sm):
    _, _, kernel, kinds, at, warps, stages, _ = entry
    names = kernel.arg_names
    signature = {n: kinds.get(n, "constexpr") for n in names}
    # pointers and extents are multiples of 16, as an allocator and these shapes give them
    whole = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if kinds.get(n, "")[:1] in ("*", "i")}
    source = ASTSource(fn=kernel, signature=signature, constexprs=at, attrs=whole)
    return triton.compile(source, target=GPUTarget("cuda", sm, 32), options={"num_warps": warps, "num_stages": stages})


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--sm", default="80,90")
    p.add_argument("--only", default="")
    args = p.parse_args()
    sms = [int(s) for s in args.sm.split(",")]
    with cubin_list.Writer(args.out, "triton") as rows:
        for entry in KERNELS:
            name, tile, _, _, _, warps, stages, able = entry
            for sm in (s for s in sms if s in able and args.only in name):
                done = compiled(entry, sm)
                file = f"triton_{name}_{tile}_w{warps}_s{stages}_sm{sm}.cubin"
                rows.add(file, done.asm["cubin"], sm, warps, stages, done.metadata.shared)


if __name__ == "__main__":
    main()
