"""Diagnostics of sampling under a condition."""

from __future__ import annotations

from dataclasses import dataclass

from harpoon._text import format_percent
from harpoon.inference.answer_grade import OWN_CHECK, AnswerGrade
from harpoon.inference.support import Support

WORTH_SAYING = 0.9  # an effective size below this fraction of the rows


@dataclass(frozen=True)
class ProbabilityEstimate:
    """An estimate of a probability that is as precise as the fraction of so many unconditional rows."""

    probability: float
    rows: float


@dataclass(frozen=True)
class SamplingInfo:
    """How rows were sampled.

    Attributes:
        strategy: The strategy in use: one of `harpoon.inference.strategies.STRATEGIES`, "unconditional", or
            "completion" for given rows.
        rows: Number of rows returned.
        sampled: Number of rows sampled.
        guided_violations: Fraction of the rows that violated the condition right after guidance, which is the
            violation rate the paper reports; None without guidance.
        violations: Fraction of the returned rows that violate the condition: 0, except for strategy="paper".
        rounds: Number of rounds of sampling.
        evaluations: Number of evaluations of the network, counted in rows.
        seconds: Elapsed time.
        probability: The model's probability of the condition; None if it was not estimated.
        support: How many training rows support the answer; None without a condition.
        effective_size: How many independent rows the returned ones are worth (Kish, 1965), where they were chosen by
            importance weights; None if all are independent, or if it is not known.
        own_grade: The grade of the answer by the model's own check, without real rows; None without a condition.
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


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
