"""Pointer head: histogram logits relative to the values that relations of observed values predict.

The conditional distribution of a value around another one, such as a payment around its bill, often has the same shape
wherever the other one is. A plain output layer would have to learn it anew for each bin. Here the network only predicts
weights of fixed kernels, which are centred at the predicted value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from harpoon.data import NO_INDEX
from harpoon.networks.layers import Linear, linear
from harpoon.relations import Relation, RelationBank, RelationData, RelationValues, select_relations

MAX_RELATIONS_PER_COLUMN = (3, 2)  # with one source, and with several
MAX_RELATIONS = 256  # of all columns together
KERNEL_WIDTHS = (1.5, 6.0, 24.0)  # in bins
N_KERNELS = 1 + 2 * len(KERNEL_WIDTHS)  # one bin, and an exponential on each side per width
MIN_EXCESS_FRACTION = 0.02  # of the rows in which the prediction is closer than that of another row


class PointerHead(nn.Module):
    """Adds kernels around predicted values to histogram logits, with weights from the last hidden layer."""

    bin_edges: Tensor

    def __init__(self, n_columns: int, hidden: int, n_bins: int, n_sources: int | None = None) -> None:
        super().__init__()
        self.n_bins = n_bins
        per_column = min(sum(MAX_RELATIONS_PER_COLUMN), MAX_RELATIONS // max(n_columns, 1))
        self.relations = RelationBank(n_columns, per_column, n_sources=n_sources)
        self.n_relation_features = len(self.relations) * (1 + len(KERNEL_WIDTHS))
        self.register_buffer("bin_edges", torch.zeros(n_columns, n_bins - 1))
        self.gates = Linear(hidden, max(len(self.relations) * N_KERNELS, 1))  # torch warns of layers without outputs

    def predict(self, standardised: Tensor, observed: Tensor) -> RelationValues:
        """Return the relations of standardised values, both (n, columns), with the bin of each prediction as value."""
        return self._to_bins(self.relations.predict(standardised, observed))

    def _to_bins(self, predicted: RelationValues) -> RelationValues:
        return predicted._replace(values=_bin_index(self.bin_edges[predicted.target], predicted.values))

    def forward(self, logits: Tensor, h: Tensor, predicted: RelationValues, row_index: Tensor) -> Tensor:
        """Add to the histogram logits, (m, n_bins), a kernel centred at the value that each relation predicts.

        The kernels are weighted by the last hidden layer, (n, hidden). `row_index[i, j]` is the logit row of cell
        (i, j), or -1 if it is not requested, (n, columns).
        """
        use, target, observed, bins = predicted
        row, relation = (observed & (row_index[:, target] != NO_INDEX)).nonzero(as_tuple=True)
        if not len(row):
            return logits
        weight = self.gates.weight.view(len(self.relations), N_KERNELS, -1)[use].flatten(0, 1)
        bias = self.gates.bias.view(len(self.relations), N_KERNELS)[use].flatten()
        gates = linear(h, weight, bias, reduced_precision=self.training).view(len(h), len(use), N_KERNELS)
        logit_row, order = row_index[row, target[relation]].sort()
        row, relation = row[order], relation[order]
        kernels = N_KERNELS * bins[row, relation].unsqueeze(1) + torch.arange(N_KERNELS, device=h.device)
        offsets = N_KERNELS * torch.searchsorted(logit_row, torch.arange(len(logits), device=h.device))
        return logits + functional.embedding_bag(  # a weighted sum of kernels per logit row, without gathering them
            kernels.flatten(),
            _kernel_table(self.n_bins, h.device),
            offsets,
            mode="sum",
            per_sample_weights=gates[row, relation].flatten(),
        )

    def relation_features(self, predicted: RelationValues, standardised: Tensor, observed: Tensor) -> Tensor:
        """Compare observed values with the predictions for them, (n, n_relation_features).

        Per relation: whether both are in the same bin, and their squashed distance in bins at each kernel width; 0 if
        any value is missing.
        """
        dtype = self.bin_edges.dtype
        features = observed.new_zeros(len(observed), len(self.relations), 1 + len(KERNEL_WIDTHS), dtype=dtype)
        use, target, applicable, bins = predicted
        if len(use):
            ranked = standardised[:, : len(self.bin_edges)]
            distance = (_bin_index(self.bin_edges, ranked)[:, target] - bins).to(dtype)
            squashed = (torch.tanh(distance / width) for width in KERNEL_WIDTHS)
            compared = torch.stack([(distance == 0).to(dtype), *squashed], dim=2)
            features[:, use] = compared * (observed[:, target] & applicable).unsqueeze(2)
        return features.flatten(1)

    @torch.no_grad()
    def initialize(self, rows: RelationData, candidates: Sequence[Relation], bin_edges: Tensor) -> None:
        """Store the relations whose predictions are close to the value in clearly more rows than by chance.

        `bin_edges` are the inner edges of the bins of each column as standardised values, (columns, n_bins - 1).
        """
        self.bin_edges.copy_(bin_edges)
        _, target, has_sources, bins = self._to_bins(rows.evaluate(candidates)[0])
        own = _bin_index(self.bin_edges, rows.values[:, : rows.n_ranked])[:, target]
        of_other_rows = own.roll(len(own) // 2, dims=0)
        applicable = has_sources & rows.not_spike[:, target]
        close, by_chance = (applicable & ((bins - values).abs() <= 1) for values in (own, of_other_rows))
        min_rows = by_chance.sum(dim=0) + MIN_EXCESS_FRACTION * len(own)
        selected = select_relations(candidates, close, applicable, min_rows, MAX_RELATIONS_PER_COLUMN)
        self.relations.store(selected, rows.units)


@cache
def _kernel_table(n_bins: int, device: torch.device) -> Tensor:
    """Return all kernels at all centres, (n_bins * N_KERNELS, n_bins)."""
    bins = torch.arange(n_bins, device=device, dtype=torch.float32)
    offset = bins[None] - bins[:, None]
    sides = offset <= 0, offset >= 0
    exponentials = [torch.exp(-offset.abs() / width) * side for width in KERNEL_WIDTHS for side in sides]
    return torch.stack([(offset == 0).float(), *exponentials], dim=1).flatten(0, 1)


def _bin_index(edges: Tensor, values: Tensor) -> Tensor:
    """Return the bin of each value: edges (columns, n_bins - 1) and values (n, columns) to (n, columns)."""
    return torch.searchsorted(edges, values.T.contiguous()).T
