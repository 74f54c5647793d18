"""Where the benches of the package run: its virtual environment, its models, its plans."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig

import env

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(env.ROOT, "build", "bin")
BIN = os.path.join(sysconfig.get_path("platlib"), "korch", "bin")  # the package's own: built as the module is
OUT = os.path.join(env.ROOT, "build", "bench-python")
NAMES = ["candy", "segformer_b0", "yolov4", "efficientvit_b1", "efficientvit", "yolox_nano"]


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def enter():
    """Goes on as the interpreter of an environment that has the peers, and the package as this tree has it."""
    python = env.python_of()
    if os.path.realpath(sys.prefix) == os.path.realpath(os.path.dirname(os.path.dirname(python))):
        return
    say("installing the package from this tree")
    launcher = {"CMAKE_C_COMPILER_LAUNCHER": "ccache"} if shutil.which("ccache") else {}
    subprocess.run([python, "-m", "pip", "-q", "install", "--no-deps", env.ROOT], check=True, env={**os.environ, **launcher})
    os.execv(python, [python] + sys.argv)


def private(folder, fresh=False):
    """The environment of programs that keep all they know in `folder`."""
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KORCH_")}
    return {**kept, "XDG_DATA_HOME": folder, "XDG_CACHE_HOME": folder + "/cache", "XDG_CONFIG_HOME": folder + "/config"}


def model(name):
    """The path of a model: a file as it is, or one of korch-make-model."""
    if name.endswith(".onnx"):
        return name
    path = f"{OUT}/{name}.onnx"
    if not os.path.exists(path):
        small = ["--small"] if name.endswith("_small") else []
        subprocess.run([f"{BUILD}/korch-make-model", name.removesuffix("_small"), path] + small, check=True, capture_output=True)
    return path


def plan(path, a):
    """A plan for that model, made once; its signer's key lies in the same folder as all that the benches know."""
    to = f"{OUT}/{os.path.basename(path)}.{a.threads}.{a.budget:g}.korch"
    if not os.path.exists(to):
        say(f"tuning {os.path.basename(path)}")
        subprocess.run([f"{BIN}/korch-submit", path, "-o", to, "--budget", str(a.budget), "--threads", str(a.threads), "--quiet"],
                       check=True, env=private(OUT + "/data"))
    return to


def line(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def head(*cells):
    line(*cells)
    line(*["---"] * len(cells))


class Child:
    """A process with one open session that answers lines with objects."""

    def __init__(self, script, kind, path, a, environment):
        self._p = subprocess.Popen([sys.executable, os.path.join(HERE, script), kind, path, str(a.threads)], env=environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, words):
        self._p.stdin.write(f"{words}\n")
        self._p.stdin.flush()
        return self.answer()

    def answer(self):
        line = self._p.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self._p.args[1:])} ended with {self._p.wait()}")
        return json.loads(line)

    def close(self):
        self._p.stdin.close()
        self._p.wait()
