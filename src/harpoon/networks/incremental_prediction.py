"""Predictions for rows whose cells become known one after another.

Autoregressive sampling runs the network once per step, and a step adds about one cell to a row. So the first layer is
a sum that each new cell is added to: of a category, a row of the weight matrix. The piecewise linear encoding of a
number, and so its contribution, is linear between two knots: it is interpolated between the contributions at the knots.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from harpoon.data import NO_INDEX
from harpoon.encoding import EncodedRows
from harpoon.networks.heads.category_logits import CategoryLogits, DenseLogits, PartLayer, RequestedLogits
from harpoon.networks.heads.rank_head import ConditionalPredictor

if TYPE_CHECKING:
    from harpoon.networks.one_step_prediction import FusedMaxNoiseModel

MAX_DISTINCT_FRACTION = 0.95  # of rows, above which all are evaluated
# Keys are sums of hashes. With fewer rounds, numbers that differ in a few bits had hashes that do, whose sums coincide.
HASH_ROUNDS = ((30, -4658895280553007687), (27, -7723592293110705685))  # of 64 bits: splitmix64 (Steele et al., 2014)
MAX_CELLS = 2**16  # added at once: each takes a vector as long as the hidden layer


class CellContributions:
    """What each input of a row adds to the first layer, as tables."""

    def __init__(self, model: FusedMaxNoiseModel) -> None:
        denoiser, layout = model.denoiser, model.denoiser.layout
        n_numeric, n_edges = denoiser.bin_edges.shape
        sizes = [len(layout.inputs), n_numeric * (n_edges - 1), layout.n_columns]
        n_relations = model.input_weight.shape[1] - sum(sizes)
        weights = model.input_weight.T.contiguous().split_with_sizes([*sizes, n_relations])
        self.of_input, of_bin, self.of_missing, of_relation = weights  # (..., hidden) each
        head, device = denoiser.rank_head, self.of_input.device
        self.used_features = head.used_relation_features.to(device)
        self.of_relation = of_relation[self.used_features]
        # A bin may be narrower than its encoding: then the encodings of several bins overlap.
        low, width = denoiser.bin_edges[:, :-1], denoiser.encoded_widths
        self.knots = torch.cat([low, low + width], dim=1).sort(dim=1).values  # (numeric, knots)
        encoded = denoiser.encode_numbers(self.knots.T).transpose(0, 1)  # (numeric, knots, bins)
        by_bin = of_bin.view(n_numeric, n_edges - 1, len(model.input_bias))
        self.at_knots = (encoded @ by_bin).flatten(0, 1)  # (numeric * knots, hidden)
        self.empty = model.input_bias + self.of_missing.sum(dim=0)  # of a row without observed cells
        self.reads_cells = head.has_relations or bool(model.baseline)  # and not only the first layer
        places, category_of = model.categories.index, torch.full((sizes[0],), NO_INDEX)
        category_of[places] = torch.arange(len(places))
        self.category_of = category_of.to(device)  # the category of each input, or `NO_INDEX`, (inputs,)

    def of_number(self, number: Tensor, value: Tensor) -> Tensor:
        """Return the contributions of the encodings of numeric inputs at values, both (m,), as (m, hidden)."""
        knots, n_knots = self.knots.index_select(0, number), self.knots.shape[1]
        low = ((knots < value[:, None]).sum(dim=1) - 1).clamp(0, n_knots - 2)
        start, end = (knots.gather(1, at[:, None])[:, 0] for at in (low, low + 1))
        fraction = ((value - start) / (end - start).clamp(min=torch.finfo(value.dtype).tiny)).clamp(0, 1)
        at = low + number * n_knots
        below, above = self.at_knots.index_select(0, at), self.at_knots.index_select(0, at + 1)
        return torch.lerp(below, above, fraction[:, None])


class CellwisePredictor:
    """Predicts the unobserved cells of rows, again and again while cells become known."""

    def __init__(self, model: FusedMaxNoiseModel, rows: int) -> None:
        self.model, self.cells = model, model.contributions
        layout, cells = model.denoiser.layout, model.contributions
        self.sums = cells.empty.repeat(rows, 1)  # the first layer without relations, (n, hidden)
        self.inputs = cells.empty.new_zeros(rows, len(layout.inputs))  # that were added, (n, inputs)
        self.numbers = cells.empty.new_zeros(rows, len(layout.numeric_inputs))
        self.has_number = torch.zeros_like(self.numbers, dtype=torch.bool)
        n_categories, n_parts = len(model.part_of_category), len(layout.category_widths)
        self.keys = torch.zeros(rows, dtype=torch.long, device=self.sums.device)
        self.known = torch.full((rows, n_parts), n_categories, device=self.sums.device)  # category of each part, or K
        self.has_column = torch.zeros(rows, layout.n_columns, dtype=torch.bool, device=self.sums.device)

    def predict(self, x: Tensor, observed: Tensor, rows: Tensor) -> ConditionalPredictor:
        """Return the distributions in some rows, (m,), given all cells that are observed by now, both (n, d)."""
        self._update(x, observed)
        model, head = self.model, self.model.denoiser.rank_head
        given = self._relation_sources(x, observed, rows)
        relations, (shared, index) = head.relation_inputs(given), self._distinct(rows)
        h = self.sums.index_select(0, rows[shared])
        if len(self.cells.used_features):
            features = relations.features[shared].index_select(1, self.cells.used_features)
            h.addmm_(features, self.cells.of_relation)
        h = model.denoiser.backbone.trunk(h)[index]
        baseline = model.baseline(given)
        known = self.known.index_select(0, rows)
        logits: CategoryLogits = RequestedLogits(h, known, model.part_layers, model.part_of_category)
        if baseline.logits is not None:
            logits = DenseLogits(logits.dense().index_add(1, model.labels.index.to(h.device), baseline.logits))
        copies = head.copies(h, relations.copies).condition()
        few_valued = head.determined_values(given)
        return ConditionalPredictor(logits, h, relations.pointers, copies, baseline, head, few_valued)

    def _relation_sources(self, x: Tensor, observed: Tensor, rows: Tensor) -> EncodedRows:
        """Return the cells of some rows from which relations and the baseline predict; if there are none, no cells."""
        if self.cells.reads_cells:
            return EncodedRows(x.index_select(0, rows), observed.index_select(0, rows))
        nothing = x.new_zeros(1, x.shape[1]).expand(len(rows), -1)
        return EncodedRows(nothing, nothing.bool())

    def _distinct(self, rows: Tensor) -> tuple[Tensor | slice, Tensor | slice]:
        """Return one of all rows with the same known cells, (k,), and where each row is among these, (m,)."""
        keys, order = self.keys[rows].sort()
        is_new = torch.ones_like(keys, dtype=torch.bool)
        is_new[1:] = keys[1:] != keys[:-1]
        if int(is_new.sum()) > MAX_DISTINCT_FRACTION * len(rows):
            return slice(None), slice(None)
        return order[is_new], torch.zeros_like(order).index_copy_(0, order, is_new.cumsum(dim=0) - 1)

    def _update(self, x: Tensor, observed: Tensor) -> None:
        """Add the cells that became known, or changed, to the first layer."""
        layout, cells = self.model.denoiser.layout, self.cells
        inputs = layout.inputs.select(x * observed)
        for row, place in _where(inputs != self.inputs):
            change = inputs[row, place] - self.inputs[row, place]
            self._add(row, cells.of_input.index_select(0, place), change)
            self._mark(row, place, inputs[row, place])
            self._mark(row, place, self.inputs[row, place], sign=-1)
            self._set_known(row, cells.category_of[place], change)
        self.inputs = inputs
        numbers, has_number = layout.numeric_inputs.select(x), layout.numeric_inputs.select(observed)
        changed = (has_number != self.has_number) | (has_number & (numbers != self.numbers))
        for row, place in _where(changed & has_number):
            self._add(row, cells.of_number(place, numbers[row, place]))
            self._mark(row, place + len(layout.inputs), numbers[row, place])
        for row, place in _where(changed & self.has_number):
            self._add(row, cells.of_number(place, self.numbers[row, place]).neg_())
            self._mark(row, place + len(layout.inputs), self.numbers[row, place], sign=-1)
        self.numbers, self.has_number = numbers, has_number
        has_column = layout.last_of.select(observed)
        for row, place in _where(has_column != self.has_column):
            sign = self.has_column[row, place].to(x.dtype) * 2 - 1  # a column that is known is no longer missing
            self._add(row, cells.of_missing.index_select(0, place), sign)
            self._mark(row, place - layout.n_columns, sign)
        self.has_column = has_column

    def _mark(self, row: Tensor, place: Tensor, value: Tensor, sign: int = 1) -> None:
        """Add values at places to the keys of rows, (m,) each; a key is a sum of hashes of the known cells."""
        bits = value.float().view(torch.int32).long() + (place.long() << 32)
        for shift, factor in HASH_ROUNDS:
            bits = (bits ^ (bits >> shift)) * factor
        self.keys.index_add_(0, row, sign * (bits ^ (bits >> 31)))

    def _set_known(self, row: Tensor, category: Tensor, change: Tensor) -> None:
        """Set the known categories of rows, (m,): those that were removed, then those that were added."""
        part_of = self.model.part_of_category
        for is_new in (False, True):
            index = ((category != NO_INDEX) & ((change > 0) == is_new)).nonzero()[:, 0]
            value = category[index]
            self.known[row[index], part_of[value]] = value if is_new else len(part_of)

    def _add(self, row: Tensor, contributions: Tensor, factor: Tensor | None = None) -> None:
        """Add contributions, (m, hidden), times factors, (m,), to the first layer of rows, (m,)."""
        self.sums.index_add_(0, row, contributions if factor is None else contributions.mul_(factor[:, None]))


def part_layers(model: FusedMaxNoiseModel) -> tuple[PartLayer, ...]:
    """Return the output layer of each categorical part."""
    layout, out, layers, start = model.denoiser.layout, model.denoiser.backbone.out, [], 0
    for width in layout.category_widths:
        first = layout.categories.positions[start]
        part = slice(first, first + width)
        layers.append(PartLayer(out.weight[part], model.output_bias[part], model.skip[:, part]))
        start += width
    return tuple(layers)


def _where(mask: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the rows and columns at which a mask is true, some at a time."""
    row, column = mask.nonzero(as_tuple=True)
    for start in range(0, len(row), MAX_CELLS):
        yield row[start : start + MAX_CELLS], column[start : start + MAX_CELLS]
