"""Korch from Python: plans of measured kernels behind onnxruntime's names.

    import korch as ort                      # in place of: import onnxruntime as ort
    session = ort.InferenceSession("model.onnx")
    y, = session.run(None, {"x": x})

    plan = korch.tune("model.onnx", budget=60, progress=True)
"""

import enum

from . import _native
from ._errors import (Cancelled, Error, InvalidArgument, InvalidDevice, InvalidFile, Missing, NoSuchFile, NotSetUp,
                      OutOfMemory, Unplaceable, Unreachable, Untrusted)
from .binding import IOBinding, OrtValue
from .session import PROVIDER, InferenceSession, ModelMetadata, NodeArg, RunOptions, SessionOptions
from .tuning import Plan, Progress, check, tune

__version__ = _native.version
__all__ = ["InferenceSession", "SessionOptions", "RunOptions", "NodeArg", "ModelMetadata", "IOBinding", "OrtValue",
           "GraphOptimizationLevel", "ExecutionMode",
           "get_available_providers", "get_all_providers", "get_device", "set_default_logger_severity",
           "tune", "check", "Plan", "Progress",
           "Error", "InvalidArgument", "NotSetUp", "NoSuchFile", "InvalidFile", "InvalidDevice", "OutOfMemory",
           "Unreachable", "Unplaceable", "Untrusted", "Missing", "Cancelled"]


class GraphOptimizationLevel(enum.IntEnum):
    """onnxruntime's names; all graphs are optimised here."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """onnxruntime's names; a plan's kernels run in its order."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


def get_available_providers():
    return [PROVIDER]


get_all_providers = get_available_providers


def get_device():
    return "CPU"


def set_default_logger_severity(severity):
    """onnxruntime's name; there is nothing to set: errors are exceptions."""
