"""OrtValue and IOBinding under onnxruntime's names: arrays that are named once and then run many times."""

import numpy as np

from ._errors import InvalidArgument

_NUMPY = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(bfloat16)": "uint16",
          "tensor(bool)": "bool"}


def numpy_type(kind):
    """numpy's type for "tensor(float)"; bfloat16, which numpy has not, is uint16."""
    return np.dtype(_NUMPY.get(kind) or kind[len("tensor("):-1])


class OrtValue:
    """An array with onnxruntime's way of naming it.  It is the caller's own memory, never a copy."""

    def __init__(self, array):
        self._array = array

    @classmethod
    def ortvalue_from_numpy(cls, array, device_type="cpu", device_id=0):
        _refuse_device(device_type)
        return cls(array)

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape, element_type, device_type="cpu", device_id=0):
        _refuse_device(device_type)
        return cls(np.empty(tuple(shape), element_type))

    def numpy(self):
        return np.asarray(self._array)

    def shape(self):
        return list(self._array.shape)

    def device_name(self):
        return "cpu"

    def is_tensor(self):
        return True

    def has_value(self):
        return self._array is not None

    def __dlpack__(self, **how):
        return self._array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class IOBinding:
    """Which arrays a session reads and writes, set once.  Made by InferenceSession.io_binding()."""

    def __init__(self, session):
        self._session = session
        self._feed, self._out, self._order = {}, {}, []
        self._results = []

    # ---- inputs --------------------------------------------------------------------------------------------------
    def bind_cpu_input(self, name, array):
        self._feed[self._known(name, self._session.get_inputs())] = array

    def bind_ortvalue_input(self, name, value):
        self.bind_cpu_input(name, value._array)

    def bind_input(self, name, device_type, device_id, element_type, shape, buffer_ptr):
        """The memory at `buffer_ptr`, which must live as long as it is bound."""
        _refuse_device(device_type)
        self.bind_cpu_input(name, _at(buffer_ptr, element_type, shape))

    # ---- outputs -------------------------------------------------------------------------------------------------
    def bind_output(self, name, device_type="cpu", device_id=0, element_type=None, shape=None, buffer_ptr=None):
        """Into the memory at `buffer_ptr`; without one a new array is made by each run."""
        _refuse_device(device_type)
        self._bind_out(name, None if buffer_ptr is None else _at(buffer_ptr, element_type, shape))

    def bind_ortvalue_output(self, name, value):
        self._bind_out(name, value._array)

    def _bind_out(self, name, array):
        self._known(name, self._session.get_outputs())
        if name not in self._order:
            self._order.append(name)
        self._out.pop(name, None)
        if array is not None:
            self._out[name] = array

    def clear_binding_inputs(self):
        self._feed.clear()

    def clear_binding_outputs(self):
        self._out.clear()
        self._order.clear()
        self._results = []

    # ---- what came out -------------------------------------------------------------------------------------------
    def copy_outputs_to_cpu(self):
        return [np.array(x, copy=True) for x in self._results]

    def get_outputs(self):
        return [OrtValue(x) for x in self._results]

    def synchronize_inputs(self):
        """onnxruntime's name; runs have ended when they return."""

    synchronize_outputs = synchronize_inputs

    def _known(self, name, ports):
        if any(p.name == name for p in ports):
            return name
        raise InvalidArgument(f"no input or output is called {name!r}; there are: {', '.join(p.name for p in ports)}")

    def _run(self):
        if not self._order:
            raise InvalidArgument("no output is bound: bind_output(NAME) says which are wanted")
        self._results = self._session.run(self._order, self._feed, out=self._out)


def _refuse_device(device_type):
    if str(device_type).lower() != "cpu":
        raise InvalidArgument(f"device_type={device_type!r}: memory of a GPU is handed over as a tensor with __dlpack__, to "
                              "run(..., out={name: tensor})")


def _at(address, element_type, shape):
    import ctypes

    kind = np.dtype(element_type)
    n = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    memory = (ctypes.c_byte * n).from_address(int(address)) if n else b""
    return np.frombuffer(memory, kind).reshape(tuple(shape))
