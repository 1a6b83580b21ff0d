"""What it took to meet a condition."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SamplingInfo:
    """What it took to meet a condition.

    Attributes:
        strategy: What was done: "rejection", "conditioning", "guidance" or "paper" (see `harpoon.inference.conditional`), or "completed" for
            given rows.
        rows: How many rows came back.
        tried: How many were drawn.
        guided_violations: The share of rows that failed straight out of the guided loop, which is the violation rate
            the paper reports; None where nothing was guided.
        violations: The share of the rows that came back which do not meet the condition: 0, but for strategy="paper".
        rounds: How often rows were drawn.
        evaluations: How often the network looked at a row.
        seconds: How long it took.
    """

    strategy: str
    rows: int
    sampled: int
    guided_violations: float | None
    violations: float
    rounds: int
    evaluations: int
    seconds: float

    def __str__(self) -> str:
        lines = [f"{_count(self.rows, 'row')}, {self.strategy}: {self.sampled} drawn in {_count(self.rounds, 'round')}"]
        if self.guided_violations is not None:
            lines.append(f"{100 * self.guided_violations:.3g} % failed straight out of the guided loop")
        if self.violations:
            lines.append(f"{100 * self.violations:.3g} % of what came back does not meet the condition")
        return ", ".join([*lines, f"{self.evaluations} evaluations, {self.seconds:.1f} s"])


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
