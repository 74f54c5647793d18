"""Interrupts, forks, interpreters that end, plans for other devices: a clear exception each, and nothing stays behind."""

import concurrent.futures
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys

import numpy as np
import pytest
from conftest import farm, small_models, until
from searching import Measuring

import korch

X = np.ones((4, 8), "f4")
CANDY = small_models()[0] + "/model.onnx" if small_models() else ""


# Where a shell started us in the background, SIGINT is ignored, and children inherit that.
LISTENS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def run_script(text, *words, folder, stdin=None, **env):
    (folder / "tmp").mkdir(exist_ok=True)
    env = {**os.environ, "XDG_DATA_HOME": str(folder), "XDG_CACHE_HOME": str(folder), "TMPDIR": str(folder / "tmp"), **env}
    return subprocess.Popen([sys.executable, "-c", LISTENS + text, *map(str, words)], env=env, stdin=stdin,
                            stdout=subprocess.PIPE, text=True)


def left_in(folder):
    """Files of the package's; a daemon that is still there has some of its own."""
    return [n for n in os.listdir(folder / "tmp") if n.startswith("korch-own-")]


# ---- interrupts --------------------------------------------------------------------------------------------------------
INTERRUPTED_RUN = """
import korch, numpy as np, sys
session = korch.InferenceSession(sys.argv[1])
x = {session.get_inputs()[0].name: np.ones(session.get_inputs()[0].shape, "f4")}
want = session.run(None, x)[0]
try:
    print("running", flush=True)
    while True:
        session.run(None, x)
except KeyboardInterrupt:
    print("interrupted", np.array_equal(session.run(None, x)[0], want))
"""


def test_an_interrupted_run(tmp_path):
    child = run_script(INTERRUPTED_RUN, CANDY, folder=tmp_path)
    until(child, "running")
    child.send_signal(signal.SIGINT)
    assert child.stdout.read() == "interrupted True\n" and child.wait() == 0
    assert not left_in(tmp_path)


INTERRUPTED_OPEN = """
import korch, sys
model = open(sys.argv[1], "rb").read()
try:
    korch.InferenceSession(model)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupted_open(mlp, tmp_path):
    """By a korch-submit that says that it runs, and then takes for ever."""
    os.mkfifo(tmp_path / "runs")
    fake = tmp_path / "korch-submit"
    fake.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/runs\nexec sleep 1000000\n")
    fake.chmod(0o755)
    child = run_script(INTERRUPTED_OPEN, mlp, folder=tmp_path, KORCH_BIN=str(tmp_path))
    pid = int((tmp_path / "runs").read_text())
    child.send_signal(signal.SIGINT)
    assert child.stdout.read() == "interrupted\n" and child.wait() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not left_in(tmp_path)


# ---- ends ----------------------------------------------------------------------------------------------------------------
SEARCH = """
import korch, os, sys
from searching import Measuring
measuring = Measuring()
session = korch.InferenceSession(open(sys.argv[1], "rb").read(), tune="background", budget=300, progress=measuring)
measuring.wait(session._search)
{then}
"""


def test_the_end_of_an_interpreter_that_tunes(tmp_path):
    child = run_script(SEARCH.format(then="print('the end', flush=True)"), CANDY, folder=tmp_path)
    until(child, "the end")
    assert child.wait() == 0
    assert not left_in(tmp_path)


SESSION = """
import korch, sys
session = korch.InferenceSession(open(sys.argv[1], "rb").read())
print("open", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_interpreter_left_goes_with_the_next_start(mlp, tmp_path):
    """And what one that lives needs stays."""
    killed, lives, last = (run_script(SESSION, mlp, folder=tmp_path, stdin=subprocess.PIPE) for _ in range(3))
    for child in (killed, lives, last):
        until(child, "open")
    assert len(left_in(tmp_path)) == 3
    killed.kill()
    killed.wait()
    last.communicate()
    assert len(left_in(tmp_path)) == 2
    run_script(SESSION, mlp, folder=tmp_path, stdin=subprocess.PIPE).communicate()
    assert len(left_in(tmp_path)) == 1
    lives.communicate()
    assert not left_in(tmp_path)


FORK = """
child = os.fork()
if child == 0:
    sys.exit(7)  # by way of atexit
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), session._search.is_alive(), os.path.exists(session._model))
"""


def test_the_end_of_a_forked_child_is_not_its_parents(tmp_path):
    child = run_script(SEARCH.format(then=FORK), CANDY, folder=tmp_path)
    assert child.stdout.read() == "7 True True\n" and child.wait() == 0
    assert not left_in(tmp_path)


def test_a_search_ends_with_its_session():
    measuring = Measuring()
    session = korch.InferenceSession(CANDY, tune="background", budget=300, progress=measuring)
    measuring.wait(session._search)
    search = session._search
    del session
    gc.collect()
    search.join()
    assert isinstance(search.failure, korch.Cancelled)


# ---- other processes -------------------------------------------------------------------------------------------------------
def opened_in_a_child(path):
    return korch.InferenceSession(path).run(["y"], {"x": X})[0]


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_sessions_in_children(mlp, method):
    session = korch.InferenceSession(mlp)
    want = session.run(["y"], {"x": X})[0]
    # not multiprocessing's own pool: that waits for ever for a child that is dead
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        for y in pool.map(opened_in_a_child, [mlp] * 4):
            assert np.array_equal(y, want)
    assert np.array_equal(session.run(["y"], {"x": X})[0], want)


def test_a_session_is_not_sent(mlp):
    with pytest.raises(TypeError) as e:
        pickle.dumps(korch.InferenceSession(mlp))
    assert "open one in the other, from the same file" in str(e.value)


# ---- plans for other devices -------------------------------------------------------------------------------------------------
@pytest.fixture
def fake_farm(tmp_path):
    """A daemon whose one worker has the fake device."""
    with farm(tmp_path, "fake:seed=1") as url:
        yield url


def test_a_plan_of_another_class(mlp, tmp_path, fake_farm):
    with pytest.raises(korch.InvalidDevice) as e:
        korch.tune(mlp, tmp_path / "p.korch", budget=0, device="fake*", daemon=fake_farm)
    assert 'p.korch: it is for a device with "fake"' in str(e.value)
    for how in ({}, {"threads": 1}):
        with pytest.raises(korch.InvalidDevice):
            korch.InferenceSession(tmp_path / "p.korch", **how)


def test_a_plan_for_a_gpu(mlp, tmp_path):
    """Without one here: what is missing, and what to install."""
    try:
        korch.tune(mlp, tmp_path / "p.korch", budget=0, device="cuda-fake:gpu=a100,seed=1")
    except (korch.NotSetUp, korch.InvalidDevice) as e:  # there may be a GPU of another kind
        assert "p.korch: no GPU" in str(e)
