"""Searching training rows for forms: sums that hold in some rows, products of powers that hold in all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from harpoon.encoding.units import DIMENSIONLESS, AffineUnit
from harpoon.relations.relation import ONE, SMALLEST, Relation, RelationBank, RelationValues

FIRSTS, SECONDS = 8, 2  # numbers that may begin a sum for another, and that may go with each of them
MOST_NUMBERS = 128  # beyond, forms are single numbers
ROWS, PRODUCT_ROWS = 4096, 1024  # to tell by
MOST_FACTORS, MOST_PRODUCTS = 24, 6  # numbers that may be factors of another, and products for it, at the most
NOTHING, NEARLY = 1e-6, 0.01  # a share of the variance that is left open, and how close powers are to halves
ALWAYS = 0.99  # the share of the rows in which a product that always holds does, as some may be wrong
TURNED = 0.05  # the share of the rows in which a sum holds that is worth turning round
FEWEST_ROWS, MOSTLY = 50, 0.5  # rows to tell a product by, and the share of a number that is positive


class RelationData(NamedTuple):
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
    units: Mapping[int, AffineUnit]

    def of(self, forms: Sequence[Relation]) -> tuple[RelationValues, Tensor]:
        """What forms, in the order of their targets, say of the rows, and whether that is what is there, (n, forms)."""
        most = max(Counter(form.target for form in forms).values(), default=0)
        all_of_them = RelationBank(self.means.shape[1], most).to(self.means.device, self.means.dtype)
        all_of_them.store(((form, 1.0) for form in forms), self.units)
        said = all_of_them.predict(self.means, self.known)
        same = all_of_them.matches(said.values, self.means[:, said.target], said.use)
        return said, said.observed & self.free[:, said.target] & same


def search_relations(rows: RelationData, ranks: Tensor) -> list[Relation]:
    """Forms to choose from, in the order of their targets; ranks are (n, numbers)."""
    products = [form for form in _products(rows) if form.is_finite and form.is_representable(rows.units[form.target])]
    products = [form for form in products if not _identity(form, rows.units)]  # that is a sum already
    products.sort(key=lambda form: form.target)
    said, same = rows.of(products)
    there = said.observed & rows.free[:, said.target]
    always = (same.sum(dim=0) >= ALWAYS * there.sum(dim=0)).tolist()
    products = [form for form, holds in zip(products, always, strict=True) if holds]
    sums = [form for form in _sums(rows, ranks * rows.known) if form.is_finite]
    sums = _add_inverses(sums, rows)
    return sorted([*sums, *products], key=lambda form: form.target)


def select_relations(
    forms: Sequence[Relation], rows: Tensor, there: Tensor, least: Tensor, most: tuple[int, int]
) -> list[tuple[Relation, float]]:
    """Of each number the forms that explain enough rows, those that explain most before the others.

    A number alone may be all that is known, so that it only has to be good for itself. What is said of two has to be so
    in rows that neither of them explains.

    Args:
        forms: To choose from.
        rows: Which rows each explains, (n, forms).
        there: Which rows each says something of, likewise; with a form comes the share of these that it explains.
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
    shares = (rows.sum(dim=0) / there.sum(dim=0).clamp(min=1)).tolist()
    best: list[tuple[Relation, float]] = []
    for place in counts.argsort(descending=True, stable=True).tolist():
        kind = forms[place].target, len(forms[place].sources)
        if enough[place] and kept[kind] < most[kind[1] - 1]:
            kept[kind] += 1
            best.append((forms[place], shares[place]))
    return sorted(best, key=lambda one: one[0].target)


def _sums(rows: RelationData, ranks: Tensor) -> list[Relation]:
    """Single numbers, and two of which one is added to the other or taken from it, that go with another."""
    units, together = rows.units, _combine(ranks, ranks)
    forms: dict[tuple[object, ...], Relation] = {}
    for target, unit in units.items():
        alike = [place for place, other in units.items() if place != target and other.kind == unit.kind]
        for first in sorted(alike, key=lambda place: -abs(together[target][place]))[:FIRSTS]:
            single = _sum(units, target, (first,), (1,))
            others = [place for place in alike if place != first]
            more = unit.additive and len(units) <= MOST_NUMBERS
            for form in [single, *(_add_second_source(rows, ranks, single, others) if more else [])]:
                forms.setdefault(_signed(form), form)
    return list(forms.values())


