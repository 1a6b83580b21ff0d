"""Cards: how results show themselves in a notebook, as HTML without script.

All text is escaped, unless it is `Html` already. Colours are mixed from that of the surrounding text, so that a card
suits light and dark notebooks; where a notebook removes styles, plain tables are left.

    >>> Html.of("a < b"), Html.of(Html("<b>a</b>"))
    ('a &lt; b', '<b>a</b>')
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Protocol

from harpoon._formatting import format_percent, shorten

MAX_ROWS = 40  # of a table; the others are counted
MAX_CHARACTERS = 200  # of a cell
STYLE = (
    ".harpoon-card{--hp-line:color-mix(in srgb,currentColor 18%,transparent);"
    "--hp-soft:color-mix(in srgb,currentColor 68%,transparent);--hp-accent:#2488ad;max-width:60rem;margin:.3rem 0;"
    "padding:.8rem 1rem;border:1px solid var(--hp-line);border-radius:10px;font:400 14px/1.5 system-ui,sans-serif;"
    "overflow-wrap:break-word;overflow-x:auto}"
    ".harpoon-card .title{margin:0 0 .4rem;font-size:15px;font-weight:600}"
    ".harpoon-card p{margin:.4rem 0}.harpoon-card .quiet{color:var(--hp-soft);font-weight:400}"
    ".harpoon-card .number{font-size:26px;line-height:1.2;margin:.2rem 0}"
    ".harpoon-card code{background:none;color:inherit;font:400 .92em ui-monospace,Menlo,Consolas,monospace}"
    ".harpoon-card table{color:inherit;border-collapse:collapse;margin:.5rem 0 0;font-size:13px;"
    "font-variant-numeric:tabular-nums}"
    ".harpoon-card.harpoon-card tr{background:none}"
    ".harpoon-card th,.harpoon-card td{padding:.25rem 1.1rem .25rem 0;border:0;border-bottom:1px solid var(--hp-line);"
    "text-align:left;vertical-align:top;white-space:normal;max-width:34rem}"
    ".harpoon-card thead th{color:var(--hp-soft);font-weight:500}.harpoon-card tbody th{font-weight:500}"
    ".harpoon-card tr .figure{text-align:right;white-space:nowrap}"
    ".harpoon-card .bar{display:inline-block;width:6rem;height:.45em;margin-right:.6em;border-radius:3px;"
    "background:var(--hp-line);overflow:hidden}"
    ".harpoon-card .bar i{display:block;height:100%;background:var(--hp-accent)}"
    ".harpoon-card .badge{display:inline-block;margin-left:.6em;padding:0 .6em;border:1px solid currentColor;"
    "border-radius:1em;font-size:12px;font-weight:500}"
    ".harpoon-card .warning{padding-left:.7rem;border-left:3px solid #c8641e}"
    ".harpoon-card .light,.harpoon-card .lead{font-weight:600}"
    '.harpoon-card .light::before{content:"\\25cf";margin-right:.35em}'
    ".harpoon-card .green{color:#2c8f5e}.harpoon-card .yellow{color:#a8790a}.harpoon-card .red{color:#d5493a}"
    ".harpoon-card summary{cursor:pointer;color:var(--hp-soft)}"
)


class Html(str):
    """Text that is HTML already, and is not escaped again."""

    __slots__ = ()

    @classmethod
    def of(cls, value: object) -> Html:
        """Return a value as HTML: its text, shortened and escaped."""
        return value if isinstance(value, Html) else Html(escape(shorten(str(value), shown=MAX_CHARACTERS)))


class Printer(Protocol):
    """The pretty printer of IPython, as far as it is used."""

    def text(self, text: str) -> None:
        """Print a text."""


class Displayed:
    """A result that a notebook shows as a card, and IPython's terminal as its `str`."""

    def __init_subclass__(cls, **options: object) -> None:
        """Give each class the method itself: IPython prefers the `__repr__` of a class to what it inherits."""
        super().__init_subclass__(**options)
        cls._repr_pretty_ = Displayed._repr_pretty_  # type: ignore[method-assign]

    def _card(self) -> Html:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return str(self._card())

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:  # noqa: FBT001, ARG002  # IPython's signature
        printer.text(str(self))


