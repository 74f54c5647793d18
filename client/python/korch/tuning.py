"""korch.tune: from an ONNX model to a plan, by korch-submit."""

import atexit
import fcntl
import os
import tempfile
from dataclasses import dataclass

from . import _programs, _progress
from ._native import Plan as _NativePlan

_PREFIX, _NAME = "korch-own-", "plan.korch"
_temporary = {}  # files that nobody needs once this process has ended: {path: its folder, open and locked}


def _forget():
    """In a forked child: they are its parent's, who holds the lock as long as it lives."""
    for folder in _temporary.values():
        os.close(folder)
    _temporary.clear()


os.register_at_fork(after_in_child=_forget)


@atexit.register
def _leave_nothing():
    _programs.cancel_all()
    for path in list(_temporary):
        drop_temporary(path)


@dataclass(frozen=True)
class Progress:
    """Where a search is.  Times in nanoseconds; 0 where there is none yet."""

    phase: str
    best_ns: int = 0
    bound_ns: int = 0
    gap: float = 1.0
    candidates: int = 0
    measured: int = 0
    cached: int = 0
    seconds_left: float = 0.0
    seconds: float = 0.0

    @classmethod
    def of(cls, event):
        p = event.get("progress", {})
        return cls(phase=p.get("phase", event.get("state", "")), best_ns=p.get("latency_ns", 0),
                   bound_ns=p.get("bound_ns", 0), gap=p.get("gap", 1.0), candidates=p.get("candidates", 0),
                   measured=p.get("measured", 0), cached=p.get("cached", 0),
                   seconds_left=p.get("seconds_left", 0.0), seconds=p.get("seconds", 0.0))

    def __str__(self):
        words = [self.phase]
        if self.best_ns:
            words.append(f"best {self.best_ns / 1e6:.3g} ms, gap {100 * self.gap:.0f} %")
        if self.measured or self.cached:
            words.append(f"{self.measured} measured, {self.cached} from the cache")
        if self.seconds_left:
            words.append(f"{self.seconds_left:.0f} s left")
        return "  ".join(words)


class Plan:
    """An open plan: what korch.tune makes, or a .korch file.

    A plan holds machine code: opening one is running a program.
    """

    def __init__(self, path, *, threads=0, streams=0, gpu=-1, trust=None, info=None):
        self.path = os.fspath(path)
        self.info = dict(info or {})
        self._native = _NativePlan(self.path, threads=threads, streams=streams, gpu=gpu, trust=trust)
        self.inputs = self._native.inputs
        self.outputs = self._native.outputs

    def run(self, feed, out=None):
        """All outputs as {name: array}; feed and out are {name: array}, out is written in place."""
        return dict(zip((name for name, _, _ in self.outputs), self._native.run(feed, out)))

    def __repr__(self):
        return f"<korch.Plan {self.path}>"


def _text(x):
    if isinstance(x, (str, int, float)):
        return str(x)
    return "x".join(str(int(n)) for n in x)


def _value(x):
    import numpy as np

    return ",".join(str(v) for v in np.asarray(x).ravel().tolist())


def arguments(model, *, shapes=None, values=None, budget=None, daemon=None, data=None, device=None, threads=None,
              tolerance=None, options=()):
    """The words of korch-submit for these settings."""
    words = [os.fspath(model)]
    for name, shape in (shapes or {}).items():
        words += ["--shape", f"{name}={_text(shape)}"]
    for name, value in (values or {}).items():
        words += ["--value", f"{name}={_value(value)}"]
    for flag, x in (("--budget", budget), ("--daemon", daemon), ("--data", data), ("--device", device),
                    ("--threads", threads), ("--tolerance", tolerance)):
        if x is not None:
            words += [flag, str(x)]
    return words + list(options)


def tune_to(path, model, *, progress=None, **settings):
    """Tunes `model` and writes the plan to `path`; korch-submit's last object."""
    shown = _progress.to(progress)
    last = {}
    with _programs.Call("korch-submit", [*arguments(model, **settings), "-o", os.fspath(path)]) as call:
        try:
            for last in call.lines():
                if shown and "progress" in last:
                    shown.show(Progress.of(last))
        finally:
            if shown:
                shown.close()
        call.end()
    return last


def tune(model, output=None, *, shapes=None, values=None, budget=600, daemon=None, data=None, device=None,
         threads=None, tolerance=None, progress=None, options=()):
    """Finds the cheapest set of kernels for an ONNX model by measuring, and opens the plan.

    output    where the plan is kept; None: beside the model, model.onnx -> model.korch
    shapes    {input: (1, 3, 224, 224)} or {symbol: 224} for what the model leaves open
    values    {input: constant} makes inputs constants
    budget    seconds; 0: a plan at once, from bounds and the cache
    progress  a function that is called with a Progress, or True: a bar in a terminal, a line in a notebook's cell,
              a line a phase where stderr is a file or a pipe
    options   further words for korch-submit

    KeyboardInterrupt, and whatever `progress` raises, cancel the job.
    """
    output = output or os.path.splitext(os.fspath(model))[0] + ".korch"
    info = tune_to(output, model, shapes=shapes, values=values, budget=budget, daemon=daemon, data=data, device=device,
                   threads=threads, tolerance=tolerance, progress=progress, options=options)
    return Plan(output, threads=threads or 0, trust=key_of(data), info=info)


def key_of(data):
    """The public key of a data folder that is named; None: the user's own, which every plan is checked with."""
    return os.path.join(os.fspath(data), "sign.pub") if data else None


def check(model, **settings):
    """What korch-submit --check says of a model: its inputs, outputs, what is open, what is not supported."""
    return _programs.ask("korch-submit", [*arguments(model, **settings), "--check"])


def temporary_plan():
    """The name of a file of one's own for a plan that is opened and then not needed any more."""
    _drop_orphans()
    folder = None
    while folder is None:
        name = tempfile.mkdtemp(prefix=_PREFIX)
        folder = _lock(name)
    path = os.path.join(name, _NAME)
    _temporary[path] = folder
    return path


def _lock(name):
    """The folder, open and locked; None where somebody took it for an orphan before."""
    try:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    fcntl.flock(folder, fcntl.LOCK_EX)
    if os.path.isdir(name):
        return folder
    os.close(folder)
    return None


def drop_temporary(path):
    """Removes it; in a forked child nothing: there it is the parent's."""
    folder = _temporary.pop(path, None)
    if folder is not None:
        _remove(folder, os.path.dirname(path))


def _remove(folder, name):
    """A folder of ours that is open and locked, and what is in it."""
    try:
        for file in os.listdir(folder):
            os.unlink(file, dir_fd=folder)
        os.rmdir(name)
    except OSError:
        pass  # somebody else removed it: it is gone, as was wanted
    finally:
        os.close(folder)


def _drop_orphans():
    """What killed interpreters have left: a lock lives as long as its process."""
    where = tempfile.gettempdir()
    for name in os.listdir(where):
        path = os.path.join(where, name)
        if not name.startswith(_PREFIX):
            continue
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(folder).st_uid != os.geteuid():
                raise PermissionError
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # it is somebody else's, or its owner lives
            os.close(folder)
        else:
            _remove(folder, path)
