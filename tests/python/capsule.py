"""An array of another library: memory of numpy's behind DLPack alone, in any layout, on any device, of any type."""

import ctypes

import numpy as np

CPU, CUDA, CUDA_HOST = 1, 2, 3
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
BFLOAT = 4


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("manager", ctypes.c_void_p), ("deleter", DELETER)]


_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Array:
    """`x` as another library would hand it over.  `asked` counts how often it was."""

    def __init__(self, x, device=CPU, code=None, address=None, with_strides=True):
        self.shape, self.dtype, self._x, self.asked = x.shape, x.dtype, x, 0
        n = max(x.ndim, 1)
        self._shape = (ctypes.c_int64 * n)(*x.shape)
        self._strides = (ctypes.c_int64 * n)(*(s // x.itemsize for s in x.strides))
        self._device = device
        at = address if address is not None else x.__array_interface__["data"][0] if x.size else None
        self._managed = Managed(Tensor(
            at, device, 0, x.ndim, CODES[x.dtype.kind] if code is None else code, x.itemsize * 8, 1, self._shape,
            self._strides if with_strides else None, 0), None, DELETER())

    def __dlpack__(self, **how):
        self.asked += 1
        return _new(ctypes.addressof(self._managed), b"dltensor", None)

    def __dlpack_device__(self):
        return self._device, 0


def bf16(x):
    """The upper half of each float, as numpy's uint16."""
    return (np.ascontiguousarray(x, "f4").view("u4") >> 16).astype("u2")
