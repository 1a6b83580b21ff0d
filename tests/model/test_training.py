"""Training: limits, progress, interruption and checkpoints."""

import signal
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from harpoon import (
    ColumnLeftOutWarning,
    Harpoon,
    HarpoonWarning,
    InvalidOption,
    ModelFileError,
    RowsDroppedWarning,
    TrainingFailed,
    UnknownCategoryWarning,
)
from harpoon.config import TrainingConfig
from harpoon.diffusion.denoiser import initialize_linear
from harpoon.diffusion.schedules import LinearSchedule
from harpoon.encoding.encoded_rows import EncodedRows
from harpoon.networks.paper_denoiser import PaperDenoiser
from harpoon.sklearn import HarpoonImputer
from harpoon.training import trainer
from harpoon.training.trainer import Epoch, train
from tests.support.tables import small_model, up_or_down_table


def config(**changes) -> TrainingConfig:
    defaults = {
        "batch_size": 32,
        "learning_rate": 1e-3,
        "learning_rate_schedule": "constant",
        "max_epochs": 3,
        "validation_fraction": 0.1,
    }
    return TrainingConfig(**{**defaults, **changes})


def data(rows: int = 100) -> EncodedRows:
    x = torch.randn(rows, 2, generator=torch.Generator().manual_seed(0))
    return EncodedRows(x, torch.ones_like(x, dtype=torch.bool))


def denoiser() -> PaperDenoiser:
    network = PaperDenoiser(2, 16, LinearSchedule(steps=20))
    initialize_linear(network, torch.Generator().manual_seed(0))
    return network


