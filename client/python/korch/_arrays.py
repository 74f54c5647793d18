"""Arrays that are not as a plan wants them: copied where that changes nothing, else refused with the name."""

import numpy as np

from ._errors import InvalidArgument


_HOST = (1, 3)  # DLPack's numbers of memory that the CPU reads


def settle(x):
    """Waits for what is queued to write `x`, an array in a GPU's memory; called by korch._native."""
    library = type(x).__module__.partition(".")[0]
    if library == "torch":
        import torch

        torch.cuda.current_stream(x.device).synchronize()
    elif library == "cupy":
        import cupy

        cupy.cuda.get_current_stream().synchronize()
    elif hasattr(x, "block_until_ready"):  # jax
        x.block_until_ready()


def _as_array(what, name, want, x):
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "__dlpack_device__") and x.__dlpack_device__()[0] not in _HOST:
        shape, dtype = want
        raise InvalidArgument(
            f"{what} '{name}' lies in the memory of a device: a plan for the CPU wants it in the host's, a plan for that "
            f"device as a dense array of {dtype.name} and the shape {list(shape)}")
    try:
        if hasattr(x, "__dlpack__"):
            return np.from_dlpack(x)
        return np.asarray(x)
    except Exception as e:  # whatever another library says of its own arrays
        raise InvalidArgument(f"{what} '{name}' cannot be read as an array: {e}") from None


def fit(name, want, x, is_output):
    """`x` as a dense, aligned array of want = (shape, dtype).

    Called by korch._native for what is not so already.  Inputs may be copied; an output must be the caller's own memory.
    """
    shape, dtype = want
    what = "output" if is_output else "input"
    a = _as_array(what, name, want, x)
    # 16 bits that are no float to numpy: bfloat16 as uint16, or as ml_dtypes has it.
    if a.dtype != dtype and a.dtype.name == "bfloat16" and dtype == np.uint16:
        a = a.view(np.uint16)
    if a.dtype.newbyteorder("=") != dtype:
        raise InvalidArgument(f"{what} '{name}' is of type {dtype.name}; an array of {a.dtype} was given")
    if a.shape != shape:
        raise InvalidArgument(f"{what} '{name}' has the shape {list(shape)}; an array of {list(a.shape)} was given")
    if not is_output:
        return np.require(a, dtype=dtype, requirements=["C", "A"])
    if not a.flags.writeable:
        raise InvalidArgument(f"output '{name}' was given an array that is read-only")
    if not (a.flags.c_contiguous and a.flags.aligned and a.dtype.isnative):
        raise InvalidArgument(
            f"output '{name}' was given an array that is not dense, aligned and of this machine's byte order; "
            "numpy.empty makes such a one")
    return a
