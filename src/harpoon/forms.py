"""Forms: what some numbers of a row say of another, such as a balance: the one before, less what was paid.

A form is a number of the row, the sum or difference of two, or a product of powers of one or two, in the units of the
table. Which forms are worth looking at is found in the training rows: sums that hold in some of them, products that
hold in all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from harpoon.encodings import Unit
from harpoon.scaling import Floats

CANDIDATES, SECONDS = 8, 2  # numbers that may begin a form for another, and that may go with each of them
MOST_NUMBERS = 128  # beyond, forms are single numbers
ROWS = 4096  # to tell by
SMALLEST = 1e-9
FAR_OUT = 3.0  # deviations from the mean
ROUNDED, ROUNDED_LOGS = 4e-7, 3e-6  # apart, as a share of their sizes, are equal sums and products in single precision
HALF_A_STEP = 0.501
FARTHEST, LARGEST = 1e4, 20.0  # what is said at the most, and the largest logarithm of it
PLAIN = "number"
NOTHING, NEARLY = 1e-6, 0.01  # a share of the variance that is left open, and how close powers are to halves
FEWEST_ROWS, MOST_PAIRS = 50, 6


class Scales(Protocol):
    """The scales of the numbers of columns, which it knows by their places."""

    def unit(self, column: int) -> Unit | None:
        """The unit of a column's numbers, if their means are of one."""

    def ends(self, column: int, slots: int) -> Floats:
        """Where the slots of a column's ranks end on the scale of its means."""


class Form(NamedTuple):
    """A number as others say it.

    Sums are on the scales of means: offset + Σ weight * mean. Products are of numbers in deviations, and their weights
    are powers: log(number) = offset + Σ weight * log(number of the source).
    """

    target: int
    sources: tuple[int, ...]
    weights: tuple[float, ...]
    offset: float
    product: bool = False

    @property
    def finite(self) -> bool:
        """Whether single precision has numbers for it."""
        return all(abs(number) < torch.finfo(torch.float32).max for number in (self.offset, *self.weights))

    def slack(self, unit: Unit) -> float:
        """How far what it says may be from what it means, near the mean of its target: by rounding, or half a step."""
        if self.product:
            return HALF_A_STEP * unit.step / unit.deviation
        return ROUNDED * (1 + abs(self.offset) + FAR_OUT * sum(map(abs, self.weights)))

    def exact(self, unit: Unit) -> bool:
        """Whether single precision tells what it says from the next steps of the grid."""
        return self.product or unit.step == 0 or unit.step / unit.deviation > 2 * self.slack(unit) + FAR_OUT * ROUNDED


class Said(NamedTuple):
    """What forms say of rows.

    Attributes:
        use: Which forms, (forms,).
        target: The number that each is for, (forms,).
        there: Whether all that it needs is known, (n, forms).
        means: What it says, (n, forms).
    """

    use: Tensor
    target: Tensor
    there: Tensor
    means: Tensor

    def first(self, rows: int) -> Said:
        """The same of the first rows."""
        return Said(self.use, self.target, self.there[:rows], self.means[:rows])


