"""Harpoon: the default preset with several strategies, and the paper's preset with all its variants."""

from __future__ import annotations

from dataclasses import asdict
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch

from harpoon import Harpoon, Schema
from harpoon._utils.rng import Stream
from harpoon.conditions import evaluate
from harpoon.conditions.binding.bound import AnyOf, BoundPredicate, IsIn
from harpoon.config import PRESETS, call_options
from harpoon.data import Floats, Index, dataframe
from harpoon.data.reader import read_columns
from harpoon.encoding import Penalty
from harpoon.exceptions import InvalidOption
from harpoon.inference.conditional.condition_search import guiding_penalty
from harpoon.inference.conditional.query import Query
from harpoon.inference.diagnostics.sampling_info import SamplingInfo
from harpoon.inference.imputation.partial_table import constant_columns
from harpoon.inference.sampling.reverse_diffusion import sample_encoded
from harpoon.inference.sampling.row_sampler import RowSampler
from harpoon.networks.layers import has_fast_bfloat16
from harpoon_bench.baselines.base import Method, fill_missing

# What the category term of an "or" pulls a row to: the category that the condition names, as in the paper's text, or
# that of the row's own test row, as in the paper's code.
OR_TARGETS = ("asked", "test_rows")
# The type of the network's products while rows are sampled. Weights and all other operations are float32.
PRODUCTS = ("bfloat16", "float32")


class HarpoonMethod(Method):
    """A preset of Harpoon. Its options are those of the preset and the strategy of conditional sampling."""

    preset: ClassVar[str]
    can_sample = True
    sampling_options = (*call_options(), "strategy")
    model: Harpoon

    def fit(self, train: pd.DataFrame, schema: Schema) -> Self:
        """Train within the budget, or with the limits of the preset."""
        changed = {
            name: value
            for name, value in self.options.items()
            if name not in self.sampling_options and value != self.defaults[name]
        }
        limit: dict[str, Any] = {} if self.budget is None else {"max_time": self.budget}
        self.schema = schema
        self.model = Harpoon(
            self.preset, schema=schema, random_state=self.seed, progress=False, **{**changed, **limit}
        ).fit(train, checkpoint=self.checkpoint)
        return self

    def sample(self, n: int, where: str | None = None) -> pd.DataFrame:
        """Sample complete rows, which scores need, with the strategy of the options."""
        strategy = "auto" if where is None else str(self.options["strategy"])
        rows: pd.DataFrame = self.model.sample(
            n,
            where=where,
            strategy=strategy,
            missing="complete",
            random_state=self.seed,
            **self.call_options(sampling=True),
        )
        return rows

    def call_options(self, *, sampling: bool = False) -> dict[str, Any]:
        """Return the options of a single call that differ from the preset; sampled rows have no observed cells."""
        unused = {"strategy", "or_target", "products"} | ({"reconstruction_loss"} if sampling else set())
        names = [name for name in self.sampling_options if name not in unused]
        return {name: self.options[name] for name in names if self.options[name] != self.defaults[name]}

    def facts(self) -> dict[str, object]:
        """Return the length of the training, the size of the network and diagnostics of the last sample."""
        info = getattr(self.model, "sampling_info_", None)
        return {
            "epochs": self.model.history_.epochs[-1].number,
            "train_seconds": round(self.model.history_.seconds, 1),
            "stopped_by": self.model.history_.stopped_by,
            "weights": sum(p.numel() for p in self.model.denoiser_.parameters()),
            **({} if info is None else {"sampling_info": asdict(info)}),
        }


class Anchored(HarpoonMethod):
    """The default preset. Cells are imputed with their expectation, by one evaluation of the network."""

    name, title, preset = "anchored", "Harpoon (anchored)", "anchored"
    defaults: ClassVar[dict[str, object]] = {**PRESETS["anchored"].to_json(), "strategy": "auto"}

    def impute(self, incomplete: pd.DataFrame) -> pd.DataFrame:
        """Fill in expected numbers and the most probable categories."""
        expectation = self.model.expect(incomplete)
        categories = {
            name: pd.Series(np.array(expectation.categories[name], dtype=object)[probabilities.argmax(axis=1)])
            for name, probabilities in expectation.probabilities.items()
        }
        return fill_missing(incomplete, pd.DataFrame({**expectation.numbers, **categories}), self.schema)


class Guided(Anchored):
    """The default preset; conditions by guidance only."""

    name, title, shares_training_with = "guided", "Harpoon (anchored, guided)", "anchored"
    defaults: ClassVar[dict[str, object]] = {**Anchored.defaults, "strategy": "guidance"}


class Rejection(Anchored):
    """The default preset; conditions by rejection sampling only."""

    name, title, shares_training_with = "rejection", "rejection sampling", "anchored"
    defaults: ClassVar[dict[str, object]] = {**Anchored.defaults, "strategy": "rejection"}


