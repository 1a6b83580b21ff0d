"""The audit: all attacks on one set of synthetic rows, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harpoon._formatting import format_percent
from harpoon._utils import cards
from harpoon._utils.rng import Stream, generator
from harpoon._version import __version__
from harpoon.data import Floats, Schema, Table
from harpoon.privacy.attacks.attribute_inference import attack_attributes
from harpoon.privacy.attacks.copies import attack_exact_copies, attack_near_copies, attack_rare_values
from harpoon.privacy.attacks.linkability import attack_links
from harpoon.privacy.attacks.membership import attack_by_distance, attack_by_likelihood
from harpoon.privacy.attacks.records import Records, read_records
from harpoon.privacy.attacks.singling_out import attack_by_one_column, attack_by_several_columns
from harpoon.privacy.results import ATTACKS, FAMILY_LEVEL, Attack, Light, worst_light

Chosen = tuple[NDArray[np.int64], NDArray[np.int64]]
MIN_ROWS = 50  # of each table
MAX_OVERLAP = 0.05  # of hold-out rows that equal a training row, beyond those that equal another hold-out row
NO_GUARANTEE = "An audit measures the attacks that it runs, and is no guarantee against others."


@dataclass(frozen=True)
class Audit(cards.Displayed):
    """The result of an audit.

    Attributes:
        attacks: The result of each attack, in the order of `ATTACKS`.
        rows: How many training rows, hold-out rows and synthetic rows were used.
        notes: Sentences about what limits the result.
        recommendations: Sentences about what to do.
    """

    attacks: tuple[Attack, ...]
    rows: Mapping[str, int]
    notes: tuple[str, ...] = ()
    recommendations: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Attack:
        return next(attack for attack in self.attacks if attack.name == name)

    @property
    def light(self) -> Light:
        """The worst light of all attacks."""
        return worst_light(attack.light for attack in self.attacks)

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {
            "version": __version__,
            "light": self.light,
            "level": FAMILY_LEVEL,
            "rows": dict(self.rows),
            "attacks": [attack.to_json() for attack in self.attacks],
            "notes": list(self.notes),
            "recommendations": list(self.recommendations),
        }

    def __str__(self) -> str:
        lines = [f"[{attack.light}] {attack.title}: {attack.verdict}. {attack.sentence}" for attack in self.attacks]
        return "\n".join([*lines, *self.notes, *self.recommendations, f"Overall: {self.light}."])

    def _card(self) -> cards.Html:
        rows = [(attack.title, attack.light, attack.verdict, cards.escaped(attack.sentence)) for attack in self.attacks]
        remarks = [cards.paragraph(text, role="quiet") for text in (*self.notes, *self.recommendations)]
        return cards.card(
            "Privacy audit",
            cards.table(["attack", "light", "verdict", "result"], rows),
            *remarks,
            badge=self.light,
        )


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
    """
    members, others, drawn = read_records(schema, [train, holdout, synthetic])
    notes = [*_overlap_notes(members, others), *_size_notes(train.n_rows, holdout.n_rows, len(chosen[0]))]
    counts = {"train": len(chosen[0]), "holdout": len(chosen[1]), "synthetic": len(drawn)}
    if len(chosen[0]) < MIN_ROWS:
        reason = (
            f"it needs {MIN_ROWS} training rows and {MIN_ROWS} hold-out rows, got {train.n_rows} and {holdout.n_rows}"
        )
        return Audit(tuple(Attack.not_run(name, reason) for name in ATTACKS), counts, tuple(notes))
    members, others = members.take(chosen[0]), others.take(chosen[1])
    attacks = _attacks(members, others, drawn, chosen[0], k=k, seed=seed, likelihoods=likelihoods)
    return Audit(tuple(attacks[name] for name in ATTACKS), counts, (*notes, NO_GUARANTEE))


def choose_rows(n_train: int, n_holdout: int, rows: int, seed: int) -> Chosen:
    """Return as many random rows of either table, (n,) each."""
    count, rng = min(n_train, n_holdout, rows), generator(seed, Stream.AUDIT)
    return np.sort(rng.permutation(n_train)[:count]), np.sort(rng.permutation(n_holdout)[:count])


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
        Attack.not_run("membership_likelihood", "the network of this model has no likelihood")
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
