"""Checks that each function that requires a missing extra fails with one line that names it. tests/python runs this."""

import subprocess
import sys
import tomllib
from pathlib import Path

from equipoise.errors import EXTRAS

LOAD = "'tc2', 'mixed:duration=10ms', 'eevdf', runs=1"
CASES = {
    "pandas": [f"equipoise.simulate({LOAD}).runs.to_pandas()", f"equipoise.simulate({LOAD}).runs.to_pyarrow()"],
    "polars": [f"equipoise.simulate({LOAD}).runs.to_polars()"],
    "plot": ["import equipoise.plot"],
    "sweep": [f"equipoise.sweep({LOAD})"],
    "ray": [f"list(equipoise.Ray().run(None, []))"],
    "tune": ["equipoise.tune('equipoise', 'tc2', 'mixed:duration=10ms')"],
}

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
declared = {name: list(needed) for name, needed in project["optional-dependencies"].items() if name != "all"}


def modules(extra: str) -> set[str]:
    """The packages that pyproject.toml names for an extra, directly or through other extras."""
    found = set()
    for package in declared[extra]:
        name, _, more = package.partition("[")
        found |= modules(more.rstrip("]")) if name == "equipoise" else {name.partition(">")[0]}
    return found


assert EXTRAS.keys() == declared.keys() == CASES.keys()
for extra, names in EXTRAS.items():
    assert set(names) == modules(extra), extra
    for case in CASES[extra]:
        done = subprocess.run([sys.executable, "-c", f"import equipoise; {case}"], capture_output=True, text=True)
        lines = done.stderr.splitlines()
        assert done.returncode == 1 and len(lines) == 1, (case, done.stderr)
        assert f"with the extra `{extra}`" in lines[0] and "pip install" in lines[0], lines
