"""Everything that can be set, with the values of each preset.

`preset="paper"` is the paper to the letter. Where its published code and its text differ, or leave a choice, there
is a named option, and the preset holds the published value:

    learning_rate_schedule  "plateau": the published code lowers the rate when the loss stalls; "constant": the text
    noise_scale             "variance": Algorithm 1, line 7; "deviation": its square root, as DDPM derives it
    start                   "standard": N(0, I); "matched": the moments the forward process really ends with
    incomplete              "drop": train on complete rows; "mask": on all rows, missing cells never a target
    held_out                0.05: that share of the rows only watches the training; 0: as in the paper, none
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypedDict

import numpy as np

from harpoon.anchored import AnchoredDenoiser, Corruption
from harpoon.codec import Codec
from harpoon.encodings import ENCODINGS, Shape
from harpoon.errors import InvalidOption
from harpoon.guidance import SCHEDULES
from harpoon.network import Denoiser, PaperDenoiser
from harpoon.optimising import OPTIMISERS
from harpoon.penalties import LOSSES
from harpoon.sampling import STARTS, STEPS
from harpoon.scaling import SCALINGS
from harpoon.schedule import LinearSchedule
from harpoon.training import Plan
from harpoon.violations import Weights


@dataclass(frozen=True)
class Settings:
    """The options of a model; the defaults are the paper's.

    Attributes:
        encoding: Of categories: "onehot", "integer", or "spiked": one-hot, rare labels of very many in groups, and
            numbers as means, ranks and point masses.
        scaling: Of numbers: "standard" or "quantile".
        network: "paper" or "anchored".
        hidden: The width of the network; None: by the number of rows.
        steps: T, the length of the paper's schedule.
        beta_start: β_1 of the paper's schedule.
        beta_end: β_T of the paper's schedule.
        depth: Residual blocks of the anchored network.
        bins: Into how many bins the anchored network sorts a known number.
        slots: Into how many slots of its ranks the anchored network sorts what an unknown number may be, at the most:
            many numbers share a bounded number of slots. None: by the number of rows.
        at_noise: The share of training rows whose lost cells are lost wholly (anchored).
        all_unknown: The share of the other training rows that lose every cell (anchored).
        batch_size: Rows per training step; None: by the number of rows.
        optimiser: "adam", or "muon": Muon for the matrices inside the network and AdamW for all else (anchored).
        learning_rate: At its highest.
        learning_rate_schedule: "plateau", "constant" or "cosine" (down to nothing over the training).
        max_epochs: Passes over the rows at the most; None: no limit.
        max_time: Seconds at the most; None: no limit.
        patience: Reports without improvement after which to stop; None: never.
        keep_best: Whether to go back to the best weights if the last ones are clearly worse.
        cool_down: Once held-out rows have not improved for long, the training goes back to its best weights and ends in
            this share of the steps that led to them, while the "cosine" rate falls to nothing; 0: it never does.
        weight_decay: Of the matrices, per step and learning rate.
        average: The decay of the moving average of the weights; 0: none.
        largest_gradient: The norm that gradients are cut to; 0: no cut.
        steps_per_report: Training steps between two looks at the held-out rows, at the least.
        held_out: The share of rows that only watches the training.
        incomplete: "drop" trains on complete rows, "mask" on all.
        loss: Of guidance towards known cells: "mae", "mse", "mae+ce" or "mse+ce".
        strength: η of guidance.
        strength_schedule: "constant" or "linear" (growing from 0).
        longest_pull: How far guidance moves a row in a step at the most, in units of the noise left in it; 0: no bound.
        bound_weight: λ_g, of the bounds of a condition.
        bound_power: The power of how far a bound is missed.
        category_weight: λ_h, of the labels of a condition.
        category_power: The power of how far a label is missed, for "l1".
        category_loss: Of the labels of a condition: "l1" or "ce" (cross-entropy).
        noise_scale: Of the noise in a reverse step: "variance", "deviation" or "none".
        turns: In how many turns the cells of a row are drawn at the most, each cell knowing those of the turns before
            it (anchored); 0: all cells together, by the reverse process, as always where something pulls.
        order: Of a step: 1, or 2 to look ahead, which needs fewer steps where there is no noise in them.
        start: Of the reverse process: "standard" or "matched".
        sampling_steps: Steps of the reverse process, at most those of the schedule.
        sampling_batch_size: Rows that go through it together.
    """

    # The encoded row.
    encoding: str = "onehot"
    scaling: str = "standard"
    # The network and its noise.
    network: str = "paper"
    hidden: int | None = 1024
    steps: int = 200
    beta_start: float = 1e-4
    beta_end: float = 0.02
    depth: int = 2
    bins: int = 32
    slots: int | None = 128
    at_noise: float = 0.85
    all_unknown: float = 0.5
    # Training.
    batch_size: int | None = 1024
    optimiser: str = "adam"
    learning_rate: float = 1e-4
    learning_rate_schedule: str = "plateau"
    max_epochs: int | None = 1000
    max_time: float | None = None
    patience: int | None = None
    keep_best: bool = False
    cool_down: float = 0.0
    weight_decay: float = 0.0
    average: float = 0.0
    largest_gradient: float = 0.0
    steps_per_report: int = 1
    held_out: float = 0.05
    incomplete: str = "drop"
    # Sampling.
    loss: str = "mae"
    strength: float = 0.2
    strength_schedule: str = "constant"
    longest_pull: float = 0.0
    bound_weight: float = 1.0
    bound_power: float = 2.0
    category_weight: float = 1.0
    category_power: float = 1.0
    category_loss: str = "l1"
    noise_scale: str = "variance"
    turns: int = 0
    order: int = 1
    start: str = "standard"
    sampling_steps: int = 200
    sampling_batch_size: int = 1024

    def __post_init__(self) -> None:
        for name, options in CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in options:
                raise InvalidOption.one_of(name, value, options)
        for name, (whole, lowest, highest) in RANGES.items():
            _check_range(name, getattr(self, name), whole=whole, lowest=lowest, highest=highest)
        mean_beta = (self.beta_start + self.beta_end) / 2
        if -self.steps * math.log1p(-mean_beta) > MOST_NOISE:
            raise InvalidOption(
                f"{self.steps} steps with beta from {self.beta_start:g} to {self.beta_end:g} leave nothing of a row: "
                "use fewer steps or a smaller beta_end."
            )
        if self.hidden is not None and self.hidden % 2:
            raise InvalidOption(f"hidden must be even, got {self.hidden}.")
        if self.max_epochs is None and self.max_time is None and self.patience is None:
            raise InvalidOption("One of max_epochs, max_time and patience must be set, or training never ends.")

    def changed(self, options: Mapping[str, Any]) -> Settings:
        """A copy with some options changed."""
        return self._changed(options, [f.name for f in fields(self)], MODEL_ARGUMENTS)

    def for_call(self, options: Mapping[str, Any]) -> Settings:
        """A copy with some options changed that `impute` and `sample` take."""
        known = sorted({*DrawingOptions.__annotations__, *SamplingOptions.__annotations__})
        return self._changed(options, known, CALL_ARGUMENTS)

    def _changed(self, options: Mapping[str, Any], known: list[str], arguments: tuple[str, ...]) -> Settings:
        for name in options:
            if name in known:
                continue
            if name in arguments:
                raise InvalidOption(f"{name} is an argument of another call than this one; leave it out here.")
            raise InvalidOption.one_of("An option", name, [*known, *arguments])  # which may be a slip in either
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
        return replace(self, **plain)

    def adapted(self, rows: int) -> Settings:
        """A copy in which what is left open suits so many rows.

        A small table has little to say and is over soon: a small network learns it in cheaper steps, and small batches
        make more steps of it. Slots that hold hardly any rows would be learnt by heart.
        """
        return replace(
            self,
            hidden=self.hidden or (SMALL_HIDDEN if rows < SMALL_TABLE else LARGE_HIDDEN),
            batch_size=self.batch_size or _power_of_two(rows / BATCHES, SMALLEST_BATCH, LARGEST_BATCH),
            slots=self.slots or _power_of_two(rows / ROWS_PER_SLOT, FEWEST_SLOTS, ENOUGH_SLOTS),
        )

    def denoiser(self, codec: Codec) -> Denoiser:
        """A network for encoded rows of this codec."""
        return NETWORKS[self.network](self, codec)

    def weights(self) -> Weights:
        """How the parts of a condition's penalty weigh."""
        return Weights(**{f.name: getattr(self, f.name) for f in fields(Weights)})

    def plan(self) -> Plan:
        """How to train."""
        return Plan(**{f.name: getattr(self, f.name) for f in fields(Plan)})

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