class Forms(nn.Module):
    """Some forms for each number, as weights of all means and of the logarithms of all numbers."""

    weights: Tensor
    offsets: Tensor
    slacks: Tensor
    zeros: Tensor

    def __init__(self, numbers: int, each: int) -> None:
        super().__init__()
        self.numbers, self.each = numbers, each
        self.register_buffer("weights", torch.zeros(numbers * each, 2 * numbers))
        self.register_buffer("offsets", torch.zeros(numbers * each))
        self.register_buffer("slacks", torch.zeros(numbers * each))
        self.register_buffer("zeros", torch.zeros(numbers))

    def __len__(self) -> int:
        return self.numbers * self.each

    def look(self, means: Tensor, known: Tensor) -> Said:
        """What is said of rows by the forms that there are; means and what is known of them are (n, numbers)."""
        use = (self.weights != 0).any(dim=1).nonzero()[:, 0]
        weights, target = self.weights[use], use.div(self.each, rounding_mode="floor")
        product = (weights[:, self.numbers :] != 0).any(dim=1)
        if not product.any():
            weights, inputs, sure = weights[:, : self.numbers], means, known
        else:
            numbers = means - self.zeros
            inputs = torch.cat([means, numbers.clamp(min=SMALLEST).log()], dim=1)
            sure = torch.cat([known, known & (numbers > SMALLEST)], dim=1)
        needed = (weights != 0).to(means.dtype)
        there = sure.to(means.dtype) @ needed.T == needed.sum(dim=1)
        said = torch.addmm(self.offsets[use], inputs, weights.T)
        said = torch.where(product, self.zeros[target] + said.clamp(max=LARGEST).exp(), said)
        return Said(use, target, there, said.clamp(-FARTHEST, FARTHEST))

    def same(self, said: Tensor, means: Tensor, which: Tensor) -> Tensor:
        """Whether means are just what forms say, up to how that is rounded."""
        product = (self.weights[:, self.numbers :] != 0).any(dim=1)
        share = torch.where(product, ROUNDED_LOGS, ROUNDED)[which]
        zeros = self.zeros[which.div(self.each, rounding_mode="floor")] * product[which]
        return (said - means).abs() <= self.slacks[which] + share * (means.abs() + zeros.abs())

    def signs(self) -> NDArray[np.int64]:
        """With which sign each number is in each sum, (forms, numbers); nothing for a product."""
        return self.weights[:, : self.numbers].sign().long().cpu().numpy()

    @torch.no_grad()
    def keep(self, found: Iterable[Form], units: Mapping[int, Unit]) -> None:
        """Keep forms, the first of each number."""
        for buffer in self.buffers():
            buffer.zero_()
        for place, unit in units.items():
            self.zeros[place] = unit.zero
        kept = [0] * self.numbers
        for form in found:
            if kept[form.target] < self.each:
                place = form.target * self.each + kept[form.target]
                kept[form.target] += 1
                sources = [source + self.numbers * form.product for source in form.sources]
                self.weights[place, sources] = self.weights.new_tensor(form.weights)
                self.offsets[place], self.slacks[place] = form.offset, form.slack(units[form.target])

    def check(self) -> None:
        """Refuse forms that are no numbers."""
        if not all(buffer.isfinite().all() for buffer in self.buffers()):
            raise ValueError("what numbers say of others is no number")


class Evidence(NamedTuple):
    """Rows by which forms are chosen.

    Attributes:
        means: Of the numbers, (n, numbers).
        known: Which of them are known, likewise.
        free: Which of them are no point masses either, likewise.
        units: Of the numbers that have one.
    """

    means: Tensor
    known: Tensor
    free: Tensor
    units: Mapping[int, Unit]

    def of(self, forms: Sequence[Form]) -> tuple[Said, Tensor]:
        """What forms, in the order of their targets, say of the rows, and whether that is what is there, (n, forms)."""
        most = max(Counter(form.target for form in forms).values(), default=0)
        all_of_them = Forms(self.means.shape[1], most)
        all_of_them.keep(forms, self.units)
        said = all_of_them.look(self.means, self.known)
        same = all_of_them.same(said.means, self.means[:, said.target], said.use)
        return said, said.there & self.free[:, said.target] & same


def sums(means: Tensor, ranks: Tensor, units: Mapping[int, Unit]) -> list[Form]:
    """Sums that go with a number of a unit; the tensors are (n, numbers), and nothing where a number is not known."""
    together = _together(ranks, ranks)
    found: dict[tuple[int, ...], Form] = {}
    for target, unit in units.items():
        alike = [place for place, other in units.items() if place != target and other.kind == unit.kind]
        for first in sorted(alike, key=lambda place: -abs(together[target][place]))[:CANDIDATES]:
            forms = [_form(units, target, (first,), (1,))]
            if unit.additive and len(units) <= MOST_NUMBERS:
                forms += _with_a_second(units, means, ranks, forms[0], [place for place in alike if place != first])
            for form in forms:
                found.setdefault((target, *sorted(form.sources)), form)
    return [form for form in found.values() if form.finite]


def products(means: Tensor, known: Tensor, units: Mapping[int, Unit]) -> list[Form]:
    """Powers of a number, and products of powers of two, that another number always is, in rows that are complete."""
    zeros = means.new_tensor([units[place].zero if place in units else math.inf for place in range(means.shape[1])])
    numbers = (means - zeros).double()
    positive = ((numbers > SMALLEST) | ~known).all(dim=0).tolist()
    places = [place for place, unit in units.items() if unit.kind == PLAIN and positive[place]]
    rows = known[:, places].all(dim=1)
    if len(places) > MOST_NUMBERS or int(rows.sum()) < FEWEST_ROWS:
        return []
    logs = numbers[rows][:, places].log()
    centred = logs - logs.mean(dim=0)
    r = torch.nan_to_num((centred / centred.norm(dim=0)).T @ (centred / centred.norm(dim=0)))
    found = []
    for target in range(len(places)):
        for sources in _determining(r, target):
            powers = torch.linalg.lstsq(centred[:, sources], centred[:, target : target + 1]).solution[:, 0]
            halves = (2 * powers).round() / 2
            if (halves != 0).all() and (powers - halves).abs().max() < NEARLY:
                offset = float((logs[:, target] - logs[:, sources] @ halves).mean())
                whose = tuple(places[source] for source in sources)
                found.append(Form(places[target], whose, tuple(halves.tolist()), offset, product=True))
    return [form for form in found if form.finite]