def _add_inverses(sums: Sequence[Relation], rows: RelationData) -> list[Relation]:
    """Sums, and with each of two numbers that often holds what it says of these two.

    What a number that is mostly a point mass goes with is not seen by its ranks: a total is found as a price and its
    postage, but the price not as the total less the postage.
    """
    of_two = [form for form in sums if len(form.sources) > 1]
    _, same = rows.of(of_two)
    often = (same.sum(dim=0) >= TURNED * rows.known[:, [form.target for form in of_two]].sum(dim=0)).tolist()
    all_of_them = {_signed(form): form for form in sums}
    for form in (form for form, holds in zip(of_two, often, strict=True) if holds):
        (one, other), sign = form.sources, math.copysign(1, form.weights[1])
        for target, source, signs in ((one, other, (1, -sign)), (other, one, (sign, -sign))):
            turned = _sum(rows.units, target, (form.target, source), signs)
            if rows.units[target].additive and turned.is_finite:
                all_of_them.setdefault(_signed(turned), turned)
    return list(all_of_them.values())


def _signed(form: Relation) -> tuple[object, ...]:
    """What is the same for sums that are: the target, and each source with its sign."""
    return form.target, *sorted(zip(form.sources, (weight > 0 for weight in form.weights), strict=True))


def _add_second_source(rows: RelationData, ranks: Tensor, single: Relation, others: Sequence[int]) -> list[Relation]:
    """A sum with the numbers added to it, or taken from it, that go with what it leaves open."""
    first = single.sources[0]
    left = rows.means[:, single.target] - single.offset - single.weights[0] * rows.means[:, first]
    order = left.argsort().argsort().to(ranks.dtype)
    both = rows.known[:, single.target] & rows.known[:, first]
    goes_with = _combine(((order - order.mean()) * both)[:, None], ranks)[0]
    seconds = sorted(others, key=lambda place: -abs(goes_with[place]))[:SECONDS]
    signs = (math.copysign(1, goes_with[second]) for second in seconds)
    pairs = zip(seconds, signs, strict=True)
    return [_sum(rows.units, single.target, (first, second), (1, sign)) for second, sign in pairs]


def _sum(units: Mapping[int, AffineUnit], target: int, sources: tuple[int, ...], signs: tuple[float, ...]) -> Relation:
    """The sum of some numbers, on the scales of means."""
    of = [units[source] for source in sources]
    weights = tuple(sign * (unit.scale / units[target].scale) for unit, sign in zip(of, signs, strict=True))
    offset = units[target].zero - sum(weight * unit.zero for unit, weight in zip(of, weights, strict=True))
    return Relation(target, sources, weights, offset)


def _combine(one: Tensor, other: Tensor) -> list[list[float]]:
    """How much numbers go together, up to a factor for each of the first."""
    together: list[list[float]] = (one.T @ other / other.norm(dim=0).clamp(min=SMALLEST)).tolist()
    return together


def _identity(form: Relation, units: Mapping[int, AffineUnit]) -> bool:
    """Whether a product is nothing but another number."""
    of, own = units[form.sources[0]].scale, units[form.target].scale
    return form.weights == (1.0,) and abs(form.offset + math.log(own) - math.log(of)) < ONE


