"""Search for relations in the training rows: sums that hold in some rows, products of powers that hold in all.

Columns with a normal score are searched in single precision, as the network reads them. Equations of more columns, and
of columns with few values, are searched in double precision (`harpoon.relations.linear`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, compress
from typing import NamedTuple

import torch
from torch import Tensor

from harpoon.encoding.units import DIMENSIONLESS, AffineUnit
from harpoon.relations.linear import MIN_VARIED_ROWS, LinearSearch
from harpoon.relations.relation import (
    MIN_POSITIVE,
    PRODUCT_ROUNDING,
    UNIT_FACTOR_TOLERANCE,
    Relation,
    RelationBank,
    RelationValues,
)

MAX_FIRST_SOURCES, MAX_SECOND_SOURCES = 8, 2  # candidates for a target, and for a target with its first source
MAX_PAIR_COLUMNS = 128  # in wider tables only copies are searched
MAX_SEARCH_ROWS, MAX_PRODUCT_ROWS = 4096, 1024
N_SHIFTS = 4  # by which rows are paired with others, to count what holds by chance
MAX_FACTORS, MAX_PRODUCTS = 24, 6  # candidates for the factors of a target, and for its products
MAX_UNEXPLAINED_VARIANCE = 1e-6  # fraction, of the logarithm of a product
POWER_TOLERANCE = 0.01  # powers must be this close to multiples of 1/2
MIN_PRODUCT_FRACTION = 0.99  # of the rows: some may be wrong
MIN_INVERSE_FRACTION = 0.05  # of the rows: sums that hold in fewer are not inverted
MIN_PRODUCT_ROWS = 50
CARRY = 40.0  # an hour is 100 in clock times that are written as numbers, and 60 minutes
MIN_CARRIED_FRACTION, MIN_CARRIED_ROWS = 0.6, 20  # of the exceptions
MIN_POSITIVE_FRACTION = 0.5  # of the observed values of a factor


class RelationData(NamedTuple):
    """Training rows in which relations are searched. Columns with a normal score come first, then those of few values.

    All are (n, columns), but `not_spike`, (n, columns with a normal score).
    """

    values: Tensor  # standardised
    observed: Tensor
    not_spike: Tensor  # observed, and not a spike
    units: Mapping[int, AffineUnit]  # of the columns that have one
    exact: Tensor  # values in double precision (`RowCodec.quantity_values`)

    @property
    def n_ranked(self) -> int:
        """The number of columns with a normal score."""
        return self.not_spike.shape[1]

    def ranked(self) -> RelationData:
        """Return the columns with a normal score."""
        n = self.n_ranked
        values, observed, exact = (part[:, :n].contiguous() for part in (self.values, self.observed, self.exact))
        units = {column: unit for column, unit in self.units.items() if column < n}
        return RelationData(values, observed, self.not_spike, units, exact)

    def evaluate(self, relations: Sequence[Relation]) -> tuple[RelationValues, Tensor]:
        """Evaluate k relations, in the order of their targets: predictions, and where they hold, (n, k).

        Their targets have a normal score.
        """
        bank = self._bank(relations)
        predicted = bank.predict(self.values, self.observed)
        matches = bank.matches(predicted.values, self.values[:, predicted.target], predicted.relation_index)
        return predicted, predicted.observed & self.not_spike[:, predicted.target] & matches

    def is_carried(self, relations: Sequence[Relation]) -> Tensor:
        """Return which of k relations fail by multiples of 40 in most rows, as the arithmetic of clocks does, (k,).

        10:05 and 9:55, written as 1005 and 955, differ by 50 instead of 10. A network does not learn where such a sum
        is wrong, and would copy values that are 40 too large.
        """
        predicted, holds = self.evaluate(relations)
        target = predicted.target
        units = [self.units[column] for column in target.tolist()]
        is_clock = torch.tensor([unit.step == 1 and not unit.nanoseconds for unit in units], dtype=torch.bool)
        scale = self.values.new_tensor([unit.scale for unit in units])
        error = ((self.values[:, target] - predicted.values) * scale).round()
        fails = predicted.observed & self.not_spike[:, target] & ~holds & is_clock.to(holds.device)
        carried = torch.zeros(len(target), dtype=torch.bool)
        for index in (fails.sum(dim=0) >= MIN_CARRIED_ROWS).nonzero()[:, 0].tolist():
            multiples = error[fails[:, index], index].remainder(CARRY) == 0
            carried[index] = multiples.float().mean() > MIN_CARRIED_FRACTION
        return carried

    def chance_rows(self, relations: Sequence[Relation]) -> Tensor:
        """Return in how many rows each of k relations would hold by chance, in the order of their targets, (k,).

        That is the largest of some counts: of predictions that equal the value of another row, for columns that are
        not related, and of values that are one step above or below the prediction, for columns that are related, but
        not by this equation. Values without a resolution do not meet by chance.
        """
        bank = self._bank(relations)
        predicted = bank.predict(self.values, self.observed)
        target, index = predicted.target, predicted.relation_index
        steps = [self.units[column].step / self.units[column].scale for column in target.tolist()]
        step = self.values.new_tensor(steps)
        known, values = self.not_spike[:, target], self.values[:, target]
        by_chance = step.new_zeros(len(step))
        for shift in range(1, N_SHIFTS + 1):
            places = shift * len(values) // (N_SHIFTS + 1)
            matches = bank.matches(predicted.values, values.roll(places, dims=0), index)
            by_chance += (matches & predicted.observed & known.roll(places, dims=0)).sum(dim=0) / N_SHIFTS
        is_distinct = predicted.observed & known & (step > 2 * bank.rounding_errors(values, index))
        beside = [
            (bank.matches(predicted.values + side * step, values, index) & is_distinct).sum(dim=0) for side in (-1, 1)
        ]
        return torch.stack([by_chance, *beside]).amax(dim=0)

    def _bank(self, relations: Sequence[Relation]) -> RelationBank:
        per_column = max(Counter(relation.target for relation in relations).values(), default=0)
        bank = RelationBank(self.n_ranked, per_column, n_sources=self.values.shape[1])
        bank = bank.to(self.values.device, self.values.dtype)
        bank.store(((relation, 1.0) for relation in relations), self.units)
        return bank


def search_relations(data: RelationData, scores: Tensor) -> list[Relation]:
    """Return candidates in the order of their targets.

    Args:
        data: The rows.
        scores: The normal scores, (n, columns with a normal score).
    """
    ranked = data.ranked()
    products = _search_products(ranked)
    predicted, holds = ranked.evaluate(products)
    applies = predicted.observed & ranked.not_spike[:, predicted.target]
    always = (holds.sum(dim=0) >= MIN_PRODUCT_FRACTION * applies.sum(dim=0)).tolist()
    sums = [relation for relation in _search_sums(ranked, scores * ranked.observed) if relation.is_finite]
    found = [*_add_inverses(sums, ranked), *compress(products, always)]
    found += _add_exact(found, data)
    found = [relation for relation in found if not _is_coarser_copy(relation, data.units)]
    return sorted(found, key=lambda relation: relation.target)


def _is_coarser_copy(relation: Relation, units: Mapping[int, AffineUnit]) -> bool:
    """Return whether a relation copies values that its column cannot all hold: cents to a column of integers.

    Timestamps are rounded to their grid.
    """
    target, source = units[relation.target], units[relation.sources[0]]
    is_copy = len(relation.sources) == 1 and relation.coefficients in {(1.0,), (-1.0,)} and not target.nanoseconds
    return is_copy and not relation.is_rounded and target.step > source.step > 0


def _add_exact(found: Sequence[Relation], data: RelationData) -> list[Relation]:
    """Return the relations that only the search in double precision finds."""
    products = [relation for relation in found if relation.is_product]
    known: set[tuple[object, ...]] = {(relation.target, *relation.sources) for relation in products}
    known |= {
        _signature(relation)
        for relation in found
        if not relation.is_product and relation.is_representable(data.units[relation.target])
    }
    search = LinearSearch(data.exact, data.observed, data.units, data.n_ranked)
    linear = [
        relation
        for relation in search.relations()
        if _signature(relation) not in known and (relation.target, *relation.sources) not in known
    ]
    return [*linear, *_search_few_valued_products(data)]


def select_relations(
    relations: Sequence[Relation], holds: Tensor, applies: Tensor, min_rows: Tensor, max_per_column: tuple[int, int]
) -> list[tuple[Relation, float]]:
    """Select for each column the relations that hold in enough rows, those with most rows first.

    A relation with several sources must hold in enough rows in which no source alone is a relation. One with a single
    source is judged by itself, because its source may be all that is observed.

    Args:
        relations: The k candidates.
        holds: The rows in which each holds, (n, k).
        applies: The rows in which each makes a prediction, (n, k).
        min_rows: The number of rows in which each must hold, (k,).
        max_per_column: The most relations with one source and with several for a column.

    Returns:
        Relations in the order of their targets, each with the fraction of rows with a prediction in which it holds.
    """
    singles = {(each.target, *each.sources): index for index, each in enumerate(relations) if len(each.sources) == 1}
    explained = holds.clone()
    for index, relation in enumerate(relations):
        if len(relation.sources) > 1:
            keys = [(relation.target, source) for source in relation.sources]
            explained[:, index] &= ~holds[:, [singles[key] for key in keys if key in singles]].any(dim=1)
    n_rows = explained.sum(dim=0)
    enough, n_selected = (n_rows >= min_rows).tolist(), Counter[tuple[int, bool]]()
    fractions = (holds.sum(dim=0) / applies.sum(dim=0).clamp(min=1)).tolist()
    selected: list[tuple[Relation, float]] = []
    for index in n_rows.argsort(descending=True, stable=True).tolist():
        target, several = relations[index].target, len(relations[index].sources) > 1
        if enough[index] and n_selected[target, several] < max_per_column[several]:
            n_selected[target, several] += 1
            selected.append((relations[index], fractions[index]))
    return sorted(selected, key=lambda each: each[0].target)


def _search_sums(data: RelationData, scores: Tensor) -> list[Relation]:
    """Return copies, sums and differences of columns that are associated with the target."""
    units, association = data.units, _association(scores, scores)
    relations: dict[tuple[object, ...], Relation] = {}
    for target, unit in units.items():
        comparable = [column for column, other in units.items() if column != target and other.kind == unit.kind]
        for first in sorted(comparable, key=lambda column: -abs(association[target][column]))[:MAX_FIRST_SOURCES]:
            candidates = [Relation.linear(units, target, (first,), (1,))]
            if unit.additive and len(units) <= MAX_PAIR_COLUMNS:
                others = [column for column in comparable if column != first]
                candidates += _add_second_source(data, scores, candidates[0], others)
            for relation in candidates:
                relations.setdefault(_signature(relation), relation)
    return list(relations.values())


def _add_inverses(sums: Sequence[Relation], data: RelationData) -> list[Relation]:
    """Return sums, and those of two sources that often hold also solved for each source.

    Normal scores do not show the association of a column that is mostly spikes: total = price + postage is found, but
    price = total - postage is not.
    """
    pairs = [relation for relation in sums if len(relation.sources) > 1]
    _, holds = data.evaluate(pairs)
    n_observed = data.observed[:, [relation.target for relation in pairs]].sum(dim=0)
    often = (holds.sum(dim=0) >= MIN_INVERSE_FRACTION * n_observed).tolist()
    relations = {_signature(relation): relation for relation in sums}
    for relation in compress(pairs, often):
        (one, other), sign = relation.sources, math.copysign(1, relation.weights[1])
        for target, source, signs in ((one, other, (1, -sign)), (other, one, (sign, -sign))):
            inverse = Relation.linear(data.units, target, (relation.target, source), signs)
            if data.units[target].additive and inverse.is_finite:
                relations.setdefault(_signature(inverse), inverse)
    return list(relations.values())


def _signature(relation: Relation) -> tuple[object, ...]:
    """Return a key that equal sums share: the target, each source with its coefficient, and the constant."""
    return relation.target, relation.constant, *sorted(zip(relation.sources, relation.coefficients, strict=True))


def _add_second_source(data: RelationData, scores: Tensor, copy: Relation, others: Sequence[int]) -> list[Relation]:
    """Return sums of a first source and those columns that are most associated with its residual."""
    first = copy.sources[0]
    residual = data.values[:, copy.target] - copy.offset - copy.weights[0] * data.values[:, first]
    rank = residual.argsort().argsort().to(scores.dtype)
    observed = data.observed[:, copy.target] & data.observed[:, first]
    association = _association(((rank - rank.mean()) * observed)[:, None], scores)[0]
    seconds = sorted(others, key=lambda column: -abs(association[column]))[:MAX_SECOND_SOURCES]
    signs = {second: math.copysign(1, association[second]) for second in seconds}
    return [Relation.linear(data.units, copy.target, (first, second), (1, sign)) for second, sign in signs.items()]


def _association(one: Tensor, other: Tensor) -> list[list[float]]:
    """Return the correlation of columns, (columns of one, columns of other), up to a factor for each of the first."""
    association: list[list[float]] = (one.T @ other / other.norm(dim=0).clamp(min=MIN_POSITIVE)).tolist()
    return association


def _is_identity(product: Relation, units: Mapping[int, AffineUnit]) -> bool:
    """Return whether a product is a copy of its source."""
    source, target = units[product.sources[0]].scale, units[product.target].scale
    log_factor = product.offset + math.log(target) - math.log(source)
    return product.weights == (1.0,) and abs(log_factor) < UNIT_FACTOR_TOLERANCE


def _search_products(data: RelationData) -> list[Relation]:
    """Return products of powers of one or two columns that always equal a third where all are positive."""
    units, subset = data.units, slice(None, None, max(1, len(data.values) // MAX_PRODUCT_ROWS))
    columns = [column for column, unit in units.items() if unit.kind == DIMENSIONLESS]
    zeros = torch.tensor([units[column].zero for column in columns], dtype=torch.float64)
    return _fit_products(data, columns, data.values[subset][:, columns].double() - zeros, data.observed[subset])


def _search_few_valued_products(data: RelationData) -> list[Relation]:
    """Return products in which a column with few values takes part, in double precision."""
    columns = [column for column, unit in data.units.items() if unit.kind == DIMENSIONLESS]
    if not columns or columns[-1] < data.n_ranked:
        return []
    subset = slice(None, None, max(1, len(data.values) // MAX_PRODUCT_ROWS))
    scales = torch.tensor([data.units[column].scale for column in columns], dtype=torch.float64)
    products = _fit_products(data, columns, data.exact[subset][:, columns] / scales, data.observed[subset])
    few = [product for product in products if max(product.target, *product.sources) >= data.n_ranked]
    related = [p for p in few if min(p.target, *p.sources) < data.n_ranked or len(p.sources) > 1]
    judged = ((product, _product_fraction(product, data)) for product in related)
    return [product._replace(is_judged=True, fraction=fraction) for product, fraction in judged if fraction is not None]


def _product_fraction(product: Relation, data: RelationData) -> float | None:
    """Return the fraction of rows in which a product equals its column.

    None unless these are practically all rows in which the column does not have its most frequent value.
    """
    columns, unit = [product.target, *product.sources], data.units[product.target]
    scales = torch.tensor([data.units[column].scale for column in columns], dtype=torch.float64)
    values, powers = data.exact[:, columns] / scales, torch.tensor(product.weights, dtype=torch.float64)
    rows = data.observed[:, columns].all(dim=1) & (values > MIN_POSITIVE).all(dim=1)
    values = values[rows]
    if len(values) < MIN_PRODUCT_ROWS:
        return None
    error = (values[:, 0] - (product.offset + values[:, 1:].log() @ powers).exp()).abs()
    wrong = (error > product.tolerance(unit) + PRODUCT_ROUNDING * values[:, 0]).sum()
    n_varied = (values[:, 0] != values[:, 0].mode().values).sum()
    always = n_varied >= MIN_VARIED_ROWS and wrong <= (1 - MIN_PRODUCT_FRACTION) * n_varied
    return 1 - float(wrong / len(values)) if always else None


def _fit_products(data: RelationData, columns: Sequence[int], values: Tensor, observed: Tensor) -> list[Relation]:
    """Return products of columns with the given values in standard deviations, (rows, columns)."""
    units, observed = data.units, observed[:, columns]
    positive = observed & (values > MIN_POSITIVE)
    factors = (positive.sum(dim=0) > MIN_POSITIVE_FRACTION * observed.sum(dim=0)).nonzero()[:, 0].tolist()
    if len(factors) > MAX_PAIR_COLUMNS:
        return []
    search = LogLinearSearch([columns[factor] for factor in factors], values[:, factors], positive[:, factors])
    return [
        product
        for target in range(len(factors))
        for product in search.products(target)
        if product.is_finite
        and product.is_representable(units[product.target])
        and not _is_identity(product, units)  # a copy is a sum already
    ]


class LogLinearSearch:
    """Search for columns whose logarithm is linear in the logarithms of one or two others.

    Args:
        columns: The number of each column.
        values: The values, (n, columns).
        positive: Which of them are positive, (n, columns).
    """

    def __init__(self, columns: Sequence[int], values: Tensor, positive: Tensor) -> None:
        self.columns, self.positive = columns, positive.double()
        x = values.clamp(min=MIN_POSITIVE).log() * self.positive
        self.mean = x.sum(dim=0) / self.positive.sum(dim=0).clamp(min=1)
        self.x = (x - self.mean) * self.positive  # 0 where a value is not positive

    def products(self, target: int) -> list[Relation]:
        """Return the products that equal a column. Columns are given by their position here."""
        association = (self.x.T @ self.x[:, target]).abs() / self.x.norm(dim=0).clamp(min=MIN_POSITIVE)
        order = association.argsort(descending=True, stable=True).tolist()
        candidates = [column for column in order if column != target][:MAX_FACTORS]
        singles = [[c] for c in candidates if self._unexplained_variance(target, [[c]])[0] < MAX_UNEXPLAINED_VARIANCE]
        rest = [column for column in candidates if [column] not in singles]
        pairs = [list(pair) for pair in combinations(rest, 2)]
        if pairs:
            variance = self._unexplained_variance(target, pairs)
            best = variance.argsort(stable=True).tolist()
            pairs = [pairs[index] for index in best if variance[index] < MAX_UNEXPLAINED_VARIANCE]
        fitted = (self._fit_exponents(target, sources) for sources in [*singles, *pairs[:MAX_PRODUCTS]])
        return [product for product in fitted if product is not None]

    def _unexplained_variance(self, target: int, sources: Sequence[Sequence[int]]) -> Tensor:
        """Return 1 - R² of the regressions on each pair of sources, or on each single one, (len(sources),)."""
        one, other = (torch.tensor([pair[index] for pair in sources]) for index in (0, -1))
        weight = self.positive[:, [target]] * self.positive[:, one] * self.positive[:, other]
        n_rows = weight.sum(dim=0).clamp(min=1)
        columns = self.x[:, [target]], self.x[:, one], self.x[:, other]
        means = [(weight * column).sum(dim=0) / n_rows for column in columns]
        t, a, b = ((column - mean) * weight for column, mean in zip(columns, means, strict=True))
        tt, aa, bb, ta, tb, ab = ((p * q).sum(dim=0) for p, q in ((t, t), (a, a), (b, b), (t, a), (t, b), (a, b)))
        if len(sources[0]) == 1:
            variance = 1 - ta**2 / (tt * aa)
        else:
            determinant = aa * bb - ab**2
            variance = 1 - (ta**2 * bb + tb**2 * aa - 2 * ta * tb * ab) / (tt * determinant)
            variance = torch.where(determinant > POWER_TOLERANCE**2 * aa * bb, variance, torch.inf)
        return torch.where(n_rows >= MIN_PRODUCT_ROWS, variance.nan_to_num(nan=torch.inf), torch.inf)

    def _fit_exponents(self, target: int, sources: list[int]) -> Relation | None:
        """Fit powers by least squares; None unless they are multiples of 1/2 and not 0."""
        rows = self.positive[:, [target, *sources]].all(dim=1)
        x, y = self.x[rows][:, sources], self.x[rows, target]
        powers = torch.linalg.lstsq(x - x.mean(dim=0), (y - y.mean())[:, None]).solution[:, 0]
        rounded = (2 * powers).round() / 2
        if (rounded == 0).any() or (powers - rounded).abs().max() > POWER_TOLERANCE:
            return None
        offset = float((y + self.mean[target] - (x + self.mean[sources]) @ rounded).mean())
        columns = tuple(self.columns[source] for source in sources)
        return Relation(self.columns[target], columns, tuple(rounded.tolist()), offset, is_product=True)