def _determining(r: Tensor, target: int) -> list[list[int]]:
    """Single numbers, and pairs, that leave nothing of another open, by the correlations of all, (numbers, numbers)."""
    with_target = r[target]
    alone = [source for source in range(len(r)) if source != target and 1 - with_target[source] ** 2 < NOTHING]
    one, other = torch.triu_indices(len(r), len(r), offset=1)
    of_one, of_other, between = with_target[one], with_target[other], r[one, other]
    explained = of_one**2 + of_other**2 - 2 * of_one * of_other * between
    left = 1 - explained / (1 - between**2).clamp(min=NOTHING)
    free = (1 - between**2 > NEARLY**2) & (one != target) & (other != target)
    for source in alone:
        free &= (one != source) & (other != source)
    pairs = torch.stack([one, other], dim=1)[free & (left < NOTHING)]
    closest = left[free & (left < NOTHING)].argsort()[:MOST_PAIRS]
    return [[source] for source in alone] + pairs[closest].tolist()


def chosen(forms: Sequence[Form], rows: Tensor, least: Tensor, most: tuple[int, int]) -> list[Form]:
    """Of each number the forms that explain enough rows, those that explain most before the others.

    A number alone may be all that is known, so that it only has to be good for itself. What is said of two has to be so
    in rows that neither of them explains.

    Args:
        forms: To choose from.
        rows: Which rows each explains, (n, forms).
        least: How many it has to explain, (forms,).
        most: How many forms of one number and of two are chosen for another, at the most.
    """
    alone = {(form.target, *form.sources): place for place, form in enumerate(forms) if len(form.sources) == 1}
    left = rows.clone()
    for place, form in enumerate(forms):
        if len(form.sources) > 1:
            of_one = [alone[form.target, source] for source in form.sources if (form.target, source) in alone]
            left[:, place] &= ~rows[:, of_one].any(dim=1)
    counts = left.sum(dim=0)
    enough, kept = (counts >= least).tolist(), Counter[tuple[int, int]]()
    best: list[Form] = []
    for place in counts.argsort(descending=True, stable=True).tolist():
        kind = forms[place].target, len(forms[place].sources)
        if enough[place] and kept[kind] < most[kind[1] - 1]:
            kept[kind] += 1
            best.append(forms[place])
    return sorted(best, key=lambda form: form.target)


def _with_a_second(
    units: Mapping[int, Unit], means: Tensor, ranks: Tensor, form: Form, others: Sequence[int]
) -> list[Form]:
    """A form with the numbers added to it, or taken from it, that go with what it leaves open."""
    said = form.offset + form.weights[0] * means[:, form.sources[0]]
    left = (means[:, form.target] - said).argsort().argsort().to(ranks.dtype)
    goes_with = _together((left - left.mean())[:, None], ranks)[0]
    seconds = sorted(others, key=lambda place: -abs(goes_with[place]))[:SECONDS]
    return [
        _form(units, form.target, (*form.sources, second), (1, math.copysign(1, goes_with[second])))
        for second in seconds
    ]


def _form(units: Mapping[int, Unit], target: int, sources: tuple[int, ...], signs: tuple[float, ...]) -> Form:
    """The sum of some numbers, on the scales of means."""
    of = [units[source] for source in sources]
    weights = tuple(sign * (unit.deviation / units[target].deviation) for unit, sign in zip(of, signs, strict=True))
    offset = units[target].zero - sum(weight * unit.zero for unit, weight in zip(of, weights, strict=True))
    return Form(target, sources, weights, offset)


def _together(one: Tensor, other: Tensor) -> list[list[float]]:
    """How much numbers go together, up to a factor for each of the first."""
    found: list[list[float]] = (one.T @ other / other.norm(dim=0).clamp(min=SMALLEST)).tolist()
    return found
