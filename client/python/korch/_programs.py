"""Korch's programs from Python: where they lie, how they are started, what they say."""

import json
import os
import shutil
import signal
import subprocess
import sysconfig
import threading
import weakref

from ._errors import NotSetUp, of_exit

_running = weakref.WeakSet()


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


class Call:
    """A running program that prints one JSON object a line; ends with its block, whatever happens there."""

    def __init__(self, name, arguments):
        self._name = name
        self._words = []
        # A session of its own: Ctrl-C in a terminal reaches Python alone, which cancels.
        self._child = subprocess.Popen([program(name), *arguments, "--json"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       encoding="utf-8", errors="replace", start_new_session=True)
        _running.add(self)
        self._reader = threading.Thread(target=self._read_words, daemon=True)
        self._reader.start()

    def _read_words(self):
        for line in self._child.stderr:
            self._words.append(line.rstrip("\n"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cancel()
        self._child.stdout.close()

    def lines(self):
        """The objects, as they come."""
        for line in self._child.stdout:
            if line.startswith("{"):
                yield json.loads(line)

    def end(self):
        """Waits for the program; its last words are the exception where it failed."""
        status = self._child.wait()
        self._reader.join()
        _running.discard(self)
        if status != 0:
            raise of_exit(status, self._sentence(status))

    def _sentence(self, status):
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
    for call in list(_running):
        call.cancel()


def ask(name, arguments):
    """The last object that the program prints, whatever status it then ends with; an exception where it says an error."""
    last = {}
    with Call(name, arguments) as call:
        for last in call.lines():
            pass
        if not last or "error" in last:
            call.end()
    return last
