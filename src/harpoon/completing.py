"""Given rows completed under a condition: every row keeps its cells, and its holes are filled so that it is met."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from harpoon.bound import Bound, negated
from harpoon.cells import Index, Rows, laid_over, taken
from harpoon.drawing import Drawer
from harpoon.errors import InvalidCondition, listed
from harpoon.exact import holds
from harpoon.guidance import Penalty
from harpoon.pulling import Puller

TRIES, PULLS = 16, 5
APART = 2**20  # draws of one table are numbered so far apart from those of the next


def check_possible(rows: Rows, bound: Bound, text: str) -> None:
    """Refuse a condition that the cells of a row already break."""
    if never(bound, rows):
        return  # the cells are not to blame
    broken = np.flatnonzero(holds(negated(bound), rows))
    if len(broken):
        rows_are = "row" if len(broken) == 1 else "rows"
        raise InvalidCondition(
            f"The condition {text} is broken by cells that are already there, in {rows_are} {listed(broken.tolist())} "
            "(counted from 0). Empty those cells, leave those rows out, or ask for less."
        )


def never(bound: Bound, rows: Rows) -> bool:
    """Whether a condition is false whatever is in a row."""
    blank = {name: replace(cells[:1], missing=np.ones(1, dtype=np.bool_)) for name, cells in rows.items()}
    return bool(holds(negated(bound), blank).all())


def completed(
    drawer: Drawer, rows: Rows, index: Index, bound: Bound, *, loss: Penalty | None = None, draw: int = 0
) -> tuple[Rows, NDArray[np.bool_]]:
    """Rows with every hole filled, and which of them meet the condition.

    A row is drawn again until it meets the condition; those that will not are pulled, harder each time.
    """
    found, met = drawer.draw(rows, index, draw=draw), np.zeros(len(index), dtype=np.bool_)
    if loss is None:
        met = holds(bound, found)
    for attempt in range(1, TRIES + PULLS):
        left = np.flatnonzero(~met)
        if not len(left):
            break
        part, number = taken(rows, left), draw + attempt * APART
        if attempt < TRIES and loss is None:
            again = drawer.draw(part, index[left], draw=number)
        else:
            puller = replace(Puller.of(drawer, bound, loss), corrected=False)
            again = puller.pulled(part, index[left], draw=number, harder=2.0 ** max(attempt - TRIES, 0))
            drawer.evaluations += puller.drawer.evaluations
        found = laid_over(found, again, left)
        met[left] = holds(bound, again)
    return found, met
