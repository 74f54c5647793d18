"""torch.compile(backend="korch"): models, shapes, weights that change, and what stays torch's."""

import copy
import gc
import os
import threading
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not here (KORCH_TEST_PYTHON names an interpreter that has it)")
pytest.importorskip("onnxscript", reason="onnxscript is not here: torch.onnx needs it")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import korch  # noqa: E402
import korch.torch  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def said(f, *inputs, grad=torch.inference_mode, **how):
    """(what comes out, what torch alone gives, why it stayed torch's)"""
    compiled = torch.compile(f, backend="korch", **how)
    with warnings.catch_warnings(record=True) as caught, grad():
        warnings.simplefilter("always")
        want = f(*copy.deepcopy(inputs))
        have = compiled(*copy.deepcopy(inputs))
    return have, want, [str(w.message) for w in caught if issubclass(w.category, korch.torch.EagerWarning)]


def same(have, want, tolerance=1e-5):
    have, want = torch.utils._pytree.tree_leaves(have), torch.utils._pytree.tree_leaves(want)
    assert len(have) == len(want)
    for h, w in zip(have, want):
        if isinstance(w, torch.Tensor):
            assert h.dtype == w.dtype and h.shape == w.shape
            torch.testing.assert_close(h, w, rtol=tolerance, atol=tolerance)
        else:
            assert h == w


def runs(f, *inputs, **how):
    have, want, eager = said(f, *inputs, **how)
    assert not eager
    same(have, want)


# ---- models ------------------------------------------------------------------------------------------------------------
def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).eval()


def cnn():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(8, 16, 3), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4)).eval()


