"""Charts as inline SVG, without text: axes and legends are HTML around them, so that a chart can be stretched.

Colours come from the style sheet of the page by class, so that they follow its light and dark scheme.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from markupsafe import Markup, escape

from harpoon.report.summary import Epoch

WIDTH, HEIGHT = 400, 100
MAX_DIFFERENCE = 0.25  # a difference of two associations that has the full colour
MIN_OPACITY = 0.02  # paler cells have no colour
Matrix = Sequence[Sequence[float | None]]


def histogram(fractions: Mapping[str, Sequence[float]], label: str) -> Markup:
    """Draw distributions over the same bins: the first as an area, the others as lines."""
    highest = max((fraction for one in fractions.values() for fraction in one), default=0.0) or 1.0
    paths = []
    for number, one in enumerate(fractions.values()):
        heights = [HEIGHT - (HEIGHT - 4) * fraction / highest for fraction in one]
        width = WIDTH / max(len(one), 1)
        path = "".join(f"V{_coordinate(y)}H{_coordinate((i + 1) * width)}" for i, y in enumerate(heights))
        paths.append(f'<path class="series-{number}" d="M0 {HEIGHT}{path}V{HEIGHT}"/>')
    return _svg("histogram", "".join(paths), label)


def loss_curve(epochs: Sequence[Epoch], label: str) -> Markup:
    """Draw the loss, and the validation loss if there is one, by epoch."""
    series: list[list[float | None]] = [[one["loss"] for one in epochs], [one["validation_loss"] for one in epochs]]
    values = [value for one in series for value in one if value is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    first, last = epochs[0]["number"], epochs[-1]["number"]
    lines = []
    for number, one in enumerate(series):
        points = [
            f"{_coordinate(WIDTH * (epoch['number'] - first) / max(last - first, 1))},"
            f"{_coordinate(HEIGHT - 4 - (HEIGHT - 8) * (value - low) / ((high - low) or 1.0))}"
            for epoch, value in zip(epochs, one, strict=True)
            if value is not None
        ]
        lines.append(f'<polyline class="line-{number}" points="{" ".join(points)}"/>')
    return _svg("curve", "".join(lines), label)


def heat_map(names: Sequence[str], matrix: Matrix, label: str, *, full: float = 1.0) -> Markup:
    """Draw a matrix: one colour above zero, another below, paler towards zero; `full` has the full colour."""
    cells = []
    for (i, left), (j, right) in product(enumerate(names), repeat=2):
        value = matrix[i][j]
        text = escape(f"{left} · {right}: {'none' if value is None else f'{value:.2f}'}")
        cells.append(f'<rect x="{j}" y="{i}"{_shade(value, full)}><title>{text}</title></rect>')
    size, about = len(matrix), f'role="img" aria-label="{escape(label)}"'
    return Markup(f'<svg class="heat" viewBox="0 0 {size} {size}" {about}>{"".join(cells)}</svg>')  # noqa: S704


def missing_pattern(names: Sequence[str], missing: Sequence[str]) -> Markup:
    """Draw one small square per column, filled if the column is missing."""
    is_missing = set(missing)
    cells = "".join(
        f'<rect class="{"missing" if name in is_missing else "observed"}" x="{10 * i}" width="8" height="14" rx="1.5"/>'
        for i, name in enumerate(names)
    )
    return Markup(  # noqa: S704  # of numbers alone
        f'<svg class="pattern" viewBox="0 0 {10 * len(names)} 14" preserveAspectRatio="xMinYMid meet" '
        f'aria-hidden="true">{cells}</svg>'
    )


def subtract(left: Matrix, right: Matrix) -> list[list[float | None]]:
    """Return the second matrix minus the first; None if either number is None."""
    return [
        [None if a is None or b is None else b - a for a, b in zip(row, other, strict=True)]
        for row, other in zip(left, right, strict=True)
    ]


def _shade(value: float | None, full: float) -> str:
    if value is None or abs(value) / full < MIN_OPACITY:
        return ' class="pale"'
    return f' class="{"above" if value > 0 else "below"}" fill-opacity="{_coordinate(min(abs(value) / full, 1.0))}"'


def _svg(name: str, content: str, label: str) -> Markup:
    return Markup(  # noqa: S704  # of numbers and escaped text
        f'<svg class="{name}" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{content}</svg>'
    )


def _coordinate(value: float) -> str:
    """Return a coordinate with two decimals at most; more cannot be seen."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
