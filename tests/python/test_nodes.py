"""ONNX's node tests of tier 1 through the session: the stored outputs, and onnxruntime's where it runs the model."""

import collections
import concurrent.futures
import glob
import os

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import TIER1, node_cases, read_pb

import korch

ATOL, RTOL = 1e-7, 1e-3  # tests/onnx/README.md


def differs(have, want, atol=ATOL):
    """None, or how two lists of arrays differ."""
    for i, (h, w) in enumerate(zip(have, want, strict=True)):
        w = np.asarray(w)
        if w.dtype.name == "bfloat16":
            h = h.view(w.dtype) if h.dtype == np.uint16 else h
            h, w = h.astype("f4"), w.astype("f4")
        if h.shape != w.shape or h.dtype != w.dtype:
            return f"output {i} is {h.dtype}{list(h.shape)}, wanted {w.dtype}{list(w.shape)}"
        if not np.issubdtype(w.dtype, np.inexact):
            if not np.array_equal(h, w):
                return f"output {i} differs"
        elif not np.allclose(h, w, rtol=RTOL, atol=atol, equal_nan=True):
            return f"output {i} differs by {np.nanmax(np.abs(h.astype('f8') - w.astype('f8')))}"
    return None


def tensors(folder, kind):
    paths = glob.glob(f"{folder}/test_data_set_0/{kind}_*.pb")
    return [read_pb(p) for p in sorted(paths, key=lambda p: int(p.rsplit("_", 1)[1][:-3]))]


def by_onnxruntime(path, feed):
    """Its outputs; None where it does not run the model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        return onnxruntime.InferenceSession(path, options).run(None, feed)
    except Exception:  # its own classes, one for each way of not knowing an operator or a type
        return None


def compare(folder):
    """(what is wrong, does onnxruntime run it as stored)"""
    path = folder + "/model.onnx"
    session = korch.InferenceSession(path, tolerance=0, threads=1)
    feed = dict(zip((i.name for i in session.get_inputs()), tensors(folder, "input"), strict=True))
    names = [i.name for i in onnx.load(path).graph.input]
    assert list(feed) == names
    want, have = tensors(folder, "output"), session.run(None, feed)
    wrong = differs(have, want)
    theirs = by_onnxruntime(path, feed)
    if theirs is None or differs(theirs, want, atol=1e-5):
        return wrong, False
    return wrong or differs(have, theirs, atol=1e-5), True


@pytest.fixture(scope="module")
def results(data_folder):
    """All cases at once, on as many threads as there are cores: one private daemon makes all the plans."""
    def one(folder):
        try:
            return compare(folder)
        except Exception as e:  # the case's own failure
            return f"{type(e).__name__}: {e}", False

    folders = node_cases()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(folders, pool.map(one, folders.values())))


@pytest.mark.parametrize("name", TIER1)
def test_tier_1(results, name):
    wrong, _ = results[name]
    assert wrong is None, wrong


def test_onnxruntime_ran_most(results):
    counts = collections.Counter(ran for _, ran in results.values())
    assert counts[True] > counts[False]
