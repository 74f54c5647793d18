"""terminal.py MODEL DAEMON EMPTY_DAEMON: korch-submit on terminals of several widths.  Nothing it draws is wider than
the window, what a person looks for comes first, a new width is heard while nothing else happens, and a failure is
said once.  Prints what is wrong, else "ok N"."""
import fcntl
import os
import re
import struct
import subprocess
import sys
import termios

model, daemon, empty = sys.argv[1:]
checks = 0


def check(ok, why):
    global checks
    checks += 1
    if not ok:
        print("FAILED", why)


class Terminal:
    def __init__(self, columns, *args):
        self.fd, slave = os.openpty()
        self.resize(columns)
        self.text = b""

        def lead():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.child = subprocess.Popen(["korch-submit", model, "-o", "/dev/null", *args], stdin=slave, stdout=slave,
                                      stderr=slave, preexec_fn=lead)
        os.close(slave)

    def resize(self, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read(self):
        try:
            more = os.read(self.fd, 65536)
        except OSError:  # the last one has closed it
            more = b""
        self.text += more
        return more

    def until(self, pattern):
        while not re.search(pattern, self.text):
            if not self.read():
                return False
        return True

    def end(self):
        while self.read():
            pass
        os.close(self.fd)
        return self.child.wait()

    def bars(self):
        return [b.split(b"\r")[0].decode() for b in self.text.split(b"\r\x1b[K")[1:]]


def widths():
    for columns in (20, 40, 80, 159, 300):
        t = Terminal(columns, "--daemon", daemon, "--device", "fake", "--budget", "60", "--effort", str(columns % 7 + 1))
        check(t.end() == 0, f"{columns} columns: {t.text[-300:]}")
        bars = t.bars()[:-1]  # the last is cleared for the result
        check(any(b.startswith("best ") for b in bars), f"{columns} columns: no bar begins with the best: {bars}")
        for b in bars:
            check(len(b) < columns, f"{columns} columns: {len(b)} wide: {b}")


def new_width():
    t = Terminal(200, "--daemon", empty)
    check(t.until(rb"waiting: no connected worker is of device class 'cpu'"), f"no reason: {t.text}")
    before = len(t.bars())
    t.resize(30)
    while len(t.bars()) == before and t.read():
        pass
    t.until(rb"no connected w[^\r]*$")
    check(t.bars()[-1] == "waiting: no connected worker ", f"a new width is not heard: {t.bars()[before:]}")
    t.child.terminate()
    t.end()


def said_once():
    t = Terminal(100, "--daemon", daemon, "--device", "fake", "--budget", "60", "--forbid", "0123456789abcdef")
    check(t.end() == 2, f"a kernel that is none: {t.text}")
    check(len(re.findall(rb"none of this model's", t.text)) == 1, f"not said once: {t.text}")


widths()
new_width()
said_once()
print("ok", checks)
