"""Runs the Python examples of the given Markdown files, those of each file one after another."""

import re
import sys
from pathlib import Path

for file in map(Path, sys.argv[1:]):
    names = {}
    for code in re.findall(r"^```python\n(.*?)^```$", file.read_text(), re.DOTALL | re.MULTILINE):
        exec(compile(code, str(file), "exec"), names)  # noqa: S102 - our own
    if not names:
        sys.exit(f"{file}: no example; expected one or more between ```python and ```")
