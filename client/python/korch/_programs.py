"""Korch's programs from Python: where they lie, how they are started, what they say."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sysconfig
import threading
import weakref

from ._errors import Cancelled, NotSetUp, of_class

_running = weakref.WeakSet()
_ending = threading.Event()
os.register_at_fork(after_in_child=_running.clear)  # a child ends none of its parent's programs


def program(name):
    """The path of korch-submit and its like: $KORCH_BIN, this package's own, beside the interpreter, then PATH."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")
    for folder in (os.environ.get("KORCH_BIN"), here, sysconfig.get_path("scripts")):
        if folder and os.access(os.path.join(folder, name), os.X_OK):
            return os.path.join(folder, name)
    path = shutil.which(name)
    if not path:
        raise NotSetUp(f"{name} is not installed: it comes with Korch's wheel, or name its folder in KORCH_BIN")
    return path


@contextlib.contextmanager
def _uninterrupted():
    """Ctrl-C waits for the end of the block: what was begun there is known by then."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came = []
    signal.signal(signal.SIGINT, lambda *what: came.append(what))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        before(*came[0])


class Call:
    """A running program that prints one JSON object a line; ends with its block, whatever happens there."""

    def __init__(self, name, arguments):
        self._name, self._arguments = name, arguments
        self._words = []
        self._error = None  # the object that says why it failed
        self._child = None

    def __enter__(self):
        try:
            with _uninterrupted():
                self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self._child:
            self.cancel()
            self._child.stdout.close()

    def _start(self):
        if _ending.is_set():
            raise Cancelled(f"{self._name} is not started: the interpreter ends")
        # A session of its own: Ctrl-C in a terminal reaches Python alone, which cancels.
        self._child = subprocess.Popen([program(self._name), *self._arguments, "--json"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       encoding="utf-8", errors="replace", start_new_session=True)
        self._reader = threading.Thread(target=self._read_words, daemon=True)
        self._reader.start()
        _running.add(self)

    def _read_words(self):
        for line in self._child.stderr:
            self._words.append(line.rstrip("\n"))

    def lines(self):
        """The objects, as they come; that of a failure is end's."""
        for line in self._child.stdout:
            said = json.loads(line) if line.startswith("{") else {}
            if "error" in said:
                self._error = said
            elif said:
                yield said

    def end(self):
        """Waits for the program; its last words are the exception where it failed."""
        status = self._child.wait()
        self._reader.join()
        _running.discard(self)
        if self._error:
            raise of_class(self._error["class"], status, self._error["error"])
        if status != 0:
            raise of_class("", status, self._last_words(status))

    def _last_words(self, status):
        prefix = self._name + ": "
        said = [w[len(prefix):] for w in self._words if w.startswith(prefix)]
        return "\n".join(said) or f"{self._name} ended with status {status}"

    def cancel(self):
        """The first signal cancels the job, a second one leaves at once."""
        for s in (signal.SIGINT, signal.SIGINT, signal.SIGKILL):
            if self._child.poll() is not None:
                break
            self._child.send_signal(s)
            try:
                self._child.wait(3)
            except subprocess.TimeoutExpired:
                continue
        self._child.wait()
        self._reader.join()
        _running.discard(self)


def cancel_all():
    """What still runs when the interpreter ends."""
    _ending.set()
    for call in list(_running):
        call.cancel()


def ask(name, arguments):
    """The last object that the program prints, whatever status it then ends with; an exception where that is an error."""
    last = None
    with Call(name, arguments) as call:
        for last in call.lines():
            pass
        if last is None:
            call.end()
    return last
