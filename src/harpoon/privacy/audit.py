"""The audit: all attacks on one set of synthetic rows, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon._formatting import format_list, format_percent
from harpoon._utils import cards
from harpoon._utils.rng import Stream, generator
from harpoon._version import __version__
from harpoon.data import Floats, Schema, Table
from harpoon.privacy.attack_results import (
    ALL_ATTACKS,
    ATTACKS,
    FAMILY_LEVEL,
    SHADOW_MODELS,
    Attack,
    Light,
    signal_of,
    worst_light,
)
from harpoon.privacy.attacks.attribute_inference import attack_attributes
from harpoon.privacy.attacks.copies import attack_exact_copies, attack_near_copies, attack_rare_values
from harpoon.privacy.attacks.linkability import attack_links
from harpoon.privacy.attacks.membership import attack_by_distance, attack_by_likelihood
from harpoon.privacy.attacks.shadow_models import ShadowTraining, attack_by_shadow_models
from harpoon.privacy.attacks.singling_out import attack_by_one_column, attack_by_several_columns
from harpoon.privacy.mismatch import mismatch_notes
from harpoon.privacy.records import Records, read_records

Chosen = tuple[NDArray[np.int64], NDArray[np.int64]]
MIN_ROWS = 50  # of each table
MAX_OVERLAP = 0.05  # of hold-out rows that equal a training row, beyond those that equal another hold-out row
NO_LIKELIHOOD = "the network of this model has no likelihood"
NO_GUARANTEE = "An audit measures the attacks that it runs, and is no guarantee against others."


@dataclass(frozen=True)
class AuditSubject:
    """What was audited, with which options; None for what is not known.

    Attributes:
        columns: The modelled columns, which are attacked.
        train_rows: The rows of the whole training table.
        holdout_rows: The rows of the whole table of hold-out rows.
        options: The options of the audit, the seed included.
        model_options: The preset, and the options of the model.
        date: The day of the audit.
        model: The file of the model.
        train: The name of the training table.
        holdout: The name of the table of hold-out rows.
    """

    columns: tuple[str, ...]
    train_rows: int
    holdout_rows: int
    options: Mapping[str, Any] = field(default_factory=dict)
    model_options: Mapping[str, Any] = field(default_factory=dict)
    date: str = field(default_factory=lambda: date.today().isoformat())  # noqa: DTZ011  # the day of the user
    model: str | None = None
    train: str | None = None
    holdout: str | None = None

    def facts(self, rows: Mapping[str, int]) -> dict[str, str]:
        """Return the facts by their names, for people; `rows` are those that were attacked, and synthetic rows."""
        shown = {"model": self.model} if self.model else {}
        options = ", ".join(f"{name}={value!r}" for name, value in self.model_options.items())
        return {
            **shown,
            "options of the model": options or "unknown",
            "training table": _describe_table(self.train, self.train_rows, rows["train"]),
            "hold-out table": _describe_table(self.holdout, self.holdout_rows, rows["holdout"]),
            "synthetic rows": f"{rows['synthetic']:,}",
            "columns": f"{len(self.columns)}: {format_list(self.columns)}",
            "options of the audit": ", ".join(f"{name}={value!r}" for name, value in self.options.items()),
            "audited": f"on {self.date} with Harpoon {__version__}",
        }


def _describe_table(name: str | None, n_rows: int, n_attacked: int) -> str:
    """Return a table in words.

    >>> _describe_table("a.csv", 3000, 2000), _describe_table(None, 60, 60)
    ('a.csv, 3,000 rows, 2,000 of them attacked', '60 rows, all attacked')
    """
    attacked = "all attacked" if n_attacked == n_rows else f"{n_attacked:,} of them attacked"
    return ", ".join([*([name] if name else []), f"{n_rows:,} rows", attacked])


@dataclass(frozen=True)
class Audit(cards.Displayed):
    """The result of an audit.

    Attributes:
        attacks: The result of each attack, in the order of `ATTACKS`.
        rows: How many training rows, hold-out rows and synthetic rows were used.
        notes: Sentences about what limits the result.
        recommendations: Sentences about what to do.
        subject: What was audited.
    """

    attacks: tuple[Attack, ...]
    rows: Mapping[str, int]
    notes: tuple[str, ...] = ()
    recommendations: tuple[str, ...] = ()
    subject: AuditSubject | None = None

    def __getitem__(self, name: str) -> Attack:
        return next(attack for attack in self.attacks if attack.name == name)

    @property
    def light(self) -> Light:
        """The worst light of all attacks."""
        return worst_light(attack.light for attack in self.attacks)

    @property
    def signal(self) -> str:
        """The worst light in words for people."""
        return signal_of(self.light)

    @property
    def facts(self) -> dict[str, str]:
        """What was audited, by names for people."""
        return {} if self.subject is None else self.subject.facts(self.rows)

    def of_model(self, options: Mapping[str, Any], seed: int | None) -> Audit:
        """Return the audit with the options of the model, and the seed that was given for the audit, if any."""
        asked = {} if self.subject is None else self.subject.options
        return self._with_subject(model_options=dict(options), options={**asked, "random_state": seed})

    def with_names(self, *, model: str, train: str, holdout: str) -> Audit:
        """Return the audit with the names of what was audited."""
        return self._with_subject(model=model, train=train, holdout=holdout)

    def with_options(self, options: Mapping[str, Any]) -> Audit:
        """Return the audit with the options by which it was asked for."""
        return self._with_subject(options=dict(options))

    def _with_subject(self, **changes: Any) -> Audit:  # noqa: ANN401
        return self if self.subject is None else replace(self, subject=replace(self.subject, **changes))

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {
            "version": __version__,
            "light": self.light,
            "level": FAMILY_LEVEL,
            "subject": None if self.subject is None else asdict(self.subject),
            "rows": dict(self.rows),
            "attacks": [attack.to_json() for attack in self.attacks],
            "notes": list(self.notes),
            "recommendations": list(self.recommendations),
        }

    def __str__(self) -> str:
        facts = [f"{name}: {fact}" for name, fact in self.facts.items()]
        lines = [f"[{attack.signal}] {attack.lead}. {attack.sentence}" for attack in self.attacks]
        overall = f"Overall: {self.signal}."
        return "\n".join([*facts, *lines, *self.notes, *self.recommendations, overall])

    def _card(self) -> cards.Html:
        attacks = [cards.lighted(attack.light, attack.signal, attack.lead, attack.sentence) for attack in self.attacks]
        remarks = [cards.paragraph(text, role="quiet") for text in self.notes]
        about = [cards.folded("what was audited", cards.facts(self.facts))] if self.facts else []
        advice = [cards.paragraph(text) for text in self.recommendations]
        return cards.card("Privacy audit", *advice, *attacks, *remarks, *about, badge=self.signal)


def audit_rows(
    schema: Schema,
    train: Table,
    holdout: Table,
    synthetic: Table,
    *,
    chosen: Chosen,
    k: int,
    seed: int,
    likelihoods: tuple[Floats, Floats] | None = None,
    shadows: ShadowTraining | None = None,
) -> Audit:
    """Attack training rows and as many hold-out rows by means of synthetic rows.

    Args:
        schema: The columns; those that are modelled are attacked.
        train: The rows that the model was trained on.
        holdout: Rows of the same distribution that it was not trained on.
        synthetic: Rows that the model sampled.
        chosen: The rows of the two real tables to attack (`choose_rows`).
        k: Values of fewer training rows are rare.
        seed: For all random choices.
        likelihoods: The log-likelihood of the chosen training rows and hold-out rows under the model, (n,) each; None
            if the model has none.
        shadows: How to train shadow models; None: that attack is not run.
    """
    members, others, drawn = read_records(schema, [train, holdout, synthetic])
    notes = [*_overlap_notes(members, others), *mismatch_notes(members, others)]
    notes += _size_notes(train.n_rows, holdout.n_rows, len(chosen[0]))
    counts = {"train": len(chosen[0]), "holdout": len(chosen[1]), "synthetic": len(drawn)}
    subject = AuditSubject(members.names, train.n_rows, holdout.n_rows, {"k": k})
    names = [name for name in ALL_ATTACKS if name in ATTACKS or shadows is not None]
    if len(chosen[0]) < MIN_ROWS:
        reason = (
            f"it needs {MIN_ROWS} training rows and {MIN_ROWS} hold-out rows, got {train.n_rows} and {holdout.n_rows}"
        )
        not_run = tuple(Attack.not_run(name, reason) for name in names)
        return Audit(not_run, counts, tuple(notes), subject=subject)
    members, others = members.take(chosen[0]), others.take(chosen[1])
    attacks = _attacks(members, others, drawn, chosen[0], k=k, seed=seed, likelihoods=likelihoods)
    if shadows is not None:
        attacks[SHADOW_MODELS] = _attack_with_shadows(likelihoods, shadows, seed)
    return Audit(tuple(attacks[name] for name in names), counts, (*notes, NO_GUARANTEE), subject=subject)


def choose_rows(n_train: int, n_holdout: int, rows: int, seed: int) -> Chosen:
    """Return as many random rows of either table, (n,) each."""
    count, rng = min(n_train, n_holdout, rows), generator(seed, Stream.AUDIT)
    return np.sort(rng.permutation(n_train)[:count]), np.sort(rng.permutation(n_holdout)[:count])


def _attack_with_shadows(likelihoods: tuple[Floats, Floats] | None, shadows: ShadowTraining, seed: int) -> Attack:
    if likelihoods is None:
        return Attack.not_run(SHADOW_MODELS, NO_LIKELIHOOD)
    return attack_by_shadow_models(*likelihoods, shadows, seed)


def _attacks(
    train: Records,
    holdout: Records,
    synthetic: Records,
    numbers: NDArray[np.int64],
    *,
    k: int,
    seed: int,
    likelihoods: tuple[Floats, Floats] | None,
) -> dict[str, Attack]:
    tables = (train, holdout, synthetic)
    alike = (train, holdout, synthetic.take(slice(len(train))))  # whether a row is unique depends on the table's size
    rng = generator(seed, Stream.AUDIT, 1)
    by_likelihood = (
        Attack.not_run("membership_likelihood", NO_LIKELIHOOD)
        if likelihoods is None
        else attack_by_likelihood(*likelihoods, rng)
    )
    found = [
        attack_by_distance(*tables, rng),
        by_likelihood,
        attack_by_one_column(*alike, rng),
        attack_by_several_columns(*alike, rng),
        attack_links(*tables, rng),
        attack_attributes(*tables),
        attack_exact_copies(*tables, numbers),
        attack_near_copies(*tables),
        attack_rare_values(*tables, k, rng),
    ]
    return {attack.name: attack for attack in found}


def _overlap_notes(train: Records, holdout: Records) -> list[str]:
    """Note hold-out rows that are training rows, beyond the duplicates that a table of this kind has anyway."""
    keys = holdout.row_keys()
    _, index, counts = np.unique(keys, return_inverse=True, return_counts=True)
    equal = np.isin(keys, train.row_keys())
    if equal.mean() - (counts[index] > 1).mean() <= MAX_OVERLAP:
        return []
    note = (
        f"{format_percent(float(equal.mean()))} of the hold-out rows equal a training row. Rows that the model was "
        "trained on are no baseline: every risk is underestimated. Use rows that were set aside before the training."
    )
    return [note]


def _size_notes(n_train: int, n_holdout: int, n_used: int) -> list[str]:
    if n_used == n_train == n_holdout:
        return []
    return [
        f"{n_used:,} of {n_train:,} training rows and of {n_holdout:,} hold-out rows are attacked, chosen at random."
    ]