def weights(module: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def test_training_stops_by_epochs():
    history = train(denoiser(), data(), config(max_epochs=4), seed=0)
    assert [epoch.number for epoch in history.epochs] == [1, 2, 3, 4]
    assert history.stopped_by == "epochs"
    assert history.seconds == history.epochs[-1].seconds


def test_training_stops_by_time_even_within_the_first_epoch():
    history = train(denoiser(), data(5000), config(max_epochs=None, max_time=1e-3), seed=0)
    assert history.stopped_by == "time"
    assert len(history.epochs) == 1


def test_training_stops_without_improvement_and_restores_the_best_weights():
    model = denoiser()
    seen = []
    options = config(max_epochs=500, patience=3, learning_rate=0.5)  # far too fast: the loss goes up
    history = train(model, data(), options, seed=0, on_epoch=lambda epoch: seen.append((epoch, weights(model).clone())))
    assert history.stopped_by == "no improvement"
    best = min(seen, key=lambda pair: pair[0].validation_loss)
    assert best[0].number == len(seen) - 3
    assert history.epochs[-1].validation_loss > 1.02 * best[0].validation_loss
    assert torch.equal(weights(model), best[1])


def test_training_lowers_the_loss():
    x = torch.randn(400, 1, generator=torch.Generator().manual_seed(0)).expand(400, 2)
    rows = EncodedRows(x, torch.ones_like(x, dtype=torch.bool))
    history = train(denoiser(), rows, config(max_epochs=40, learning_rate=5e-3), seed=0)
    assert history.epochs[-1].loss < 0.8 * history.epochs[0].loss
    assert history.epochs[-1].validation_loss < 0.8 * history.epochs[0].validation_loss


def test_validation_rows_are_optional():
    rows = data(200)
    history = train(denoiser(), rows, config(validation_fraction=0.0), seed=0)
    assert all(epoch.validation_loss is None for epoch in history.epochs)
    assert train(denoiser(), data(10), config(), seed=0).epochs[0].validation_loss is None  # too few rows


def test_the_same_seed_trains_the_same_weights():
    first, second = denoiser(), denoiser()
    train(first, data(), config(), seed=3)
    train(second, data(), config(), seed=3)
    assert torch.equal(weights(first), weights(second))


class Stalled(PaperDenoiser):
    """Its loss stays at 5 while its gradient is 1: each step of Adam moves the weight by the learning rate."""

    def __init__(self) -> None:
        super().__init__(1, 2, LinearSchedule(steps=2))
        self.noise = torch.nn.Identity()
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def loss(self, data, generator):
        return 5 + self.weight - self.weight.detach()


@pytest.mark.parametrize(
    ("schedule", "rates"), [("constant", [1.0] * 110), ("plateau", [1.0] * 52 + [0.9] * 51 + [0.81] * 7)]
)
def test_the_plateau_schedule_lowers_the_learning_rate_when_the_loss_stalls(schedule, rates):
    model = Stalled()
    options = config(max_epochs=110, learning_rate=0.01, learning_rate_schedule=schedule, validation_fraction=0.0)
    train(model, data(10), options, seed=0)
    assert -model.weight.item() == pytest.approx(0.01 * sum(rates), rel=1e-3)


@pytest.mark.parametrize(("cooldown_fraction", "epochs"), [(0.0, 200), (10.0, 19)])
def test_a_training_that_no_longer_improves_cools_down_and_stops(cooldown_fraction, epochs):
    """The loss stalls from the first evaluation on: after eight more, ten times as many steps as led to the best."""
    model, positions = Stalled(), []
    options = config(max_epochs=200, learning_rate=0.01, learning_rate_schedule="cosine", validation_fraction=0.0)
    options = replace(options, cooldown_fraction=cooldown_fraction)
    history = train(model, data(10), options, seed=0, on_epoch=lambda _: positions.append(-model.weight.item()))
    assert history.epochs[-1].number == epochs
    assert history.stopped_by == ("no improvement" if cooldown_fraction else "epochs")
    steps = np.diff(positions)
    assert steps[-1] < 0.1 * steps.max()  # the learning rate has decayed to 0 in either case


def test_a_loss_that_is_not_finite_is_an_error_with_advice():
    broken = EncodedRows(torch.full((40, 2), torch.inf), torch.ones(40, 2, dtype=torch.bool))
    with pytest.raises(TrainingFailed, match="smaller learning_rate"):
        train(denoiser(), broken, config(), seed=0)


def test_ctrl_c_stops_the_training_and_keeps_the_weights():
    model = denoiser()

    def interrupt(epoch: Epoch) -> None:
        if epoch.number == 3:
            signal.raise_signal(signal.SIGINT)

    history = train(model, data(), config(max_epochs=1000), seed=0, on_epoch=interrupt)
    assert history.stopped_by == "Ctrl-C"
    assert len(history.epochs) == 3
    assert not model.training


def test_ctrl_c_leaves_a_usable_model(monkeypatch):
    epoch = trainer._Training._epoch

    def interrupted(self):
        if self.n_epochs >= 2:
            signal.raise_signal(signal.SIGINT)
        return epoch(self)

    monkeypatch.setattr(trainer._Training, "_epoch", interrupted)
    rng = np.random.default_rng(0)
    table = pa.table({"x": rng.normal(size=60), "y": rng.normal(size=60)})
    model = Harpoon(hidden=8, max_epochs=10**9, random_state=0).fit(table)
    assert (model.history_.stopped_by, model.sample(4).num_rows) == ("Ctrl-C", 4)


def test_progress_shows_losses_and_remaining_time(capsys):
    rng = np.random.default_rng(0)
    table = pa.table({"x": rng.normal(size=60), "y": rng.normal(size=60)})
    model = Harpoon(hidden=8, max_epochs=2, random_state=0).fit(table)
    model.sample(2)
    output, shown = capsys.readouterr()
    assert not output  # a table may be written there
    assert "epoch 2, loss" in shown
    assert "stopped by epochs" in shown
    assert "validation" in shown
    assert "0:00:00" in shown
    assert "Sampling" in shown


def test_the_fraction_done_follows_the_limit_that_is_reached_first():
    assert config(max_epochs=10, max_time=None).fraction_done(5, 30.0) == 0.5
    assert config(max_epochs=10, max_time=40.0).fraction_done(5, 30.0) == 0.75
    assert config(max_epochs=None, max_time=20.0).fraction_done(5, 30.0) == 1.0


def test_dropping_many_incomplete_rows_is_a_warning():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(100) < 0.5, np.nan, rng.normal(size=100))
    table = pa.table({"x": pa.array(x, from_pandas=True), "y": rng.normal(size=100)})
    with pytest.warns(RowsDroppedWarning, match="of 100 rows are complete"):
        Harpoon("paper", hidden=8, diffusion_steps=3, max_epochs=1, progress=False).fit(table)


FIT_AND_IMPUTE = {
    "Harpoon": lambda train, test: Harpoon(hidden=8, max_epochs=1, progress=False).fit(train).impute(test),
    "sklearn": lambda train, test: HarpoonImputer(max_epochs=1, options={"hidden": 8}).fit(train).transform(test),
}


