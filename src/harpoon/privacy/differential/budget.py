"""The budget of differential privacy: what the user allows, how it is split, and what a training has spent.

A training has two mechanisms. Both add Gaussian noise to a sum over rows to which one row adds a vector of bounded
norm. *Neighbouring* tables differ by one row, which one of them has and the other does not.

    counts     noisy histograms of all columns, once (`harpoon.privacy.differential.histograms`)
    gradients  the clipped gradients of a random sample of the rows, at each of a fixed number of steps

Noise and steps are fixed before the table is read, so that the composition is not adaptive. The accountant is that of
Opacus for Rényi differential privacy (Mironov, 2017; Mironov, Talwar and Zhang, 2019), which is proven for samples in
which each row is drawn independently.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from harpoon._formatting import format_rounded
from harpoon._utils.extras import installed_version
from harpoon.config import Option, declared
from harpoon.exceptions import InvalidOption, MissingExtra

ACCOUNTANT = "opacus"
COUNTS, GRADIENTS = "counts", "gradients"
# Orders of the Rényi divergence, of which the accountant takes the best.
ORDERS = (*(1 + quarters / 4 for quarters in range(1, 40)), *range(11, 65), 72, 80, 96, 128, 192, 256, 512, 1000)
MIN_NOISE, MAX_NOISE = 0.1, 1e6  # between which noise multipliers are searched
MIN_SIGNAL = 20.0  # by `signal_to_noise`: with less, models of benchmarks learnt hardly any association of columns
GOOD_SIGNAL = 40.0  # with so much, they learnt about half of a correlation in 300 steps, and nearly all in 3,000
SECURE_NOISE = "noise from the operating system's cryptographic generator (secure)"
INSECURE_NOISE = "pseudo-random noise, not secure"
TOLERANCE = 1e-3  # of a noise multiplier, relative; the larger one is taken


def _option(help: str, low: float, high: float, default: Any = None) -> Any:  # noqa: A002, ANN401
    metadata = {"option": Option(help, low, high)}
    return field(metadata=metadata) if default is None else field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Privacy:
    """A budget of differential privacy for `Harpoon(privacy=...)`: how much one row may change the model.

    For any two tables that differ by one row, and any set of models, the probability that the training ends in the
    set differs by a factor of at most exp(epsilon), up to delta (Dwork et al., 2006).

    Args:
        epsilon: ε of the whole training.
        delta: δ of the whole training, far below one divided by the number of rows.
        secure: Whether noise comes from the operating system's cryptographic random numbers, in a way that hides the
            rounding of floats.
        steps: The number of training steps.
        sample_rate: The probability with which each row takes part in a step.
        clipping_norm: The norm to which the gradient of each row is clipped.
        counts_share: The part of epsilon that the counts of the columns would spend alone.

    >>> Privacy(epsilon=2.0, delta=1e-6)
    Privacy(epsilon=2.0, delta=1e-06, secure=False, steps=2000, sample_rate=0.02, clipping_norm=1.0, counts_share=0.25)
    """

    epsilon: float = _option("ε of the whole training.", 1e-3, 1e3)
    delta: float = _option("δ of the whole training, far below one divided by the number of rows.", 1e-15, 0.1)
    secure: bool = field(
        default=False,
        metadata={"option": Option("Take noise from the operating system's cryptographic random numbers.")},
    )
    steps: int = _option("Number of training steps.", 1, 1_000_000, 2000)
    sample_rate: float = _option("Probability with which each row takes part in a step.", 1e-6, 0.5, 0.02)
    clipping_norm: float = _option("Norm to which the gradient of each row is clipped.", 1e-6, 1e6, 1.0)
    counts_share: float = _option("Part of ε that the counts of the columns would spend alone.", 0.01, 0.9, 0.25)

    def __post_init__(self) -> None:
        for name, option in declared(Privacy):
            option.validate(name, getattr(self, name))

    def split(self, n_columns: int) -> BudgetSplit:
        """Return the noise of both mechanisms for a table with so many columns."""
        share = self.counts_share * self.epsilon
        counts = _calibrate(lambda noise: spent([Mechanism(COUNTS, noise)], self.delta) <= share, self)

        def gradients(noise: float) -> Mechanism:
            return Mechanism(GRADIENTS, noise, self.sample_rate, self.steps)

        noise = _calibrate(
            lambda noise: spent([Mechanism(COUNTS, counts), gradients(noise)], self.delta) <= self.epsilon, self
        )
        # A row adds 1 to one bin of each column, and 1 to the number of rows.
        return BudgetSplit(self, math.sqrt(n_columns + 1), (Mechanism(COUNTS, counts), gradients(noise)))


@dataclass(frozen=True)
class Mechanism:
    """Some uses of the Gaussian mechanism; a noise multiplier is the standard deviation by the sensitivity."""

    name: str
    noise_multiplier: float
    sample_rate: float = 1.0
    steps: int = 1


@dataclass(frozen=True)
class BudgetSplit:
    """What a training is going to spend: `count_sensitivity` is the L2 norm of what one row adds to the counts."""

    privacy: Privacy
    count_sensitivity: float
    mechanisms: tuple[Mechanism, Mechanism]

    @property
    def counts(self) -> Mechanism:
        """The mechanism of the histograms."""
        return self.mechanisms[0]

    @property
    def gradients(self) -> Mechanism:
        """The mechanism of the training steps."""
        return self.mechanisms[1]

    def signal_to_noise(self, n_rows: float, n_weights: int) -> float:
        """Return the norm of the largest possible sum of all gradients divided by that of the noise in it.

        It is reached if the clipped gradients of all rows and steps are equal, so a training has less.
        """
        steps = self.gradients
        signal = steps.sample_rate * steps.steps * n_rows
        return signal / (steps.noise_multiplier * math.sqrt(steps.steps * n_weights))

    def record(self, *, seeded: bool) -> PrivacyRecord:
        """Return what is stored in the model file."""
        alone = tuple(spent([mechanism], self.privacy.delta) for mechanism in self.mechanisms)
        return PrivacyRecord(
            self.privacy,
            self.mechanisms,
            alone,
            spent(self.mechanisms, self.privacy.delta),
            f"{ACCOUNTANT} {installed_version(ACCOUNTANT)}, Rényi differential privacy",
            seeded,
        )


@dataclass(frozen=True)
class PrivacyRecord:
    """The budget of a trained model and its split.

    Attributes:
        privacy: What the user allowed.
        mechanisms: The noise of each mechanism.
        epsilon_alone: What each would have spent alone at the same delta; the sum exceeds what both spend together.
        epsilon_spent: What both spend together.
        accountant: The package that computed it, with its version, and its method.
        seeded: Whether the noise came from a seed, so that it can be computed again and nothing is guaranteed.
    """

    privacy: Privacy
    mechanisms: tuple[Mechanism, ...]
    epsilon_alone: tuple[float, ...]
    epsilon_spent: float
    accountant: str
    seeded: bool

    @property
    def is_guaranteed(self) -> bool:
        """Whether the training was differentially private."""
        return not self.seeded

    def describe_steps(self) -> str:
        """Return how long the training was. Its losses and its time are not known: they depend on the rows."""
        return f"{format_rounded(self.privacy.steps)} steps, no loss and no time kept"

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data."""
        return {**asdict(self), "unit": "row", "neighbours": "add or remove one row"}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PrivacyRecord:
        """Restore from `to_json`."""
        values = {item.name: data[item.name] for item in fields(cls)}
        values["privacy"] = Privacy(**values["privacy"])
        values["mechanisms"] = tuple(Mechanism(**each) for each in values["mechanisms"])
        values["epsilon_alone"] = tuple(values["epsilon_alone"])
        return cls(**values)

    def __str__(self) -> str:
        split = ", ".join(
            f"{each.name} {format_rounded(alone, 3)} alone"
            for each, alone in zip(self.mechanisms, self.epsilon_alone, strict=True)
        )
        budget = f"epsilon {format_rounded(self.epsilon_spent, 3)} of {self.privacy.epsilon:g}"
        noise = SECURE_NOISE if self.privacy.secure else INSECURE_NOISE
        text = f"{budget} at delta {self.privacy.delta:g}, per row; {noise} ({split}; {self.accountant})"
        return f"for tests only, no guarantee: the noise came from a seed. {text}" if self.seeded else text


def spent(mechanisms: Sequence[Mechanism], delta: float) -> float:
    """Return the ε that some mechanisms spend together at a δ."""
    try:
        from opacus.accountants import RDPAccountant
    except ImportError:
        raise MissingExtra.for_package(ACCOUNTANT, "privacy", "Differential privacy") from None
    accountant = RDPAccountant()
    accountant.history = [(each.noise_multiplier, each.sample_rate, each.steps) for each in mechanisms]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the best order is the first or the last one
        return float(accountant.get_epsilon(delta, alphas=list(ORDERS)))


def _calibrate(is_enough: Callable[[float], bool], privacy: Privacy) -> float:
    """Return the least noise multiplier that is enough, up to `TOLERANCE`; never less."""
    low, high = MIN_NOISE, 1.0
    while not is_enough(high):
        low, high = high, 2 * high
        if high > MAX_NOISE:
            raise InvalidOption(
                f"No noise keeps epsilon={privacy.epsilon:g} at delta={privacy.delta:g}. Raise one of them."
            )
    while high / low > 1 + TOLERANCE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
