"""Charts as SVG: small functions from numbers to markup.

A chart holds no text, so that it can be stretched to any width; axes and legends are HTML around it. Colours come from
the page's style by class, so that they follow light and dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup, escape

from harpoon.report.summary import Pass

WIDTH, HEIGHT = 400, 100
LARGEST_DIFFERENCE = 0.25  # of two associations, which has the full colour
FAINT = 0.02  # less colour than this is none


def steps(shares: Mapping[str, Sequence[float]], label: str) -> Markup:
    """Distributions over the same bins: the first as an area, the others as lines."""
    most = max((share for one in shares.values() for share in one), default=0.0) or 1.0
    parts = []
    for number, one in enumerate(shares.values()):
        heights = [HEIGHT - (HEIGHT - 4) * share / most for share in one]
        width = WIDTH / max(len(one), 1)
        path = "".join(f"V{_short(y)}H{_short((i + 1) * width)}" for i, y in enumerate(heights))
        parts.append(f'<path class="series-{number}" d="M0 {HEIGHT}{path}V{HEIGHT}"/>')
    return _svg("steps", "".join(parts), label)


def curve(passes: Sequence[Pass], label: str) -> Markup:
    """The loss of training rows, and of held-out rows where there are some, pass by pass."""
    series: list[list[float | None]] = [[one["loss"] for one in passes], [one["held_out_loss"] for one in passes]]
    values = [value for one in series for value in one if value is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    first, last = passes[0]["number"], passes[-1]["number"]
    parts = []
    for number, one in enumerate(series):
        points = [
            f"{_short(WIDTH * (at['number'] - first) / max(last - first, 1))},"
            f"{_short(HEIGHT - 4 - (HEIGHT - 8) * (value - low) / ((high - low) or 1.0))}"
            for at, value in zip(passes, one, strict=True)
            if value is not None
        ]
        parts.append(f'<polyline class="line-{number}" points="{" ".join(points)}"/>')
    return _svg("curve", "".join(parts), label)


def heat(names: Sequence[str], square: Sequence[Sequence[float | None]], label: str, *, full: float = 1.0) -> Markup:
    """A square of numbers: one colour above zero, another below, fainter towards it; `full` has the full colour."""
    cells = [
        f'<rect x="{j}" y="{i}"{_shade(value, full)}><title>{escape(_pair(names[i], names[j], value))}</title></rect>'
        for i, row in enumerate(square)
        for j, value in enumerate(row)
    ]
    size = len(square)
    return Markup(  # noqa: S704  # of numbers and escaped text
        f'<svg class="heat" viewBox="0 0 {size} {size}" role="img" aria-label="{escape(label)}">{"".join(cells)}</svg>'
    )


def _shade(value: float | None, full: float) -> str:
    if value is None or abs(value) / full < FAINT:
        return ' class="none"'
    return f' class="{"above" if value > 0 else "below"}" fill-opacity="{_short(min(abs(value) / full, 1.0))}"'


def _pair(left: str, right: str, value: float | None) -> str:
    return f"{left} · {right}: {'none' if value is None else f'{value:.2f}'}"


def barcode(names: Sequence[str], missing: Sequence[str]) -> Markup:
    """One small square per column, filled where it is missing."""
    gone = set(missing)
    cells = "".join(
        f'<rect class="{"gone" if name in gone else "there"}" x="{10 * i}" width="8" height="14" rx="1.5"/>'
        for i, name in enumerate(names)
    )
    return Markup(  # noqa: S704  # of numbers alone
        f'<svg class="barcode" viewBox="0 0 {10 * len(names)} 14" preserveAspectRatio="xMinYMid meet" '
        f'aria-hidden="true">{cells}</svg>'
    )


def differences(
    left: Sequence[Sequence[float | None]], right: Sequence[Sequence[float | None]]
) -> list[list[float | None]]:
    """The second square minus the first, where both have a number."""
    return [
        [None if a is None or b is None else b - a for a, b in zip(row, other, strict=True)]
        for row, other in zip(left, right, strict=True)
    ]


def _svg(name: str, content: str, label: str) -> Markup:
    return Markup(  # noqa: S704  # of numbers and escaped text
        f'<svg class="{name}" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{content}</svg>'
    )


def _short(value: float) -> str:
    """A coordinate without digits that nobody could see."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
