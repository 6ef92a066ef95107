"""Every notebook runs from its first cell to its last, and has the outputs of such a run."""

from pathlib import Path

import nbclient
import nbformat
import pytest

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_five():
    assert len(NOTEBOOKS) == 5


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
    assert not any(output.output_type == "error" or output.get("name") == "stderr" for output in kept)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    drawn = [
        output for cell in notebook.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})
    ]
    assert drawn, "a notebook draws something"
