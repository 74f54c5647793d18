"""A search to wait for: test processes that interrupt, fork or end while one measures."""

import threading


class Measuring:
    """A `progress` that knows when the first kernel is measured."""

    def __init__(self):
        self._begun = threading.Event()

    def __call__(self, p):
        if p.phase == "measuring":
            self._begun.set()

    def wait(self, search):
        """Until then; a search that ended before is an error: nothing would ever set it."""
        while not self._begun.wait(0.2):
            if not search.is_alive() and not self._begun.is_set():
                raise RuntimeError("it ended before it measured") from search.failure
