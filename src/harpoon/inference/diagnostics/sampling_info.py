"""Diagnostics of sampling under a condition."""

from __future__ import annotations

from dataclasses import dataclass

from harpoon._formatting import format_percent, format_rounded
from harpoon._utils import cards
from harpoon.inference.diagnostics.answer_grade import OWN_CHECK, AnswerGrade
from harpoon.inference.diagnostics.support import Support

WORTH_SAYING = 0.9  # an effective size below this fraction of the rows


@dataclass(frozen=True)
class ProbabilityEstimate:
    """An estimate of a probability that is as precise as the fraction of so many unconditional rows."""

    probability: float
    rows: float


@dataclass(frozen=True)
class SamplingInfo(cards.Displayed):
    """How rows were sampled.

    Attributes:
        strategy: The strategy in use: one of `harpoon.inference.conditional.strategies.STRATEGIES`, "unconditional", or
            "completion" for given rows.
        rows: Number of rows returned.
        sampled: Number of rows sampled.
        guided_violations: Fraction of the rows that violated the condition right after guidance, which is the
            violation rate the paper reports; None without guidance.
        violations: Fraction of the returned rows that violate the condition: 0, except for strategy="paper".
        rounds: Number of rounds of sampling.
        evaluations: Number of evaluations of the network, counted in rows.
        seconds: Elapsed time.
        probability: The model's probability of the condition; None if it was not estimated. It is that of
            `feasibility` with the same seed.
        probability_rows: The number of unconditional rows that this estimate is worth.
        support: How many training rows support the answer; None without a condition.
        effective_size: How many independent rows the returned ones are worth (Kish, 1965), where they were chosen by
            importance weights. Copies of one row in some of its columns count as one. None if all are independent, or
            if it is not known.
        own_grade: The grade of the answer by calibration and support, without real rows; None without a condition.
        targets: The value that the rows have for each target of the table; None without targets.
    """

    strategy: str
    rows: int
    sampled: int
    guided_violations: float | None
    violations: float
    rounds: int
    evaluations: int
    seconds: float
    probability: float | None = None
    support: Support | None = None
    effective_size: float | None = None
    own_grade: AnswerGrade | None = None
    targets: dict[str, float] | None = None
    probability_rows: float | None = None

    def __str__(self) -> str:
        rows, rounds = _count(self.rows, "row"), _count(self.rounds, "round")
        facts = [f"{rows}, {self.strategy}: {self.sampled} sampled in {rounds}"]
        if self.guided_violations is not None:
            facts.append(f"{format_percent(self.guided_violations)} violated the condition right after guidance")
        if self.violations:
            facts.append(f"{format_percent(self.violations)} of the returned rows violate the condition")
        if self.effective_size is not None and self.effective_size < WORTH_SAYING * self.rows:
            facts.append(f"worth about {self.effective_size:.0f} independent rows")
        facts += [f"{text} = {value:.6g}" for text, value in (self.targets or {}).items()]
        facts.append(f"{self.evaluations} evaluations, {self.seconds:.1f} s")
        facts += [str(self.support)] if self.support is not None else []
        if self.own_grade is not None and self.own_grade.grade:
            facts.append(f"grade {self.own_grade.grade} {OWN_CHECK}")
        return ", ".join(facts)

    def _card(self) -> cards.Html:
        violations, guided = self.violations, self.guided_violations
        pairs = {
            "strategy": self.strategy,
            "sampled": f"{_count(self.sampled, 'row')} in {_count(self.rounds, 'round')}",
            "probability of the condition": None if self.probability is None else cards.bar(self.probability),
            "violations right after guidance": None if guided is None else cards.bar(guided),
            "violations": cards.bar(violations) if violations else None,
            "effective size": None if self.effective_size is None else f"{format_rounded(self.effective_size)} rows",
            "support": self.support,
            "grade": None if self.own_grade is None else self.own_grade.sentence,
            "work": f"{_count(self.evaluations, 'evaluation')} of the network, {self.seconds:.1f} s",
        }
        targets = [(cards.code(text), f"{value:.6g}") for text, value in (self.targets or {}).items()]
        reached = [cards.table(["target", "value"], targets, figures=["value"])] if targets else []
        return cards.card(f"{_count(self.rows, 'row')} sampled", cards.facts(pairs), *reached)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
