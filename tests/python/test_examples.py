"""Each block of client/python/EXAMPLES.md, run as it stands, and those of the folder's README and of the first one."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from conftest import farm, small_models

HERE = pathlib.Path(__file__).resolve().parents[2] / "client" / "python"


def blocks(page):
    """[(heading, words after "python", text)] of a page."""
    found, heading = [], ""
    for m in re.finditer(r"^## (.*)$|^```python *(.*)\n((?:.*\n)*?)```$", (HERE / page).read_text(), re.M):
        heading = m[1] or heading
        if m[3]:
            found.append((f"{page} {heading} {len(found)}", m[2], m[3]))
    return found


BLOCKS = blocks("EXAMPLES.md") + blocks("README.md") + blocks("../../README.md")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """The address of a daemon with a worker."""
    with farm(tmp_path_factory.mktemp("daemon"), "cpu") as url:
        yield url


@pytest.mark.parametrize("words,text", [b[1:] for b in BLOCKS], ids=[b[0] for b in BLOCKS])
def test_block(words, text, tmp_path, open_model, daemon):
    if words == "torch":
        pytest.importorskip("torch", reason="torch is not here (KORCH_TEST_PYTHON names an interpreter that has it)")
        pytest.importorskip("onnxscript", reason="onnxscript is not here: torch.onnx needs it")
    shutil.copy(small_models()[0] + "/model.onnx", tmp_path / "model.onnx")
    shutil.copy(open_model, tmp_path / "open.onnx")
    ran = subprocess.run([sys.executable, "-W", "error::RuntimeWarning", "-c", f"DAEMON = {daemon!r}\n" + text],
                         cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert ran.returncode == 0, ran.stdout
    for line, said in re.findall(r"^ *(print\(.*\)) *# (\S.*)$", text, re.M):
        assert said in ran.stdout, f"{line} said {ran.stdout}"


def test_there_are_blocks():
    assert len(BLOCKS) > 10
