"""The peers' own environment: a virtual environment under build/, filled from PyPI."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
NEEDED = ["numpy", "onnx", "onnxruntime"]  # for references; PEERS: to be timed too
PEERS = ["openvino"]


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def python_with(venv, packages):
    """The interpreter of an environment that was made for these packages alone, versions and all."""
    python, whole = os.path.join(venv, "bin", "python"), os.path.join(venv, "whole")
    if not os.path.exists(whole):
        subprocess.check_call([sys.executable, "-m", "venv", "--clear", venv])
        subprocess.check_call([python, "-m", "pip", "-q", "install"] + packages)
        open(whole, "w").close()
    return python


def python_of(venv=None, peers=True):
    """The interpreter of an environment that has NEEDED, and PEERS where they are wanted; made where there is none."""
    venv = venv or os.path.join(ROOT, "build", "peers-venv")
    python = os.path.join(venv, "bin", "python")
    if not os.path.exists(python):
        subprocess.check_call([sys.executable, "-m", "venv", venv])
    missing = [m for m in NEEDED + (PEERS if peers else []) if not has(python, m)]
    if missing:
        subprocess.check_call([python, "-m", "pip", "-q", "install"] + missing)
    return python


def has_torch(python, install):
    """PyPI's torch brings 3 GB of GPU libraries along, so it is fetched only when asked for."""
    if not has(python, "torch") and install:
        subprocess.run([python, "-m", "pip", "-q", "install", "torch"])
    return has(python, "torch")
