"""progress=True: a bar in a terminal, lines in a pipe, one display that is updated in a notebook."""

import os
import pty
import re
import subprocess
import sys
import types

import pytest

import korch
from korch import _progress

TUNE = "import korch, sys; korch.tune(sys.argv[1], sys.argv[2], budget=5, progress=True)"


def tuned(mlp, tmp_path, **how):
    words = [sys.executable, "-c", TUNE, str(mlp), str(tmp_path / "p.korch")]
    return subprocess.Popen(words, stdout=subprocess.PIPE, **how)


def test_pipe(mlp, tmp_path):
    child = tuned(mlp, tmp_path, stderr=subprocess.PIPE, text=True)
    out, err = child.communicate()
    assert child.returncode == 0 and out == ""
    lines = err.splitlines()
    assert lines and "\r" not in err and "\x1b" not in err
    phases = [line.split("  ")[0] for line in lines]
    assert all(a != b for a, b in zip(phases, phases[1:]))


def read_all(fd):
    said = b""
    while True:
        try:
            part = os.read(fd, 65536)
        except OSError:  # the other end is closed
            part = b""
        if not part:
            return said.decode()
        said += part


@pytest.mark.parametrize("columns", ["40", "120"])
def test_terminal(mlp, tmp_path, columns):
    ours, theirs = pty.openpty()
    child = tuned(mlp, tmp_path, stderr=theirs, env=dict(os.environ, COLUMNS=columns, LINES="24"))
    os.close(theirs)
    said = read_all(ours)
    os.close(ours)
    assert child.wait() == 0
    assert said.endswith("\r\n") and said.count("\n") == 1  # one line, which then stays
    shown = re.split(r"\r\x1b\[K", said.rstrip("\r\n"))
    assert shown[0] == "" and len(shown) > 2
    assert all(re.match(r"\[#*\.*\] ", s) and len(s) < int(columns) for s in shown[1:])


P = korch.Progress


def test_bar():
    for spent, left, bar in ((0, 0, "." * 20), (0, 8, "." * 20), (2, 6, "#" * 5 + "." * 15), (9, 0, "#" * 20)):
        assert _progress.bar(P("measuring", seconds=spent, seconds_left=left)) == f"[{bar}]"


class Display:
    """What IPython.display.display does in a notebook, written down."""

    def __init__(self):
        self.shown, self.updated = [], []

    def __call__(self, data, raw, display_id):
        assert raw and display_id is True
        self.shown.append(data["text/plain"])
        return types.SimpleNamespace(update=lambda data, raw: self.updated.append(data["text/plain"]))


def test_notebook(monkeypatch):
    display = Display()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(
        get_ipython=lambda: types.SimpleNamespace(kernel=object()), display=types.SimpleNamespace(display=display)))
    shown = _progress.to(True)
    for phase in ("reading the model", "measuring", "solving"):
        shown.show(P(phase, seconds=1, seconds_left=1))
    shown.close()
    assert [s.split("] ")[1].split("  ")[0] for s in display.shown + display.updated] == [
        "reading the model", "measuring", "solving"]
    assert len(display.shown) == 1


def test_ipython_in_a_terminal(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: object()))
    assert not isinstance(_progress.to(True), _progress._Notebook)


def test_no_stderr(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert _progress.to(True) is None


def test_a_function_of_ones_own(mlp, tmp_path):
    seen = []
    korch.tune(mlp, tmp_path / "p.korch", budget=0, progress=seen.append)
    assert seen and all(isinstance(p, korch.Progress) and p.phase for p in seen)


def test_a_real_notebook(mlp, tmp_path):
    """By Jupyter's own kernel, where it is here: what a cell shows is one text, the last."""
    nbformat = pytest.importorskip("nbformat", reason="no notebook here: nbclient and ipykernel")
    nbclient = pytest.importorskip("nbclient", reason="no notebook here: nbclient and ipykernel")
    pytest.importorskip("ipykernel", reason="no notebook here: nbclient and ipykernel")
    cell = nbformat.v4.new_code_cell(
        f"import korch\nplan = korch.tune({str(mlp)!r}, {str(tmp_path / 'p.korch')!r}, budget=3, progress=True)")
    nbclient.NotebookClient(nbformat.v4.new_notebook(cells=[cell]), kernel_name="python3").execute()
    shown = [o for o in cell.outputs if o.output_type == "display_data"]
    assert len(cell.outputs) == len(shown) == 1
    assert re.match(r"\[#*\.*\] \S", shown[0].data["text/plain"])
