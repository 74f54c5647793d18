"""A GPU's plans and memory, by the fake GPU behind the driver's names (fake_cuda.c)."""

import ctypes
import os

import capsule
import numpy as np
import onnx
import pytest
from conftest import model

import korch
from korch import _arrays

FAKE = os.environ.get("KORCH_FAKE_CUDA", "")
pytestmark = pytest.mark.skipif(not FAKE, reason="no fake GPU: the target korch_fake_cuda is not built")
X = np.arange(12, dtype="f4").reshape(3, 4)


@pytest.fixture(scope="module")
def driver():
    """The driver that the plan opens."""
    os.environ["KORCH_CUDA_LIB"] = FAKE
    yield Driver()
    del os.environ["KORCH_CUDA_LIB"]


class Driver:
    """cuMemAlloc and cuMemcpy, in the first GPU's context: a plan that is closed leaves its thread with none."""

    def __init__(self):
        self._cu, self._context = ctypes.CDLL(FAKE + "/libcuda.so.1"), ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), 0)

    def __call__(self, name, *arguments):
        assert getattr(self._cu, name)(*arguments) == 0, name

    def new(self, n):
        at = ctypes.c_uint64()
        self("cuCtxSetCurrent", self._context)
        self("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(n))
        return at.value

    def copy(self, to, of, n):
        self("cuCtxSetCurrent", self._context)
        self("cuMemcpyAsync", ctypes.c_uint64(to), ctypes.c_uint64(of), ctypes.c_size_t(n), None)
        self("cuCtxSynchronize")


@pytest.fixture(scope="module")
def plan(driver, tmp_path_factory):
    """y = x + x of f32[3,4], z = -x"""
    folder = tmp_path_factory.mktemp("gpu")
    onnx.save(model([("Add", ["x", "x"], ["y"], {}), ("Neg", ["x"], ["z"], {})], {"x": ("f4", [3, 4])},
                    {"y": ("f4", [3, 4]), "z": ("f4", [3, 4])}), folder / "m.onnx")
    return korch.tune(folder / "m.onnx", folder / "p.korch", budget=0, device="cuda-fake:gpu=a100,seed=1")


class OnGpu(capsule.Array):
    """An array in the GPU's memory, of a library that queues its work; `settled` counts who waited for that."""

    def __init__(self, driver, x):
        self._at, self._driver, self.settled = driver.new(x.nbytes), driver, 0
        super().__init__(x, device=capsule.CUDA, address=self._at)
        driver.copy(self._at, x.__array_interface__["data"][0], x.nbytes)

    def numpy(self):
        there = np.empty(self.shape, self.dtype)
        self._driver.copy(there.__array_interface__["data"][0], self._at, there.nbytes)
        return there

    def block_until_ready(self):
        self.settled += 1


def test_memory_of_the_host(plan):
    session = korch.InferenceSession(plan.path)
    y, z = session.run(None, {"x": X})
    assert np.array_equal(y, X + X) and np.array_equal(z, -X)


def test_memory_of_the_gpu(driver, plan):
    x, y = OnGpu(driver, X), OnGpu(driver, np.zeros_like(X))
    out = plan.run({"x": x}, out={"y": y})
    assert out["y"] is y and np.array_equal(y.numpy(), X + X)
    assert np.array_equal(out["z"], -X)  # nobody gave memory for it: the host's
    assert x.settled == y.settled == 1


def test_what_does_not_fit_is_said(driver, plan):
    for x in (OnGpu(driver, X.astype("f8")), OnGpu(driver, X[:2].copy()), OnGpu(driver, np.asfortranarray(X))):
        with pytest.raises(korch.InvalidArgument) as e:
            plan.run({"x": x})
        assert ("input 'x' lies in the memory of a device: a plan for the CPU wants it in the host's, a plan for that device as "
                "a dense array of float32 and the shape [3, 4]") in str(e.value)


def test_a_plan_for_the_cpu_takes_none_of_it(driver, tmp_path):
    onnx.save(model([("Neg", ["x"], ["y"], {})], {"x": ("f4", [3, 4])}, {"y": ("f4", [3, 4])}), tmp_path / "m.onnx")
    session = korch.InferenceSession(tmp_path / "m.onnx")
    with pytest.raises(korch.InvalidArgument):
        session.run(None, {"x": OnGpu(driver, X)})


def test_an_array_that_fails_to_settle(driver, plan):
    class Fails(OnGpu):
        def block_until_ready(self):
            raise RuntimeError("its stream is lost")

    with pytest.raises(korch.InvalidArgument):
        plan.run({"x": Fails(driver, X)})


def test_settling_knows_the_libraries():
    class Queued:
        waited = 0

        def block_until_ready(self):
            self.waited += 1

    x = Queued()
    _arrays.settle(x)
    _arrays.settle(X)
    assert x.waited == 1