class DrawingOptions(TypedDict, total=False):
    """The options that `sample` takes for one call."""

    strength: float
    strength_schedule: str
    longest_pull: float
    bound_weight: float
    bound_power: float
    category_weight: float
    category_power: float
    category_loss: str
    turns: int
    noise_scale: str
    order: int
    start: str
    sampling_steps: int
    sampling_batch_size: int


class SamplingOptions(DrawingOptions, total=False):
    """The options that `impute` takes for one call."""

    loss: str


def _power_of_two(size: float, least: int, most: int) -> int:
    """The nearest one, within bounds."""
    return min(max(1 << round(math.log2(max(size, 1))), least), most)


def _chosen(size: int | None) -> int:
    if size is None:
        raise InvalidOption("The settings must be adapted to a table before a network is made.")
    return size


def _paper(settings: Settings, codec: Codec) -> Denoiser:
    schedule = LinearSchedule(settings.steps, settings.beta_start, settings.beta_end)
    return PaperDenoiser(codec.width, _chosen(settings.hidden), schedule)


def _anchored(settings: Settings, codec: Codec) -> Denoiser:
    corruption = Corruption(settings.at_noise, settings.all_unknown)
    numbers = sum(block.shape is Shape.LINE for block in codec.blocks)
    slots = min(_chosen(settings.slots), max(MOST_SLOTS // max(numbers, 1), FEWEST_SLOTS))
    size = {"hidden": _chosen(settings.hidden), "depth": settings.depth, "bins": settings.bins, "slots": slots}
    return AnchoredDenoiser(codec.blocks, corruption=corruption, scales=codec, **size)


NETWORKS = {"paper": _paper, "anchored": _anchored}


def preset(name: str) -> Settings:
    """The settings of a preset."""
    if not isinstance(name, str) or name not in PRESETS:
        raise InvalidOption.one_of("preset", name, PRESETS)
    return PRESETS[name]


def _check_range(name: str, value: object, *, whole: bool, lowest: float, highest: float) -> None:
    if value is None and name in OPTIONAL:
        return
    number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not number or not lowest <= value <= highest:  # type: ignore[operator]
        kind = "a whole number" if whole else "a number"
        limit = f"of at least {lowest:g}" if highest == math.inf else f"from {lowest:g} to {highest:g}"
        raise InvalidOption(f"{name} must be {kind} {limit}{' or None' if name in OPTIONAL else ''}, got {value!r}.")


CHOICES: dict[str, Mapping[str, object]] = {
    "network": NETWORKS,
    "encoding": ENCODINGS,
    "scaling": SCALINGS,
    "optimiser": OPTIMISERS,
    "learning_rate_schedule": {"plateau": None, "constant": None, "cosine": None},
    "incomplete": {"drop": None, "mask": None},
    "loss": LOSSES,
    "strength_schedule": SCHEDULES,
    "category_loss": {"l1": None, "ce": None},
    "noise_scale": STEPS,
    "start": STARTS,
}
MOST_NOISE = 40.0  # ᾱ_T of e^-40 is still a number that can be divided by
ADAPTED = ("hidden", "batch_size", "slots")
OPTIONAL = ("max_epochs", "max_time", "patience", *ADAPTED)
SMALL_TABLE, SMALL_HIDDEN, LARGE_HIDDEN = 4000, 128, 256
BATCHES, SMALLEST_BATCH, LARGEST_BATCH = 16, 64, 512  # at least so many batches of a table, within these sizes
ROWS_PER_SLOT, ENOUGH_SLOTS = 100, 128  # fewer rows to a slot are learnt by heart
RANGES: dict[str, tuple[bool, float, float]] = {
    "hidden": (True, 2, 2**16),
    "steps": (True, 1, 10_000),
    "depth": (True, 1, 100),
    "bins": (True, 1, 1000),
    "slots": (True, 2, 1000),
    "at_noise": (False, 0.0, 1.0),
    "all_unknown": (False, 0.0, 1.0),
    "weight_decay": (False, 0.0, 1.0),
    "average": (False, 0.0, 0.999999),
    "cool_down": (False, 0.0, 10.0),
    "largest_gradient": (False, 0.0, math.inf),
    "steps_per_report": (True, 1, math.inf),
    "sampling_steps": (True, 1, 10_000),
    "turns": (True, 0, 10_000),
    "order": (True, 1, 2),
    "beta_start": (False, 1e-9, 0.999),
    "beta_end": (False, 1e-9, 0.999),
    "batch_size": (True, 1, math.inf),
    "learning_rate": (False, 1e-9, 1.0),
    "max_epochs": (True, 1, math.inf),
    "max_time": (False, 1e-3, 1e9),
    "patience": (True, 1, math.inf),
    "held_out": (False, 0.0, 0.5),
    "strength": (False, 0.0, 1e6),
    "longest_pull": (False, 0.0, math.inf),
    "bound_weight": (False, 0.0, 1e6),
    "bound_power": (False, 0.1, 10.0),
    "category_weight": (False, 0.0, 1e6),
    "category_power": (False, 0.1, 10.0),
    "sampling_batch_size": (True, 1, math.inf),
}
PRESETS = {
    "paper": Settings(),
    "anchored": Settings(
        encoding="spiked",
        network="anchored",
        hidden=None,
        slots=None,
        batch_size=None,
        optimiser="muon",
        learning_rate=4e-3,
        learning_rate_schedule="cosine",
        weight_decay=1e-2,
        average=0.999,
        largest_gradient=1.0,
        keep_best=True,
        cool_down=0.3,
        steps_per_report=50,
        max_epochs=1000,
        max_time=120.0,
        incomplete="mask",
        strength=1.0,
        longest_pull=1.0,
        category_loss="ce",
        turns=64,
        noise_scale="none",
        order=2,
        sampling_steps=12,
        sampling_batch_size=1024,
    ),
}
MOST_SLOTS, FEWEST_SLOTS = 2**14, 8  # of all numbers together, and of each
MODEL_ARGUMENTS = ("random_state", "device", "schema", "progress")
CALL_ARGUMENTS = (
    "where",
    "given",
    "loss_batch",
    "strategy",
    "on_shortfall",
    "draws",
    "decode",
    "first_row",
    "random_state",
)
