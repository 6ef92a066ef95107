"""rt-app's files, as rt-app's own workgen prepares them for rt-app."""

import json
import re
from itertools import count
from pathlib import Path
from typing import Any

from tools.command import PROJECT, Failed, Json

EVENTS = {"run", "sleep", "resume", "suspend", "lock", "unlock", "sync", "timer", "wait", "signal"}


def file_of(load: str) -> Path:
    """The file of a load in workloads/ or of rt-app's examples."""
    for folder in (PROJECT / "workloads", Path("/usr/share/doc/rt-app/examples")):
        path = folder / f"{load}.json"
        if path.exists():
            return path
    raise Failed(f"{load}: no such load in workloads/ or rt-app's examples")


def prepared(load: str, loop_ns: int, seconds: int = 3) -> Json:
    """A load with this duration, in which a loop of rt-app takes `loop_ns` (the larger the number, the lighter the load).
    Repeated keys get numbers, and a "suspend" without a value gets the name of its task."""
    numbers = count(1)

    def numbered(pairs: list[tuple[str, object]]) -> Json:
        return {f"{key}{next(numbers)}" if key in EVENTS else key: value for key, value in pairs}

    def name_suspends(task: str, content: Any) -> None:
        for key, value in content.items() if isinstance(content, dict) else ():
            if key.startswith("suspend") and value is None:
                content[key] = task
            name_suspends(task, value)

    # JSON has neither comments nor trailing commas.
    text = re.sub(r",(\s*[\]}])", r"\1", re.sub(r"/\*.*?\*/", "", file_of(load).read_text(), flags=re.S))
    content: Json = json.loads(re.sub(r'"suspend"(\s*[,}])', r'"suspend": null\1', text), object_pairs_hook=numbered)
    for task, of in content["tasks"].items():
        name_suspends(task, of)
    content["global"] |= {"duration": seconds, "calibration": loop_ns, "logdir": "./", "log_basename": "rt"}
    return content