def card(title: object, *parts: Html, badge: str = "") -> Html:
    """Return a card: a title, with a word at its side, and its parts below."""
    word = f'<span class="badge">{Html.of(badge)}</span>' if badge else ""
    heading = f'<p class="title">{Html.of(title)}{word}</p>'
    return Html(f'<div class="harpoon-card"><style>{STYLE}</style>{heading}{"".join(parts)}</div>')


def escaped(text: object) -> Html:
    """Return a text as HTML in full length."""
    return text if isinstance(text, Html) else Html(escape(str(text)))


def paragraph(text: object, *, role: str = "") -> Html:
    """Return a paragraph; nothing of an empty text. Its role is "quiet", "warning", "number" or none."""
    content = escaped(text)
    return Html(f'<p class="{role}">{content}</p>' if role else f"<p>{content}</p>") if content else Html()


def lighted(light: str, word: str, lead: object, text: object) -> Html:
    """Return a paragraph with a light, "green", "yellow", "red" or "none", its word, a bold lead and a text."""
    first = f'<span class="light {escape(light)}">{escape(word)}</span> <span class="lead">{escaped(lead)}.</span>'
    return Html(f"<p>{first} {escaped(text)}</p>")


def code(text: object) -> Html:
    """Return a text in the letters of code."""
    return Html(f"<code>{Html.of(text)}</code>")


def bar(fraction: float) -> Html:
    """Return a fraction as a bar, and in per cent.

    >>> bar(0.25)
    '<span class="bar"><i style="width:25.0%"></i></span>25 %'
    """
    width = 100 * min(max(fraction, 0.0), 1.0)
    return Html(f'<span class="bar"><i style="width:{width:.1f}%"></i></span>{format_percent(fraction)}')


def facts(pairs: Mapping[str, object]) -> Html:
    """Return a table of names and values; a value that is None or "" is left out."""
    rows = [
        f"<tr><th>{Html.of(name)}</th><td>{escaped(value)}</td></tr>"
        for name, value in pairs.items()
        if value is not None and value != ""
    ]
    return Html(f"<table><tbody>{''.join(rows)}</tbody></table>") if rows else Html()


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, figures: Collection[str] = (), what: str = "rows"
) -> Html:
    """Return a table with its first rows; the first cell of each row is its name.

    Args:
        head: The titles of the columns.
        rows: The cells.
        figures: The titles of columns of numbers, which are aligned on the right.
        what: What the rows are, for the number of those that are not shown.
    """
    rows = [tuple(row) for row in rows]
    kinds = [' class="figure"' if title in figures else "" for title in head]
    titles = "".join(f"<th{kind}>{Html.of(title)}</th>" for title, kind in zip(head, kinds, strict=True))
    lines = []
    for row in rows[:MAX_ROWS]:
        name, *others = (Html.of(cell) for cell in row)
        cells = (f"<td{kind}>{cell}</td>" for cell, kind in zip(others, kinds[1:], strict=True))
        lines.append(f"<tr><th{kinds[0]}>{name}</th>{''.join(cells)}</tr>")
    rest = paragraph(f"and {len(rows) - MAX_ROWS:,} more {what}", role="quiet") if len(rows) > MAX_ROWS else ""
    return Html(f"<table><thead><tr>{titles}</tr></thead><tbody>{''.join(lines)}</tbody></table>{rest}")


def folded(summary: object, content: Html) -> Html:
    """Return content that is shown when a reader opens it."""
    return Html(f"<details><summary>{Html.of(summary)}</summary>{content}</details>")
