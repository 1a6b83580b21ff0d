"""Modules and rooms that one row passes in fit, impute and sample.

    python benchmarks/scripts/row_trace.py

Writes benchmarks/results/scripts/row_trace.json. The numbers of version 0.1, with all modules in
one folder, were measured with the same code at its last commit.
"""

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from palmerpenguins import load_penguins

from harpoon import Harpoon

RECORD = Path(__file__).parents[1] / "results" / "scripts" / "row_trace.json"
BEFORE = {
    "fit": {"modules": 32, "module_changes": 1525},
    "impute": {"modules": 25, "module_changes": 256},
    "sample": {"modules": 39, "module_changes": 1241},
}


def trace(call: Callable[[], object]) -> dict[str, int]:
    """Count the modules and rooms that a call enters, and the changes between them."""
    last, changes, entered = ["", ""], [0, 0], (set[str](), set[str]())

    def on_event(frame: FrameType, event: str, _argument: object) -> None:
        module = str(frame.f_globals.get("__name__", ""))
        if event != "call" or not module.startswith("harpoon."):
            return
        for i, name in enumerate((module, module.split(".")[1])):
            entered[i].add(name)
            changes[i] += name != last[i]
            last[i] = name

    sys.setprofile(on_event)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {
        "modules": len(entered[0]),
        "module_changes": changes[0],
        "rooms": len(entered[1]),
        "room_changes": changes[1],
    }


def main() -> None:
    """Trace one row, and write the record."""
    warnings.simplefilter("ignore")
    penguins = load_penguins()
    row, where = penguins.iloc[[3]], "body_mass_g >= 5000"
    model = Harpoon(hidden=16, max_epochs=1, random_state=0, progress=False)
    after = {"fit": trace(lambda: model.fit(penguins))}
    model.impute(row)  # fill caches before tracing
    model.sample(1, where=where)
    after["impute"] = trace(lambda: model.impute(row))
    after["sample"] = trace(lambda: model.sample(1, where=where))
    RECORD.write_text(json.dumps({"before": BEFORE, "after": after}, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(after, indent=1))


if __name__ == "__main__":
    main()