class Block(nn.Module):
    """A transformer's block, written out."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm[0](x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, w))
        return x + self.mlp(self.norm[1](x))


def test_mlp():
    runs(mlp(), torch.randn(8, 16))


def test_cnn():
    runs(cnn(), torch.randn(2, 3, 16, 16))


def test_transformer_block():
    runs(Block().eval(), torch.randn(2, 10, 32))


KEYS = torch.tensor([[False] * 10, [False] * 7 + [True] * 3])
LATER = torch.triu(torch.ones(10, 10, dtype=torch.bool), 1)


@pytest.mark.parametrize("layer,masks", [
    ({}, {}),
    ({"norm_first": True, "activation": "gelu"}, {}),
    ({}, {"src_key_padding_mask": KEYS}),
    ({}, {"src_mask": nn.Transformer.generate_square_subsequent_mask(10)}),
    ({}, {"src_mask": LATER, "src_key_padding_mask": KEYS}),
], ids=["after", "first, gelu", "keys", "causal", "both masks"])
def test_torchs_encoder_layer(layer, masks):
    m = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, **layer).eval()
    runs(lambda x: m(x, **masks), torch.randn(2, 10, 32))


def test_torchs_attention():
    m = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    runs(lambda x: m(x, x, x, need_weights=False)[0], torch.randn(2, 10, 32))


# ---- what goes in and comes out ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [
    lambda: torch.randn(8, 4).T, lambda: torch.randn(8, 4).half(), lambda: torch.arange(32).reshape(8, 4),
    lambda: torch.randn(8, 4).double(), lambda: torch.zeros(0, 4), lambda: torch.randn(8, 4).bfloat16().T,
], ids=["transposed", "f16", "i64", "f64", "nothing in it", "bf16"])
def test_types_and_layouts(make):
    runs(lambda x: x + x, make())


def test_bool():
    runs(lambda x: (x > 0) & (x < 1), torch.randn(8, 4))


def test_what_is_no_tensor_comes_out_too():
    runs(lambda x: {"a": x + 1, "none": None, "n": x.shape[0]}, torch.randn(8, 4))


def test_an_input_that_could_have_a_gradient():
    runs(lambda x: x * 3, torch.randn(8, 4, requires_grad=True), grad=torch.no_grad)


def test_results_are_new_each_time():
    compiled = torch.compile(lambda x: x + 1, backend="korch")
    x = torch.zeros(4)
    with torch.inference_mode():
        first = compiled(x)
        x += 1
        second = compiled(x)
    assert first.tolist() == [1] * 4 and second.tolist() == [2] * 4


def test_shapes_have_plans_of_their_own():
    compiled = torch.compile(lambda x: F.gelu(x) @ x.T, backend="korch")
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("error", korch.torch.EagerWarning)
        for n in (3, 5, 3, 7, 5):
            x = torch.randn(n, 4)
            same(compiled(x), F.gelu(x) @ x.T)


def test_shapes_that_are_dynamic_from_the_start():
    compiled = torch.compile(lambda x: F.softmax(x, -1).sum(0), backend="korch", dynamic=True)
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("error", korch.torch.EagerWarning)
        for n in (3, 5):
            x = torch.randn(n, 4)
            same(compiled(x), F.softmax(x, -1).sum(0))


@pytest.mark.parametrize("f,make", [
    (nn.Sequential(nn.Embedding(10, 8), nn.Flatten(), nn.Linear(24, 2)), lambda: torch.tensor([[1, 2, 3], [4, 5, 9]])),
    (nn.Sequential(nn.ConvTranspose2d(3, 4, 2, stride=2), nn.GroupNorm(2, 4), nn.Hardswish()), lambda: torch.randn(1, 3, 5, 5)),
    (nn.LSTM(4, 6, batch_first=True), lambda: torch.randn(2, 3, 4)),
    (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda: torch.randn(1, 2, 4, 4)),
    (lambda x: torch.cat([x, x.roll(1, 0)], 1)[:, ::2].clamp(min=0), lambda: torch.randn(3, 4)),
    (lambda x: torch.where(x > 0, x.exp(), x.cumsum(0)).topk(2).values, lambda: torch.randn(3, 4)),
], ids=["embedding", "transposed convolution", "LSTM", "resize", "layout", "choice"])
def test_it_comes_out_right_by_whom_ever(f, make):
    """Korch runs it or torch does, with a warning: never an exception, never other numbers."""
    if isinstance(f, nn.Module):
        f.eval()
    have, want, eager = said(f, make())
    assert len(eager) <= 1
    same(have, want)


# ---- weights -------------------------------------------------------------------------------------------------------------
@torch.no_grad()
def test_weights_that_change():
    m, x = nn.Linear(4, 2).eval(), torch.ones(1, 4)
    compiled = torch.compile(m, backend="korch")
    same(compiled(x), m(x))
    m.weight.mul_(2)
    same(compiled(x), m(x))
    m.load_state_dict(nn.Linear(4, 2).state_dict())
    same(compiled(x), m(x))


@torch.no_grad()
def test_models_of_one_class():
    x = torch.ones(1, 4)
    models = [nn.Linear(4, 2).eval() for _ in range(3)]
    for m in [*models, *models]:
        same(torch.compile(m, backend="korch")(x), m(x))


def test_weights_made_for_inference():
    with torch.inference_mode():
        m = mlp()
    runs(m, torch.randn(8, 16))


# ---- what stays torch's ----------------------------------------------------------------------------------------------------
RUNNING = torch.ones(4)


@pytest.mark.parametrize("f,words,how", [
    (nn.Linear(4, 4), "it needs gradients", {"grad": torch.enable_grad}),
    (nn.BatchNorm1d(4).train(), "in place", {"grad": torch.no_grad}),
    (lambda x: F.batch_norm(x, RUNNING, RUNNING, training=True), "in place", {"grad": torch.no_grad}),
    (lambda x: x.add_(1), "it changes its input 'l_x_' in place", {}),
    (lambda x: x.add_(1) * 2, "it changes its input 'l_x_' in place", {}),
    (lambda x: (x.view(-1), x + 1), "it gives back a view of its input 'l_x_'", {}),
    (lambda x: x + 0 * torch.randn_like(x), "an operator is not supported: RandomNormalLike", {}),
    (lambda x: torch.linalg.svdvals(x), "torch.onnx cannot export it: No ONNX function found for <OpOverload("
     "op='aten._linalg_svd'", {}),
], ids=["training", "batch norm", "statistics", "in place", "in place, then more", "view", "no operator here", "no export"])
def test_eager(f, words, how):
    have, want, eager = said(f, torch.randn(8, 4), **how)
    assert len(eager) == 1 and "korch: torch runs this graph itself: " in eager[0] and words in eager[0]
    same(have, want)


def test_dropout_that_trains():
    have, _, eager = said(nn.Dropout(0.5).train(), torch.ones(64, 64), grad=torch.no_grad)
    assert "Dropout" in eager[0] and 0.3 < (have == 0).float().mean() < 0.7


def test_training_still_trains():
    m, x = nn.Linear(4, 1), torch.randn(8, 4)
    with pytest.warns(korch.torch.EagerWarning):
        torch.compile(m, backend="korch")(x).sum().backward()
    torch.testing.assert_close(m.weight.grad, x.sum(0, keepdim=True))


# ---- options ---------------------------------------------------------------------------------------------------------------
def test_unknown_option():
    with pytest.raises(Exception) as e:
        torch.compile(lambda x: x + 1, backend="korch", options={"bugdet": 1})(torch.ones(2))
    assert "options: bugdet: there are budget, daemon, data, progress, threads, tolerance, tune" in str(e.value)


def test_tuning_first():
    phases = []
    runs(lambda x: x @ x, torch.randn(4, 4),
         options={"tune": True, "budget": 5, "progress": lambda p: phases.append(p.phase)})
    assert phases


def test_nothing_is_left():
    before = set(os.listdir(os.environ["TMPDIR"]))
    compiled = torch.compile(lambda x: x @ x, backend="korch", options={"tune": "background", "budget": 60})
    with torch.inference_mode():
        compiled(torch.randn(4, 4))
    del compiled
    torch._dynamo.reset()
    gc.collect()
    for t in threading.enumerate():
        if t.name == "korch tuning":
            t.join()
    assert not {n for n in os.listdir(os.environ["TMPDIR"]) if n.startswith("korch-")} - before


# ---- torch and the session -------------------------------------------------------------------------------------------------
def test_tensors_in_and_out_of_a_session(mlp):
    session = korch.InferenceSession(mlp)
    x = torch.ones(4, 8)
    y = torch.from_dlpack(session.run(["y"], {"x": x})[0])
    mine = torch.zeros(4, 5)
    assert session.run(["y"], {"x": x.T.contiguous().T}, out={"y": mine})[0] is mine
    assert torch.equal(y, mine)
    array, = session.run(["y"], {"x": x})
    array[0, 0] = 77
    assert torch.from_dlpack(array)[0, 0] == 77 and np.shares_memory(torch.from_dlpack(array).numpy(), array)
    with pytest.raises(korch.InvalidArgument) as e:
        session.run(None, {"x": torch.ones(4, 8, requires_grad=True)})
    assert "input 'x' cannot be read as an array" in str(e.value) and "detach" in str(e.value)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_on_a_gpu():
    have, want, eager = said(mlp().cuda(), torch.randn(8, 16, device="cuda"))
    assert not eager and have.device.type == "cuda"
    same(have, want, 1e-4)