@pytest.mark.parametrize("fit_and_impute", FIT_AND_IMPUTE.values(), ids=FIT_AND_IMPUTE)
def test_warnings_point_at_the_line_of_the_caller(fit_and_impute):
    table = pa.table({"x": [0.1, 0.9, None] * 20, "kind": ["low", "high", "low"] * 20, "unit": ["kg"] * 60})
    with pytest.warns(HarpoonWarning) as caught:
        fit_and_impute(table, pa.table({"x": [0.1], "kind": ["middle"], "unit": ["kg"]}))
    assert [warning.category for warning in caught] == [ColumnLeftOutWarning, UnknownCategoryWarning]
    assert {warning.filename for warning in caught} == {__file__}


def test_max_epochs_alone_removes_the_time_limit():
    assert Harpoon().config.max_time == 120
    assert Harpoon(max_epochs=5).config.max_time is None
    assert Harpoon(max_epochs=5, max_time=9).config.max_time == 9
    assert Harpoon(max_time=9).config.max_epochs == 1000


def test_sizes_adapt_to_the_table_unless_they_are_given():
    options = Harpoon().config
    assert [options.adapt(rows).hidden for rows in (10, 3999, 4000, 10**6)] == [128, 128, 256, 256]
    assert [options.adapt(rows).batch_size for rows in (10, 2000, 4096, 10**6)] == [64, 128, 256, 512]
    assert [options.adapt(rows).rank_bins for rows in (0, 350, 1600, 7000, 10**6)] == [8, 8, 16, 64, 128]
    given = Harpoon(hidden=32, batch_size=10).config.adapt(10**6)
    assert (given.hidden, given.batch_size) == (32, 10)


@pytest.mark.parametrize("preset", ["anchored", "paper"])
def test_a_resumed_training_ends_as_if_it_had_never_stopped(tmp_path, preset):
    """Weights, averages, moments, learning rates, random state and the best weights are all restored."""
    options = {"batch_size": 32, "eval_every": 1, "learning_rate_schedule": "plateau", "patience": 50}
    path = tmp_path / "run.checkpoint"
    small_model(preset, max_epochs=3, **options).fit(up_or_down_table(), checkpoint=path)
    resumed = small_model(preset, max_epochs=7, **options).fit(up_or_down_table(), checkpoint=path)
    uninterrupted = small_model(preset, max_epochs=7, **options).fit(up_or_down_table())
    assert torch.equal(weights(resumed.denoiser_), weights(uninterrupted.denoiser_))
    assert [epoch.loss for epoch in resumed.history_.epochs] == [epoch.loss for epoch in uninterrupted.history_.epochs]
    assert resumed.sample(5).equals(uninterrupted.sample(5))


def test_a_training_that_had_ended_does_not_continue(tmp_path):
    path = tmp_path / "run.checkpoint"
    first = small_model(max_epochs=3).fit(up_or_down_table(), checkpoint=path)
    again = small_model(max_epochs=3).fit(up_or_down_table(), checkpoint=path)
    assert again.history_ == first.history_
    assert torch.equal(weights(first.denoiser_), weights(again.denoiser_))


def test_a_resumed_training_has_the_seed_it_started_with(tmp_path):
    path, unseeded = tmp_path / "run.checkpoint", {"random_state": None}
    first = small_model(max_epochs=2, **unseeded).fit(up_or_down_table(), checkpoint=path)
    again = small_model(max_epochs=2, **unseeded).fit(up_or_down_table(), checkpoint=path)
    assert torch.equal(weights(first.denoiser_), weights(again.denoiser_))


@pytest.mark.parametrize("other", [{"hidden": 8}, {"random_state": 1}, {"learning_rate": 1e-4}, {}])
def test_the_checkpoint_of_another_training_is_an_error(tmp_path, other):
    path = tmp_path / "run.checkpoint"
    small_model(max_epochs=1).fit(up_or_down_table(), checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(InvalidOption, match="of another table, of other options"):
        small_model(max_epochs=1, **other).fit(up_or_down_table(300 if other else 200), checkpoint=path)
    assert path.read_bytes() == before


def test_a_checkpoint_is_not_a_model_and_a_model_is_not_a_checkpoint(tmp_path):
    model, path = small_model(max_epochs=1), tmp_path / "run.checkpoint"
    model.fit(up_or_down_table(), checkpoint=path)
    with pytest.raises(ModelFileError, match=r"fit\(checkpoint="):
        Harpoon.load(path)
    model.save(path)
    with pytest.raises(InvalidOption, match="not a checkpoint"):
        model.fit(up_or_down_table(), checkpoint=path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ModelFileError, match="damaged"):
        model.fit(up_or_down_table(), checkpoint=path)
    with pytest.raises(ModelFileError, match="cannot be written"):
        model.fit(up_or_down_table(), checkpoint=tmp_path / "nowhere" / "run.checkpoint")
