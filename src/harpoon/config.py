"""Options of a model: declared once, with default, range, choices and one line of help.

Validation, the command line, the service and the docs read these declarations. The options fall into four groups:
`ModelConfig`, `TrainingConfig`, `SamplingConfig` and `GuidanceConfig`. `Config` has all of them.

`preset="paper"` is the paper to the letter. Where its published code and its text differ, or leave a choice, there
is a named option, and the preset holds the published value:

    learning_rate_schedule  "plateau": the published code lowers the rate when the loss stalls; "constant": the text
    solver                  "ddpm_printed": noise scaled by the variance, as in Algorithm 1, line 7; "ddpm": by its
                            square root, as DDPM derives it
    initial_noise           "standard": N(0, I); "matched": the moments with which the forward process ends
    incomplete_rows         "drop": train on complete rows; "mask": on all rows, missing cells are never a target
    validation_fraction     0.05: this fraction of the rows is used for validation only; 0: as in the paper, none
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from typing import Any, Self

from harpoon._formatting import closest_matches
from harpoon.exceptions import InvalidOption

DEFAULT_SAMPLE_ROWS, DEFAULT_REPORT_ROWS = 100, 5000  # of `sample`, and of a report
MAX_LOG_NOISE = 40.0  # ᾱ_T of e^-40 can still be divided by
SMALL_TABLE_ROWS, SMALL_HIDDEN, LARGE_HIDDEN = 4000, 128, 256
SMALL_LEARNING_RATE, LARGE_LEARNING_RATE = 2e-3, 4e-3
MIN_BATCHES_PER_EPOCH, MIN_BATCH_SIZE, MAX_BATCH_SIZE = 16, 64, 512
MIN_ROWS_PER_BIN, MIN_RANK_BINS, MAX_RANK_BINS = 100, 8, 128  # bins with fewer rows are overfitted
MODEL_ARGUMENTS = ("random_state", "device", "schema", "progress")
CALL_ARGUMENTS = ("where", "given", "loss", "loss_batch", "targets", "strategy", "on_shortfall", "draws", "row_offset")
# Names that other libraries have for arguments of a model or of a call.
OTHER_NAMES = {
    **dict.fromkeys(("condition", "conditions", "filter", "query", "predicate", "sql"), "where"),
    **dict.fromkeys(("fixed", "known", "evidence", "conditioning"), "given"),
    **dict.fromkeys(("seed", "random_seed", "rng"), "random_state"),
    **dict.fromkeys(("epochs", "n_epochs", "num_epochs"), "max_epochs"),
    **dict.fromkeys(("time_limit", "timeout", "max_seconds"), "max_time"),
    **dict.fromkeys(("verbose", "show_progress"), "progress"),
}
WORDS = {"true": True, "false": False, "none": None, "null": None}


@dataclass(frozen=True)
class Option:
    """The declaration of one option: a line of help and the valid values; `nullable`: None is valid too."""

    help: str
    low: float = -math.inf
    high: float = math.inf
    integer: bool = False
    boolean: bool = False
    choices: tuple[str, ...] = ()
    nullable: bool = False

    def validate(self, name: str, value: object) -> None:
        """Raise InvalidOption unless the value is valid."""
        if value is None and self.nullable:
            return
        if self.choices:
            choices = (*self.choices, *_ADDED_CHOICES.get(name, ()))
            if not isinstance(value, str) or value not in choices:
                raise InvalidOption.one_of(name, value, choices)
        elif self.boolean:
            if not isinstance(value, bool):
                raise InvalidOption(f"{name} must be True or False{self._or_none}, got {value!r}.")
        else:
            self._validate_number(name, value)

    def _validate_number(self, name: str, value: Any) -> None:  # noqa: ANN401
        valid = isinstance(value, int if self.integer else int | float) and not isinstance(value, bool)
        if not valid or not self.low <= value <= self.high:
            kind = "an integer" if self.integer else "a number"
            limit = f"of at least {self.low:g}" if self.high == math.inf else f"from {self.low:g} to {self.high:g}"
            message = f"{name} must be {kind} {limit}{self._or_none}, got {value!r}."
            raise InvalidOption(message, code="option_out_of_range", option=name)

    @property
    def _or_none(self) -> str:
        return " or None" if self.nullable else ""

    def parse(self, name: str, text: str) -> Any:  # noqa: ANN401
        """Return the value that a text stands for, if it is valid.

        >>> Option("Width.", 2, 64, integer=True, nullable=True).parse("hidden", "16")
        16
        """
        value: Any = text
        if text.lower() in WORDS and not self.choices:
            value = WORDS[text.lower()]
        elif not self.choices and not self.boolean:
            for to_number in (float, int):
                with suppress(ValueError):
                    value = to_number(text)
        self.validate(name, value)
        return value

    @property
    def values(self) -> str:
        """The valid values in a few words: `a, b`, `true or false`, `integer, 1 to 100`."""
        if self.choices or self.boolean:
            return ", ".join(self.choices) or f"true or false{self._or_none.lower()}"
        high = "" if self.high == math.inf else f" to {self.high:g}"
        kind = "integer" if self.integer else "number"
        return f"{kind}, {self.low:g}{high or ' or more'}{self._or_none.lower()}"


_ADDED_CHOICES: dict[str, list[str]] = {}


def add_choice(option: str, value: str) -> None:
    """Make a new entry of a registry a valid value of its option, such as a solver of your own.

    >>> add_choice("solver", "heun")
    >>> Config(solver="heun").solver
    'heun'
    """
    _ADDED_CHOICES.setdefault(option, []).append(value)


def _option(default: Any, help: str, low: float = -math.inf, high: float = math.inf) -> Any:  # noqa: A002, ANN401
    return field(default=default, metadata={"option": Option(help, low, high)})


def _choice(choices: tuple[str, ...], help: str, *, default: str | None = None) -> Any:  # noqa: A002, ANN401
    """Declare an option whose value is a name; without a default it is the first one."""
    return field(default=default or choices[0], metadata={"option": Option(help, choices=choices)})


@dataclass(frozen=True)
class ModelConfig:
    """The encoded row, the network and its noise."""

    encoding: str = _choice(
        ("onehot", "integer", "mixed"),
        "Encoding of columns. onehot and integer: of categories, as in the paper; mixed: one-hot or hierarchical "
        "categories, and numbers as a standardised value, a normal score and spikes.",
    )
    scaling: str = _choice(("standard", "quantile"), "Scaling of numeric columns.")
    network: str = _choice(("paper", "anchored"), "Denoiser.")
    hidden: int | None = _option(1024, "Width of the network. None: chosen by the number of rows.", 2, 2**16)
    diffusion_steps: int = _option(200, "T, the number of steps of the paper's noise schedule.", 1, 10_000)
    beta_start: float = _option(1e-4, "β_1 of the paper's noise schedule.", 1e-9, 0.999)
    beta_end: float = _option(0.02, "β_T of the paper's noise schedule.", 1e-9, 0.999)
    time_embedding: str = _choice(
        ("truncated", "sinusoidal"),
        "Embedding of the step t (paper). truncated: one frequency, as in the published code; sinusoidal: geometric "
        "frequencies, as in the text.",
    )
    missing_indicators: bool = _option(
        default=False,
        help="Model which cells are missing, for columns with missing training cells (anchored). Sampled rows then "
        "have missing cells as the training table has.",
    )
    calendar_parts: bool = _option(
        default=False,
        help="Model the month, weekday and hour of timestamps, as far as they vary, and sample timestamps that have "
        "them (anchored, encoding mixed).",
    )
    rare: str = _choice(
        ("keep", "suppress"),
        "Values of fewer than k training rows. suppress: labels, spikes, ends of ranges and quantiles that rest on "
        "fewer rows are neither stored in the model nor sampled; recommended for anything that is shared.",
    )
    k: int = _option(10, "Fewest rows on which a value rests that is not rare.", 2, 1_000_000)
    depth: int = _option(2, "Number of residual blocks (anchored).", 1, 100)
    input_bins: int = _option(32, "Bins of the piecewise linear encoding of an observed number (anchored).", 1, 1000)
    rank_bins: int | None = _option(
        128,
        "Bins of the histogram over normal scores, at most: many numeric columns share a bounded number of bins "
        "(anchored). None: chosen by the number of rows.",
        2,
        1000,
    )
    gaussian_baseline: bool | None = _option(
        default=False,
        help="Predict numbers relative to a linear Gaussian model of the table (anchored). None: for small tables.",
    )
    max_noise_fraction: float = _option(
        0.85, "Fraction of training rows whose masked cells are removed completely, not noised (anchored).", 0.0, 1.0
    )
    unconditional_fraction: float = _option(
        0.5, "Fraction of the other training rows in which every cell is masked (anchored).", 0.0, 1.0
    )


@dataclass(frozen=True)
class TrainingConfig:
    """Optimisation, limits and validation."""

    batch_size: int | None = _option(1024, "Rows per training step. None: chosen by the number of rows.", 1)
    optimizer: str = _choice(
        ("adam", "muon"), "adam, or muon: Muon for inner weight matrices and AdamW for the rest (anchored)."
    )
    learning_rate: float | None = _option(1e-4, "Highest learning rate. None: chosen by the number of rows.", 1e-9, 1.0)
    learning_rate_schedule: str = _choice(
        ("plateau", "constant", "cosine"),
        "plateau: lowered when the loss stalls; cosine: decays to zero over the training.",
    )
    max_epochs: int | None = _option(1000, "Most passes over the rows. None: no limit.", 1)
    max_time: float | None = _option(None, "Most seconds of training. None: no limit.", 1e-3, 1e9)
    patience: int | None = _option(None, "Evaluations without improvement after which training stops. None: never.", 1)
    restore_best: bool = _option(default=False, help="Restore the best weights if the last ones are clearly worse.")
    cooldown_fraction: float = _option(
        0.0,
        "Once the validation loss has stopped improving, training returns to its best weights and decays the cosine "
        "rate to zero over this fraction of the steps that led there. 0: never.",
        0.0,
        10.0,
    )
    weight_decay: float = _option(0.0, "Weight decay of matrices, per step and learning rate.", 0.0, 1.0)
    ema_decay: float = _option(0.0, "Decay of the exponential moving average of the weights. 0: none.", 0.0, 0.999999)
    max_grad_norm: float = _option(0.0, "Norm to which gradients are clipped. 0: no clipping.", 0.0)
    eval_every: int = _option(1, "Fewest training steps between two evaluations of the validation loss.", 1)
    validation_fraction: float = _option(0.0, "Fraction of the rows used for validation only.", 0.0, 0.5)
    incomplete_rows: str = _choice(("drop", "mask"), "drop: train on complete rows; mask: on all rows.")

    def fraction_done(self, epochs: float, seconds: float) -> float:
        """Return how much of the training is done, from 0 to 1, by the limit that is reached first."""
        by_epochs = epochs / self.max_epochs if self.max_epochs else 0.0
        by_time = seconds / self.max_time if self.max_time else 0.0
        return min(max(by_epochs, by_time), 1.0)


@dataclass(frozen=True)
class SamplingConfig:
    """How cells are sampled."""

    solver: str = _choice(
        ("ddpm", "ddpm_printed", "ddim", "dpmpp_2m"),
        "Step of the reverse process. ddpm: ancestral sampling; ddpm_printed: as printed in Algorithm 1; ddim: "
        "without noise; dpmpp_2m: without noise, second order.",
        default="ddpm_printed",
    )
    ar_steps: int = _option(
        0,
        "Most steps of autoregressive sampling; each step conditions on the cells of the steps before it (anchored). "
        "0: reverse diffusion, which is always used for guidance.",
        0,
        10_000,
    )
    initial_noise: str = _choice(
        ("standard", "matched"), "x_T of the reverse process. matched: with the moments of the forward process."
    )
    sampling_steps: int = _option(200, "Steps of the reverse process, at most those of the schedule.", 1, 10_000)
    structural: str = _choice(
        ("fill", "keep"),
        "Imputation of cells that are structurally missing: in training, the cell is always missing beside the "
        "observed categories of its row. fill: as any other; keep: they stay missing (anchored).",
    )
    point: str = _choice(
        ("mean", "median", "mode"),
        "The single value that impute fills in for a number, of its distribution given the observed cells. mean: best "
        "in squared error; median: best in absolute error; mode: the most probable value. Categories are always the "
        "most probable ones (anchored).",
    )
    sampling_batch_size: int = _option(1024, "Rows sampled together.", 1)


@dataclass(frozen=True)
class GuidanceConfig:
    """Gradient guidance (Algorithm 1, line 9) and the penalty of a condition (eq. 9, 10)."""

    reconstruction_loss: str = _choice(
        ("mae", "mse", "mae+ce", "mse+ce"),
        "Loss that guides observed cells, for networks that are not conditioned on them (eq. 7).",
    )
    guidance_scale: float = _option(0.2, "η, the scale of guidance.", 0.0, 1e6)
    guidance_schedule: str = _choice(("constant", "linear"), "η over time. linear: grows from 0.")
    max_guidance_norm: float = _option(
        0.0, "Largest norm of a guidance step, in units of the remaining noise. 0: no limit.", 0.0
    )
    inequality_weight: float = _option(1.0, "λ_g, the weight of the inequalities of a condition.", 0.0, 1e6)
    inequality_power: float = _option(2.0, "Power of the distance to a bound.", 0.1, 10.0)
    category_weight: float = _option(1.0, "λ_h, the weight of the categories of a condition.", 0.0, 1e6)
    category_power: float = _option(1.0, "Power of the distance to a category, for l1.", 0.1, 10.0)
    category_loss: str = _choice(("l1", "ce"), "Loss of the categories of a condition. ce: cross-entropy.")


GROUPS: dict[str, type] = {
    "model": ModelConfig,
    "training": TrainingConfig,
    "sampling": SamplingConfig,
    "guidance": GuidanceConfig,
}
ADAPTIVE = (
    "hidden",
    "batch_size",
    "learning_rate",
    "rank_bins",
    "gaussian_baseline",
)  # None: chosen by the number of rows
LIMITS = ("max_time", "max_epochs", "patience")


@dataclass(frozen=True)
class Config(ModelConfig, TrainingConfig, SamplingConfig, GuidanceConfig):
    """All options of a model; the defaults are the paper's.

    >>> Config().solver, Config(hidden=64).hidden
    ('ddpm_printed', 64)
    """

    def __post_init__(self) -> None:
        for name, option in declared(Config):
            option.validate(name, getattr(self, name))
        mean_beta = (self.beta_start + self.beta_end) / 2
        if -self.diffusion_steps * math.log1p(-mean_beta) > MAX_LOG_NOISE:
            raise InvalidOption(
                f"{self.diffusion_steps} diffusion_steps with beta from {self.beta_start:g} to {self.beta_end:g} leave "
                "no signal: use fewer steps or a smaller beta_end."
            )
        if self.hidden is not None and self.hidden % 2:
            raise InvalidOption(f"hidden must be even, got {self.hidden}.")
        if self.max_epochs is None and self.max_time is None and self.patience is None:
            raise InvalidOption("One of max_epochs, max_time and patience must be set, or training never ends.")

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """Return a copy with some options changed."""
        return self._replace(options, [name for name, _ in declared(Config)], "Config")

    def with_call_options(self, options: Mapping[str, Any]) -> Self:
        """Return a copy with some options changed that a single call may change."""
        return self._replace(options, call_options(), "SamplingConfig or GuidanceConfig")

    def _replace(self, options: Mapping[str, Any], known: Sequence[str], groups: str) -> Self:
        for name in (name for name in options if name not in known):
            if name in (*MODEL_ARGUMENTS, *CALL_ARGUMENTS) or name in asdict(self):
                raise InvalidOption(f"{name} is an argument of another call than this one; leave it out here.")
            names = [*known, *MODEL_ARGUMENTS, *CALL_ARGUMENTS]
            matches = [OTHER_NAMES[name]] if name in OTHER_NAMES else closest_matches(name, names)
            near = " or ".join(map(repr, matches))
            hint = f" Did you mean {near}?" if near else ""
            raise InvalidOption(f"An option must be a field of harpoon.config.{groups}, got {name!r}.{hint}")
        import numpy as np  # the command line reads this module for its help texts

        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
        return replace(self, **plain)

    def adapt(self, rows: int) -> Self:
        """Return a copy in which each option of `ADAPTIVE` that is None suits the number of rows.

        A small network learns a small table in cheaper steps; small batches make more steps per epoch.
        """
        return replace(
            self,
            hidden=self.hidden or (SMALL_HIDDEN if rows < SMALL_TABLE_ROWS else LARGE_HIDDEN),
            batch_size=self.batch_size or _power_of_two(rows / MIN_BATCHES_PER_EPOCH, MIN_BATCH_SIZE, MAX_BATCH_SIZE),
            rank_bins=self.rank_bins or _power_of_two(rows / MIN_ROWS_PER_BIN, MIN_RANK_BINS, MAX_RANK_BINS),
            learning_rate=self.learning_rate
            or (SMALL_LEARNING_RATE if rows < SMALL_TABLE_ROWS else LARGE_LEARNING_RATE),
            gaussian_baseline=rows < SMALL_TABLE_ROWS if self.gaussian_baseline is None else self.gaussian_baseline,
        )

    @property
    def min_rows(self) -> int:
        """The number of training rows on which all that is stored of a column must rest."""
        return self.k if self.rare == "suppress" else 1

    def to_json(self) -> dict[str, Any]:
        """Return the options as plain data."""
        return asdict(self)


@cache
def declared(group: type) -> list[tuple[str, Option]]:
    """Return the name and the declaration of each option of a group; the type of its values is that of the field."""
    options = []
    for item in fields(group):
        kind = {"integer": "int" in item.type, "boolean": "bool" in item.type, "nullable": "None" in item.type}
        options.append((item.name, replace(item.metadata["option"], **kind)))
    return options


def call_options() -> list[str]:
    """Return the options that `impute` and `sample` take for one call."""
    return [name for group in (SamplingConfig, GuidanceConfig) for name, _ in declared(group)]


def preset(name: str) -> Config:
    """Return the options of a preset."""
    if not isinstance(name, str) or name not in PRESETS:
        raise InvalidOption.one_of("preset", name, PRESETS)
    return PRESETS[name]


def _power_of_two(size: float, low: int, high: int) -> int:
    """Return the nearest power of two within bounds."""
    return min(max(1 << round(math.log2(max(size, 1))), low), high)


PRESETS = {
    "paper": Config(),
    "anchored": Config(
        encoding="mixed",
        network="anchored",
        hidden=None,
        rank_bins=None,
        gaussian_baseline=None,
        batch_size=None,
        optimizer="muon",
        learning_rate=None,
        learning_rate_schedule="cosine",
        weight_decay=1e-2,
        ema_decay=0.999,
        max_grad_norm=1.0,
        restore_best=True,
        cooldown_fraction=0.3,
        eval_every=50,
        max_time=120.0,
        incomplete_rows="mask",
        validation_fraction=0.05,
        missing_indicators=True,
        calendar_parts=True,
        guidance_scale=1.0,
        max_guidance_norm=1.0,
        category_loss="ce",
        ar_steps=64,
        solver="dpmpp_2m",
        sampling_steps=12,
    ),
}