class Paper(HarpoonMethod):
    """The paper's preset. The choices of the paper's ablations are options.

    Two more options are `or_target` (`OR_TARGETS`) and `products` (`PRODUCTS`): bfloat16 products are used where the
    processor is fast at them. The record of `products=float32` shows that they do not change the scores.
    """

    name, title, preset = "paper", "Harpoon (paper preset)", "paper"
    sampling_options = (*HarpoonMethod.sampling_options, "or_target", "products")
    defaults: ClassVar[dict[str, object]] = {
        **PRESETS["paper"].to_json(),
        "strategy": "paper",
        "or_target": OR_TARGETS[0],
        "products": PRODUCTS[0],
    }

    encoded: Floats | None = None

    def __init__(self, *, seed: int = 0, budget: float | None = None, **options: object) -> None:
        super().__init__(seed=seed, budget=budget, **options)
        for name, choices in (("or_target", OR_TARGETS), ("products", PRODUCTS)):
            if self.options[name] not in choices:
                raise InvalidOption.one_of(name, self.options[name], choices)

    def _set_products(self) -> None:
        """Choose the type of the network's products; the paper's network has no other difference in training mode."""
        self.model.denoiser_.train(self.options["products"] == "bfloat16")

    @property
    def is_published_encoding(self) -> bool:
        """Whether rows are encoded as in the paper's experiments, so that scores of encoded rows are defined."""
        return (self.options["encoding"], self.options["scaling"]) == ("onehot", "standard")

    def sample(self, n: int, where: str | None = None) -> pd.DataFrame:
        """Sample rows as `Harpoon.sample` does, and keep them as they were before they were decoded."""
        return self._sample(n, where)

    def sample_like(self, reference: pd.DataFrame, where: str | None = None) -> pd.DataFrame:
        """Sample as many rows; with `or_target="test_rows"`, the categories of the reference guide an "or"."""
        return self._sample(len(reference), where, reference if self.options["or_target"] == "test_rows" else None)

    def _sample(self, n: int, where: str | None, reference: pd.DataFrame | None = None) -> pd.DataFrame:
        """Sample rows, and keep them encoded in `encoded`, (n, d); other strategies keep no encoded rows."""
        self.encoded = None
        self._set_products()
        if where is not None and self.options["strategy"] != "paper":
            return super().sample(n, where)
        model, began = self.model, perf_counter()
        query, seed = Query.create(model.codec_, where), model._call_seed(self.seed)
        sampler = model._sampler(seed, self.call_options(sampling=True))
        index, size = np.arange(n), int(sampler.config.sampling_batch_size)
        if query is None:
            self.encoded = self._sample_encoded(sampler, index, Stream.CELLS, None)
        elif reference is None or not isinstance(query.predicate, AnyOf):
            penalty = guiding_penalty(sampler, query.predicate)
            self.encoded = self._sample_encoded(sampler, index, Stream.GUIDED, penalty)
        else:  # each batch has its own targets
            targets, parts = model.encode(reference).x, []
            for batch in np.split(index, range(size, n, size)):
                penalty = or_penalty(sampler, query.predicate, targets[batch])
                parts.append(self._sample_encoded(sampler, batch, Stream.GUIDED, penalty))
            self.encoded = np.concatenate(parts)
        seconds, cells = perf_counter() - began, model.codec_.decode(self.encoded)
        violations = None if query is None else 1 - float(evaluate(query.predicate, cells).mean())
        name = "unconditional" if query is None else "paper"
        counts: dict[str, Any] = {
            "rows": n,
            "sampled": n,
            "rounds": 1,
            "evaluations": sampler.evaluations,
            "seconds": seconds,
        }
        model._sampling_info = SamplingInfo(name, guided_violations=violations, violations=violations or 0.0, **counts)
        constants = constant_columns(model.schema_, model.template_, n)
        sampled: pd.DataFrame = model.template_.build({**constants, **cells})
        return sampled

    def _sample_encoded(self, sampler: RowSampler, index: Index, draw: int, penalty: Penalty | None) -> Floats:
        """Sample the encoded rows with these numbers, (n, d)."""
        given = dataframe.constant_table({}, len(index))
        rows = read_columns(given, self.model.schema_, partial=True, strict=True)
        return sample_encoded(sampler, rows, index, draw=draw, penalty=penalty)

    def impute(self, incomplete: pd.DataFrame) -> pd.DataFrame:
        """Fill in one guided sample."""
        self._set_products()
        values: pd.DataFrame = self.model.impute(incomplete, random_state=self.seed, **self.call_options())
        return fill_missing(incomplete, values, self.schema)

    def facts(self) -> dict[str, object]:
        """Return the facts of every preset and the type of the products that were used."""
        is_fast = has_fast_bfloat16(torch.device(self.model.device).type)
        return {**super().facts(), "products": self.options["products"] if is_fast else "float32"}


def or_penalty(sampler: RowSampler, predicate: AnyOf, targets: torch.Tensor) -> Penalty:
    """Return the penalty of an "or" in the paper's code: each category term pulls a row to its target's category.

    Args:
        sampler: Gives the codec and the options of guidance.
        predicate: The "or".
        targets: The encoded test rows, (n, d), one for each sampled row.
    """

    def part_penalty(part: BoundPredicate) -> Penalty:
        if not isinstance(part, IsIn):
            return guiding_penalty(sampler, part)
        place = next(found for found in sampler.codec.slices if found.name == part.column)
        target = targets[:, place.start : place.stop]

        def distance(x0_hat: torch.Tensor) -> torch.Tensor:
            rows = torch.arange(len(x0_hat)) % len(target)  # a small batch is padded with its own rows
            return (x0_hat[:, place.start : place.stop] - target[rows]).abs().sum(dim=1)

        return distance

    parts = [part_penalty(part) for part in predicate.parts]
    return lambda x0_hat: torch.stack([part(x0_hat).double() for part in parts]).prod(dim=0)
