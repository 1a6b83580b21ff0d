"""The options of a private training: those that the budget fixes, and defaults that suit noisy gradients."""

from __future__ import annotations

from harpoon._utils.rng import RandomState
from harpoon.config import LIMITS, Config
from harpoon.exceptions import InvalidOption
from harpoon.privacy.differential.budget import Privacy

# Options that would read rows outside of the budget: the value that they must have, and why.
FIXED = {
    "network": ("anchored", "Only that network has gradients of single rows."),
    "max_time": (None, "A time limit depends on the rows. Set Privacy(steps=...) instead."),
    "max_epochs": (1000, "The number of steps is fixed beforehand. Set Privacy(steps=...) instead."),
    "batch_size": (None, "Each row takes part in a step by chance. Set Privacy(sample_rate=...) instead."),
    "max_grad_norm": (0.0, "The gradient of each row is clipped. Set Privacy(clipping_norm=...) instead."),
    "patience": (None, "The loss of the rows is not read."),
    "restore_best": (False, "The loss of the rows is not read."),
    "cooldown_fraction": (0.0, "The loss of the rows is not read."),
    "validation_fraction": (0.0, "No row is held out: what is measured on it would have to be paid for."),
    "incomplete_rows": ("mask", "Rows are not chosen by their missing cells."),
    "calendar_parts": (False, "The calendar of a timestamp would be read off the rows."),
    "gaussian_baseline": (False, "Its covariance would be read off the rows."),
    "rare": ("keep", "It counts rows without noise. A private model needs no suppression."),
}
# Few weights and many rows per step suit noisy gradients; the other values are those of the default model.
DEFAULTS = {
    "hidden": 32,
    "depth": 1,
    "input_bins": 8,
    "rank_bins": 32,
    "optimizer": "adam",
    "learning_rate": 5e-3,
    "learning_rate_schedule": "cosine",
    "weight_decay": 0.0,
    "ema_decay": 0.99,
}
NEEDS_LOSS = "plateau"  # the schedule of the learning rate that reads the loss


def private_config(config: Config) -> Config:
    """Return the options of a preset as a private training starts from them."""
    fixed = {name: value for name, (value, _) in FIXED.items() if name != "network"}
    return config.with_options({**fixed, **DEFAULTS})


def check_private(config: Config) -> None:
    """Raise InvalidOption unless all options leave the rows to the budget."""
    for name, (value, reason) in FIXED.items():
        got = getattr(config, name)
        if got != value:
            is_limit = name in LIMITS or value is None  # the user has no value to choose
            wanted = "not be given" if is_limit else f"be {value!r}"
            raise InvalidOption(f"With privacy {name} must {wanted}, got {got!r}. {reason}")
    if config.learning_rate_schedule == NEEDS_LOSS:
        raise InvalidOption(
            f"With privacy learning_rate_schedule must not be {NEEDS_LOSS!r}, which reads the loss. Use 'cosine'."
        )


def check_private_call(*, weights: object, checkpoint: object) -> None:
    """Raise InvalidOption unless `fit` is called without weights and checkpoint."""
    if weights is not None:
        raise InvalidOption(
            "Weights of rows are not possible with privacy: the budget is that of rows which count once. Leave them "
            "out (weights, or sample_weight)."
        )
    if checkpoint is not None:
        raise InvalidOption(
            "fit(checkpoint=...) is not possible with privacy: a training that starts twice from one state spends its "
            "budget twice. Leave it out."
        )


def check_private_seed(privacy: Privacy, random_state: RandomState) -> None:
    """Raise InvalidOption for a seed of secure noise."""
    if privacy.secure and random_state is not None:
        raise InvalidOption(
            "secure=True takes its noise from the operating system, and random_state must be None. Give a seed to "
            "sample() and impute() instead."
        )
