"""progress=True: a bar in a terminal, a line of the cell in a notebook, a line a phase elsewhere."""

import shutil
import sys

_CELLS = 20


def bar(p):
    """The part of the budget that is spent, as "[#####...............]"."""
    whole = p.seconds + p.seconds_left
    full = int(_CELLS * p.seconds / whole) if whole > 0 else 0
    return "[" + "#" * full + "." * (_CELLS - full) + "]"


class _Terminal:
    """One line that is written over."""

    def __init__(self, out):
        self._out = out

    def show(self, p):
        columns = shutil.get_terminal_size().columns - 1  # some terminals wrap as soon as the last one is written
        self._out.write("\r\x1b[K" + f"{bar(p)} {p}"[:columns])
        self._out.flush()

    def close(self):
        self._out.write("\n")
        self._out.flush()


class _Notebook:
    """A display that is updated: Jupyter's own protocol, no widget."""

    def __init__(self, display):
        self._display, self._handle = display, None

    def show(self, p):
        text = {"text/plain": f"{bar(p)} {p}"}
        if self._handle is None:
            self._handle = self._display(text, raw=True, display_id=True)
        else:
            self._handle.update(text, raw=True)

    def close(self):
        pass


class _Lines:
    """A line at each phase: for files and pipes."""

    def __init__(self, out):
        self._out, self._phase = out, None

    def show(self, p):
        if p.phase != self._phase:
            self._phase = p.phase
            self._out.write(f"{p}\n")
            self._out.flush()

    def close(self):
        pass


class _Function:
    """A caller's own."""

    def __init__(self, show):
        self.show = show

    def close(self):
        pass


def _notebook_display():
    """IPython.display.display where a kernel sends what is displayed to a notebook, else None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return ipython.display.display if hasattr(shell, "kernel") else None


def to(progress):
    """What shows a search for progress=True or a function; None: nothing is to be shown."""
    if progress is not True:
        return _Function(progress) if progress else None
    display = _notebook_display()
    if display:
        return _Notebook(display)
    if sys.stderr is None:
        return None
    return _Terminal(sys.stderr) if sys.stderr.isatty() else _Lines(sys.stderr)