def _products(rows: RelationData) -> list[Relation]:
    """Powers of a number, and products of powers of two, that another number always is where all are positive."""
    units, some = rows.units, slice(None, None, max(1, len(rows.means) // PRODUCT_ROWS))
    plain = [place for place, unit in units.items() if unit.kind == DIMENSIONLESS]
    zeros = torch.tensor([units[place].zero for place in plain], dtype=torch.float64)
    numbers = rows.means[some][:, plain].double() - zeros
    known = rows.known[some][:, plain]
    there = known & (numbers > SMALLEST)
    positive = (there.sum(dim=0) > MOSTLY * known.sum(dim=0)).nonzero()[:, 0].tolist()
    if len(positive) > MOST_NUMBERS:
        return []
    logs = LogLinearSearch.of(numbers[:, positive], there[:, positive])
    return [
        Relation(
            plain[positive[target]],
            tuple(plain[positive[source]] for source in sources),
            powers,
            offset,
            is_product=True,
        )
        for target in range(len(positive))
        for sources, powers, offset in logs.products(target)
    ]


class LogLinearSearch(NamedTuple):
    """Logarithms of numbers less their mean, which is kept, and which are there: (n, numbers), nothing elsewhere."""

    x: Tensor
    there: Tensor
    mean: Tensor

    @classmethod
    def of(cls, numbers: Tensor, there: Tensor) -> LogLinearSearch:
        """Of numbers, where they are positive."""
        weight = there.double()
        x = numbers.clamp(min=SMALLEST).log() * weight
        mean = x.sum(dim=0) / weight.sum(dim=0).clamp(min=1)
        return cls((x - mean) * weight, weight, mean)

    def products(self, target: int) -> list[tuple[tuple[int, ...], tuple[float, ...], float]]:
        """Sources, powers and the logarithm of a factor of the products that a number is."""
        together = (self.x.T @ self.x[:, target]).abs() / self.x.norm(dim=0).clamp(min=SMALLEST)
        others = [place for place in together.argsort(descending=True, stable=True).tolist() if place != target]
        others = others[:MOST_FACTORS]
        alone = [[source] for source in others if self._unexplained_variance(target, [[source]])[0] < NOTHING]
        free = [place for place in others if [place] not in alone]
        pairs = [[one, other] for at, one in enumerate(free) for other in free[at + 1 :]]
        if pairs:
            left = self._unexplained_variance(target, pairs)
            pairs = [pairs[place] for place in left.argsort(stable=True).tolist() if left[place] < NOTHING]
        said = (self._fit_exponents(target, sources) for sources in [*alone, *pairs[:MOST_PRODUCTS]])
        return [product for product in said if product is not None]

    def _unexplained_variance(self, target: int, sources: Sequence[Sequence[int]]) -> Tensor:
        """The share of a number's variance that one or two others leave open, in rows where all are there."""
        one, other = (torch.tensor([pair[place] for pair in sources]) for place in (0, -1))
        weight = self.there[:, [target]] * self.there[:, one] * self.there[:, other]
        rows = weight.sum(dim=0).clamp(min=1)
        parts = self.x[:, [target]], self.x[:, one], self.x[:, other]
        means = [(weight * part).sum(dim=0) / rows for part in parts]
        t, a, b = ((part - mean) * weight for part, mean in zip(parts, means, strict=True))
        tt, aa, bb, ta, tb, ab = ((p * q).sum(dim=0) for p, q in ((t, t), (a, a), (b, b), (t, a), (t, b), (a, b)))
        if len(sources[0]) == 1:
            left = 1 - ta**2 / (tt * aa)
        else:
            apart = aa * bb - ab**2
            left = 1 - (ta**2 * bb + tb**2 * aa - 2 * ta * tb * ab) / (tt * apart)
            left = torch.where(apart > NEARLY**2 * aa * bb, left, torch.inf)
        return torch.where(rows >= FEWEST_ROWS, left.nan_to_num(nan=torch.inf), torch.inf)

    def _fit_exponents(
        self, target: int, sources: Sequence[int]
    ) -> tuple[tuple[int, ...], tuple[float, ...], float] | None:
        """The powers of a product, if they are halves."""
        rows = self.there[:, [target, *sources]].all(dim=1)
        x, y = self.x[rows][:, list(sources)], self.x[rows, target]
        powers = torch.linalg.lstsq(x - x.mean(dim=0), (y - y.mean())[:, None]).solution[:, 0]
        halves = (2 * powers).round() / 2
        if (halves == 0).any() or (powers - halves).abs().max() > NEARLY:
            return None
        offset = (y + self.mean[target] - (x + self.mean[list(sources)]) @ halves).mean()
        return tuple(sources), tuple(halves.tolist()), float(offset)
