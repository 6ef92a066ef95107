"""Every notebook runs from its first cell to its last, and has the outputs of such a run."""

import re
from pathlib import Path

import equipoise
import nbclient
import nbformat
import pytest

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_five():
    assert len(NOTEBOOKS) == 5


def text(output) -> str:
    """The text of an output that a reader sees."""
    return output.get("text", "") + output.get("data", {}).get("text/plain", "")


def stale(text: str) -> set[str]:
    """The settings in `text` that no longer exist: in `slice_ns=4000000`, in `slice_ns = 4000000` of a policy file and
    in `eevdf:frequency=false`. A load's parameters are not settings. Policies need no check: cells name them."""
    policies = {name: set(equipoise.Policy(name).settings) for name in equipoise.Policy.names()}
    known = set().union(*policies.values(), {"name", "description", "scheduler"})
    found = set(re.findall(r"(?:^|, |: )([a-z]\w*) ?= ?\S", text, re.MULTILINE)) - known
    for policy, setting in re.findall(r"\b([a-z][\w.-]*):([a-z]\w*)=", text):
        if policy in policies and setting not in policies[policy]:
            found.add(setting)
    return found


def test_stale_settings_are_found():
    text = 'equipoise, 9 trials: slice_ns=1, pull_ns=2\nscheduler = "equipoise"\nlag = 3\nmixed:duration=1\n'
    assert stale(text) == {"pull_ns", "lag"}
    assert stale("9 % more time than under eevdf:frequency=false, 2 % more than under eevdf:hrtik=true") == {"hrtik"}


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_it_runs(file, monkeypatch, tmp_path):
    # The work is reduced so that all five take a minute; see the notebooks' first cells.
    monkeypatch.setenv("EQUIPOISE_QUICK", "1")
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = nbformat.read(file, as_version=4)
    kept = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in kept), "tests/notebooks renews the outputs"
    said = "".join(output.get("text", "") for output in kept)
    assert "with all of the work" in said, "tests/notebooks without EQUIPOISE_QUICK renews the outputs"
    assert not stale("\n".join(map(text, kept))), "tests/notebooks renews the outputs"
    assert not any(output.output_type == "error" or output.get("name") == "stderr" for output in kept)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    drawn = [
        output for cell in notebook.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})
    ]
    assert drawn, "a notebook draws something"
