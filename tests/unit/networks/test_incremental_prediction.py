"""Predictions of rows whose cells become known one after another are those of all known cells at once."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harpoon.data import NO_INDEX, dataframe
from harpoon.data.reader import read_columns
from harpoon.data.schema import Schema
from harpoon.data.value_counts import count_columns
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.encoding.row_codec import RowCodec
from harpoon.inference.sampling.variables import Variables
from harpoon.networks.anchored_denoiser import AnchoredDenoiser

ROWS = 300


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(0)
    x = rng.normal(size=ROWS)
    city = rng.integers(0, 6, ROWS)
    table = {
        "x": x,
        "half": np.round(x / 2, 3),
        "atoms": np.where(rng.random(ROWS) < 0.4, 1.0, rng.normal(size=ROWS)),
        "few": rng.integers(0, 3, ROWS),
        "city": [f"city {code}" for code in city],
        "country": [f"country {code % 2}" for code in city],
    }
    table = pa.table({name: pa.array(values, mask=rng.random(ROWS) < 0.1) for name, values in table.items()})
    counts = count_columns(dataframe.read(table))
    schema = Schema.from_counts(counts)
    codec = RowCodec.fit(schema, counts, encoding="mixed", scaling="standard", missing_indicators=True)
    return codec, read_columns(dataframe.read(table), schema)


@pytest.fixture(scope="module", params=[False, True], ids=["without baseline", "with baseline"])
def model(columns, request):
    codec, rows = columns
    denoiser = AnchoredDenoiser(
        codec,
        hidden=16,
        depth=2,
        input_bins=8,
        rank_bins=8,
        max_noise_fraction=0.5,
        unconditional_fraction=0.3,
        gaussian_baseline=request.param,
    )
    generator = torch.Generator().manual_seed(0)
    denoiser.initialize(codec.to_training_batch(rows), generator, rows)
    with torch.no_grad():
        for weight in denoiser.parameters():  # as if it were trained
            weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
        denoiser.bin_edges[:, 3] = denoiser.bin_edges[:, 2]  # a value that fills a bin
        denoiser.bin_edges[:, 4] = denoiser.bin_edges[:, 2] + 5e-5
    return denoiser.at_max_noise()


def assert_same(model, variables, found, expected, rows):
    assert torch.allclose(found.category_logits.dense(), expected.category_logits.dense(), atol=1e-3)
    assert torch.allclose(found.copies.log_p, expected.copies.log_p, atol=1e-3)
    variable = torch.arange(len(rows)) % len(variables)
    positions = variables.categories[variable]
    at = [each.category_logits.at(torch.arange(len(rows)), positions) for each in (found, expected)]
    assert torch.equal(at[0] == -torch.inf, positions == NO_INDEX)
    assert torch.allclose(*at, atol=1e-3)
    requested = torch.arange(len(rows))[:, None] % (1 + torch.arange(len(model.denoiser.rank_head.ranks))) == 0
    one, other = (each.distributions(requested) for each in (found, expected))
    assert torch.allclose(one.bin_logits, other.bin_logits, atol=1e-3)
    assert all(torch.allclose(*pair, atol=1e-3) for pair in zip(one.gaussian, other.gaussian, strict=True))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), first=st.integers(0, 40))
def test_cells_one_after_another_predict_as_all_at_once(columns, model, seed, first):
    codec, table = columns
    variables, generator = Variables.from_codec(codec), torch.Generator().manual_seed(seed)
    rows = codec.to_batch({name: replace(cells, missing=cells.missing.copy()) for name, cells in table.items()})
    rows = rows[torch.randint(0, ROWS, (40,), generator=generator)[torch.arange(60) % 40]]  # some rows are twice there
    predictor, order = model.predict_cellwise(60), torch.rand(60, len(variables), generator=generator)
    with torch.no_grad():
        for level in (0.0, 0.3, 0.6, 1.0, 0.5):  # at last some cells are hidden again
            observed = rows.observed & (order < level)[:, variables.variable_of]
            x = torch.where(observed, rows.x, 0.0)
            index = torch.arange(first, 60)
            found = predictor.predict(x, observed, index)
            assert_same(model, variables, found, model.predict(EncodedRows(x, observed)[index]), index)


def test_rows_with_the_same_cells_are_evaluated_once(columns, model, monkeypatch):
    codec, table = columns
    rows = codec.to_batch(table)[torch.arange(100) % 7]
    backbone = model.denoiser.backbone
    evaluated, trunk = [], backbone.trunk
    monkeypatch.setattr(backbone, "trunk", lambda h: evaluated.append(len(h)) or trunk(h))
    found = model.predict_cellwise(100).predict(rows.x, rows.observed, torch.arange(100))
    assert evaluated == [7]
    assert len(found.h) == 100
