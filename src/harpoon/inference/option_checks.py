"""Options of one call of `impute` or `sample`, and which of them would have no effect on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harpoon._formatting import format_list
from harpoon.config import OTHER_NAMES, Config, GuidanceConfig, SamplingConfig, declared
from harpoon.exceptions import InvalidOption

SAMPLED_MISSING = ("as_trained", "complete")
# Names that other libraries have for the number of rows, and for the number of completed tables.
COUNTS = ("n", "rows", "size", "count", "n_rows", "num_rows", "n_samples", "num_samples", "m", "n_draws", "num_draws")
COUNT_OF_CALL = {"sample": "n", "impute": "draws"}


def check_names(call: str, options: Mapping[str, Any]) -> None:
    """Raise InvalidOption if an option of "sample" or "impute" has the name of an argument in other libraries.

    >>> check_names("sample", {"condition": "age > 50"})
    Traceback (most recent call last):
    harpoon.exceptions.InvalidOption: sample has no argument 'condition'. Did you mean 'where'?
    """
    meant = {**OTHER_NAMES, **dict.fromkeys(COUNTS, COUNT_OF_CALL[call])}
    for name in options:
        if name in meant:
            raise InvalidOption(f"{call} has no argument {name!r}. Did you mean {meant[name]!r}?")


def check_effective(
    config: Config,
    options: Mapping[str, Any],
    *,
    conditional: bool,
    samples: bool,
    guided: bool,
    given: bool | None = None,
    draws: bool = False,
) -> None:
    """Raise InvalidOption if an option would have no effect on a call.

    Args:
        config: The options of the model.
        options: Those of the call.
        conditional: Whether the network is conditioned on the observed cells.
        samples: Whether the call samples cells.
        guided: Whether it is guided by a condition or a loss.
        given: Whether it has given cells; None: it imputes a table.
        draws: Whether it imputes a table with draws, and not with the best single values.
    """
    is_autoregressive = conditional and not guided and options.get("ar_steps", config.ar_steps)
    sampling, guidance = ({name for name, _ in declared(group)} for group in (SamplingConfig, GuidanceConfig))
    sampling -= {"structural", "point", "sampling_batch_size"}
    reasons = (
        (given is not None or not conditional, {"structural", "point"}, "it is for impute with preset='anchored'"),
        (draws, {"point"}, "draws are sampled; leave out draws for single values"),
        (not samples, sampling | guidance, "impute samples only if draws or where is passed"),
        (not conditional, {"ar_steps"}, "this network cannot sample autoregressively; preset='anchored' can"),
        (conditional, {"reconstruction_loss"}, "this network is conditioned on observed cells, not guided by them"),
        (is_autoregressive, sampling - {"ar_steps"}, "reverse diffusion needs ar_steps=0"),
        (not guided and (conditional or given is False), guidance, "guidance needs where or loss"),
    )
    changed = {name for name in options if options[name] != getattr(config, name, options[name])}
    for applies, names, reason in reasons:
        if applies and (ignored := sorted(changed & names)):
            raise without_effect(ignored, reason)


def without_effect(options: Sequence[str], reason: str, *, code: str = "option_without_effect") -> InvalidOption:
    """Return the error for options that have no effect on a call."""
    has = "has" if len(options) == 1 else "have"
    return InvalidOption(f"{format_list(options)} {has} no effect on this call: {reason}.", code=code, options=options)


def check_missing(missing: str) -> None:
    """Raise InvalidOption unless `missing` says what becomes of missing cells of sampled rows."""
    if missing not in SAMPLED_MISSING:
        raise InvalidOption.one_of("missing", missing, SAMPLED_MISSING)
