"""Rows that meet a condition: as many as were asked for, every one of them checked.

How they are found is a strategy:

    kept      plain rows are drawn, and those that meet the condition are kept: the law of the model, exactly
    known     the condition is split into branches that exclude each other; in each, columns that it restricts are drawn
              first, from what it leaves of their law, and the rest of the row is drawn knowing them; what it asks of
              several columns together is checked
    guided    what is left is a penalty that pulls rows (Algorithm 1), with weights that take back how the pull bends
              their law; at the end, what is not concerned is drawn again knowing the rest
    paper     Algorithm 1 and the paper's penalties, and nothing else: rows come back as they are
    auto      the first of these that gets there: kept while the condition is common, known while its branches are,
              guided beyond
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from harpoon.bound import Always, Bound, columns_of
from harpoon.branches import Branch, branches
from harpoon.cells import Cells, Rows, joined, taken
from harpoon.completing import never
from harpoon.drawing import Drawer, height_of
from harpoon.encodings import SpikeCodec
from harpoon.errors import InvalidOption
from harpoon.exact import holds
from harpoon.guidance import Penalty
from harpoon.marginals import Marginal, marginal, restricted
from harpoon.pulling import GROUP, Puller
from harpoon.scaling import Floats

STRATEGIES = ("auto", "kept", "known", "guided", "paper")
PILOT, SMALL_PILOT = 2048, 512  # rows drawn to see how often a condition, or a branch, is met
COMMON, RARE = 0.05, 0.005  # shares of rows that meet it: above, plain rows are kept; below, rows are guided
MOST_AT_ONCE = 32_768
PATIENCE = 400  # rows drawn for each row asked for, at the most
GUIDED_ROUNDS = 6
ROOM = 1.25  # rows drawn for each that is expected to be kept
CHOICES = 4  # candidates among which labels are weighed

Propose = Callable[[int, int], Rows]


@dataclass(frozen=True)
class Report:
    """What it took to meet a condition.

    Attributes:
        strategy: What was done.
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
    tried: int
    guided_violations: float | None
    violations: float
    rounds: int
    evaluations: int
    seconds: float


@dataclass
class Conditional:
    """Draws rows under a condition.

    Attributes:
        drawer: Draws rows.
        bound: The condition.
        base: What all rows have in common: one row, its free cells missing.
        loss: A penalty besides the condition.
        tried: Rows drawn so far.
        rounds: Rounds of drawing so far.
        guided: Rows out of the guided loop and those among them that failed, at its first strength.
        pilot: Plain rows, kept for what they say about the condition.
    """

    drawer: Drawer
    bound: Bound
    base: Rows
    loss: Penalty | None = None
    tried: int = field(default=0, init=False)
    rounds: int = field(default=0, init=False)
    guided: list[int] = field(default_factory=lambda: [0, 0], init=False)
    pilot: Rows | None = field(default=None, init=False)
    used: str = field(default="kept", init=False)

    def rows(self, n: int, strategy: str = "auto") -> tuple[Rows, Report]:
        """At most n rows, all of which meet the condition (but for strategy="paper"), and what it took."""
        if strategy not in STRATEGIES:
            raise InvalidOption.one_of("strategy", strategy, STRATEGIES)
        began, before = perf_counter(), self.drawer.evaluations
        found = taken(self._by(strategy)(n), slice(0, n))
        count = height_of(found)
        share = 1 - float(holds(self.bound, found).mean()) if count else 0.0
        failed = self.guided[1] / self.guided[0] if self.guided[0] else None
        spent = self.drawer.evaluations - before
        seconds = perf_counter() - began
        return found, Report(self.used, count, self.tried, failed, share, self.rounds, spent, seconds)

    def likelihood(self) -> float:
        """How likely the condition is, branch by branch: for one that plain rows hardly ever meet."""
        ways = self._ways()
        return float(sum(way.mass * float(way.met.mean()) for way in ways))

    def _by(self, strategy: str) -> Callable[[int], Rows]:
        sees_known = self.drawer.denoiser.sees_known
        if never(self.bound, self.base):
            return lambda _: self._nothing()
        if strategy == "paper":
            return self._paper
        if self.loss is not None or (strategy in ("auto", "known") and not sees_known):
            strategy = "guided"
        self.used = strategy
        return {"auto": self._auto, "kept": self._kept, "known": self._known, "guided": self._guided}[strategy]

    def _auto(self, n: int) -> Rows:
        self.used = "kept"
        found = self._plain(0, max(PILOT, min(n, MOST_AT_ONCE)))
        self.pilot = found
        met = holds(self.bound, found)
        if met.mean() < COMMON:
            return self._known(n)
        return self._keep(n, self._plain, taken(found, met), len(met))

    def _kept(self, n: int) -> Rows:
        return self._keep(n, self._plain)

    def _paper(self, n: int) -> Rows:
        """Algorithm 1 on the whole condition."""
        self.used = "paper"
        puller = Puller(self.drawer, self.bound, self.loss)
        rows = self._count(puller.pulled(repeated(self.base, n), np.arange(n)))
        failed = ~holds(self.bound, rows)
        self.guided = [len(failed), int(failed.sum())]
        return rows

    def _known(self, n: int) -> Rows:
        """Every branch in proportion to how likely it is."""
        self.used = "known"
        ways = self._ways()
        if not ways:
            return self._nothing()
        likely = np.array([way.mass * (way.met.sum() + 0.5) / (len(way.met) + 1) for way in ways])
        counts = self._random(1).multinomial(n, likely / likely.sum())
        parts = [self._through(way, int(count)) for way, count in zip(ways, counts, strict=True) if count]
        found = joined(parts)
        return taken(found, self._random(2).permutation(height_of(found)))

    def _through(self, way: Way, n: int) -> Rows:
        """Rows of one branch: kept if it is common enough once its columns are known, else guided."""
        first = taken(way.pilot, way.met)
        if way.met.mean() >= RARE:
            return self._keep(n, way.propose, first, len(way.met))
        self.used = "guided"
        more = n - height_of(first)
        return joined([first, self._pull_until(more, way.start, way.branch.bound)]) if more > 0 else first

    def _guided(self, n: int) -> Rows:
        """The whole condition as a penalty."""
        self.used = "guided"
        return self._pull_until(n, lambda count, _: repeated(self.base, count), self.bound)

    def _keep(self, n: int, propose: Propose, first: Rows | None = None, tried: int = 0) -> Rows:
        """Propose rows until n of them meet the condition."""
        parts = [taken(repeated(self.base, 1), slice(0, 0)) if first is None else first]
        have = height_of(parts[0])
        start = tried
        while have < n and tried - start < PATIENCE * n + PILOT:
            share = max(have, 1) / tried if tried else 1.0
            count = int(min(max((n - have) / share * ROOM, SMALL_PILOT), MOST_AT_ONCE))
            rows = propose(tried, count)
            parts.append(taken(rows, holds(self.bound, rows)))
            have, tried = have + height_of(parts[-1]), tried + count
        return joined(parts)

    def _plain(self, start: int, count: int) -> Rows:
        """Rows as the model draws them."""
        return self._count(self.drawer.draw(repeated(self.base, count), np.arange(start, start + count)))

    def _count(self, rows: Rows) -> Rows:
        self.tried, self.rounds = self.tried + height_of(rows), self.rounds + 1
        return rows

    # Branches, and the columns that are known first in each

    def _ways(self) -> list[Way]:
        """How to draw rows of each branch that can be met at all, with some rows of each."""
        ways = [way for way in (self._way(place, branch) for place, branch in enumerate(branches(self.bound))) if way]
        for way in ways:
            way.pilot = way.propose(0, SMALL_PILOT)
            way.met = holds(self.bound, way.pilot)
        return ways

    def _way(self, place: int, branch: Branch) -> Way | None:
        """How to draw rows of a branch; None if nothing in the range of the table meets it."""
        lines: dict[str, Marginal] = {}
        masses: dict[str, float] = {}
        labels: dict[str, tuple[int, ...]] = {}
        for codec in self.drawer.codec.columns:
            name = codec.column.name
            if name not in branch.single or not bool(self.base[name].missing[0]):
                continue
            asked = branch.of_column(name)
            if codec.column.kind.discrete:
                cells = _every_label(codec.column.labels or (), self.base[name])
                allowed = tuple(np.flatnonzero(holds(asked, {name: cells})).tolist())
                if not allowed:
                    return None
                labels[name] = allowed
            elif isinstance(codec, SpikeCodec):
                left = restricted(self._marginal(codec), codec.column, asked)
                if left is None:
                    return None
                lines[name], masses[name] = left, left.mass
        rarest = min(masses, key=lambda name: masses[name], default=None)
        anchor = None if rarest is None else (rarest, lines[rarest])
        return Way(self, branch, 1 + place, anchor, labels)

    def _marginal(self, codec: SpikeCodec) -> Marginal:
        simplex = [b for b in self.drawer.codec.blocks if b.name == codec.column.name and b.simplex]
        mean = self.drawer.denoiser.mean
        shares = mean[simplex[0].start : simplex[0].stop].double().cpu().numpy() if simplex else np.zeros(1)
        return marginal(codec, shares)

    def _random(self, *purpose: int) -> np.random.Generator:
        """Random numbers for a purpose of this call."""
        counter = [*purpose, *[0] * (3 - len(purpose)), 2**62]
        return np.random.Generator(np.random.Philox(key=self.drawer.seed, counter=counter))

    def _nothing(self) -> Rows:
        return taken(repeated(self.base, 1), slice(0, 0))

    # Guidance

    def _pull_until(self, n: int, start_rows: Callable[[int, int], Rows], bound: Bound) -> Rows:
        """Pull rows, harder each round, until n of them meet the condition; then draw the rest of them afresh."""
        puller = Puller.of(self.drawer, bound, self.loss)
        parts, have, tried = [self._nothing()], 0, 0
        for attempt in range(GUIDED_ROUNDS):
            count = n if self.bound == Always(truth=True) else int(np.ceil((n - have) * ROOM / GROUP)) * GROUP
            rows = self._count(
                puller.pulled(start_rows(count, tried), np.arange(tried, tried + count), harder=2.0**attempt)
            )
            met = holds(self.bound, rows)
            if attempt == 0:
                self.guided = [self.guided[0] + len(met), self.guided[1] + int((~met).sum())]
            parts.append(taken(rows, met))
            have, tried = have + int(met.sum()), tried + count
            if have >= n:
                break
        self.drawer.evaluations += puller.drawer.evaluations
        found = taken(joined(parts), slice(0, n))
        return self._refreshed(found) if self.loss is None else found

    def _refreshed(self, rows: Rows) -> Rows:
        """The columns that the condition does not concern, drawn again knowing the others."""
        concerned = columns_of(self.bound)
        if not self.drawer.denoiser.sees_known or not height_of(rows):
            return rows
        known = {
            name: cells if name in concerned or not self.base[name].missing[0] else _hidden(cells)
            for name, cells in rows.items()
        }
        again = self._count(self.drawer.draw(known, np.arange(height_of(rows)), draw=2**33))
        met = holds(self.bound, again)
        return {
            name: cells.filled_with(np.where(met, cells.values, rows[name].values)) for name, cells in again.items()
        }


@dataclass
class Way:
    """How rows of a branch are drawn: the columns that are known first.

    `anchor` is the numeric column that the branch restricts most, with what is left of its law; `labels` are the labels
    that it leaves to categories. A category is drawn from its probabilities given what is known already, and rows are
    weighed by how likely the labels that are left are.
    """

    asked: Conditional
    branch: Branch
    place: int
    anchor: tuple[str, Marginal] | None
    labels: dict[str, tuple[int, ...]]
    likely: list[float] = field(default_factory=list, init=False)
    pilot: Rows = field(default_factory=dict, init=False)
    met: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_), init=False)

    @property
    def mass(self) -> float:
        """How likely the known columns are to be what the branch allows."""
        chance = float(np.mean(self.likely)) if self.likely else 1.0
        return chance * (self.anchor[1].mass if self.anchor else 1.0)

    def propose(self, start: int, count: int) -> Rows:
        """Rows of the branch, as far as it concerns single columns."""
        known = self.start(count, start)
        drawer = self.asked.drawer
        return self.asked._count(drawer.draw(known, np.arange(start, start + count), draw=self.place))

    def start(self, count: int, start: int) -> Rows:
        """What is known of `count` rows from number `start` on."""
        random = self.asked._random(3, self.place, start)
        choices = CHOICES if self.anchor and self.labels else 1
        rows = repeated(self.asked.base, count * choices)
        if self.anchor:
            name, law = self.anchor
            rows[name] = law.drawn(random.random(count * choices))
        weights = np.ones(count * choices)
        for name, allowed in self.labels.items():
            p = self._probabilities(rows, name)[:, list(allowed)]
            weights *= p.sum(axis=1)
            rows[name] = _labelled(rows[name], np.array(allowed)[_drawn_from(p, random.random(len(p)))])
        self.likely.append(float(weights.mean()))
        if choices == 1:
            return rows
        at = (np.arange(count) + random.random()) / count
        return taken(rows, np.searchsorted(np.cumsum(weights) / weights.sum(), at).clip(max=len(weights) - 1))

    def _probabilities(self, rows: Rows, name: str) -> Floats:
        codec = self.asked.drawer.codec
        parts = [codec.expectation(x)[1][name] for x in self.asked.drawer.estimates(rows)]
        return np.concatenate(parts)


def repeated(base: Rows, count: int) -> Rows:
    """One row, as often as is asked."""
    return taken(base, np.zeros(count, dtype=np.int64))


def _every_label(labels: tuple[object, ...], like: Cells) -> Cells:
    count = len(labels)
    return replace(like, values=np.arange(count), missing=np.zeros(count, dtype=np.bool_))


def _labelled(cells: Cells, values: NDArray[np.int64]) -> Cells:
    return replace(cells, values=values, missing=np.zeros(len(values), dtype=np.bool_))


def _hidden(cells: Cells) -> Cells:
    return replace(cells, values=np.zeros_like(cells.values), missing=np.ones(len(cells), dtype=np.bool_))


def _drawn_from(p: Floats, uniform: Floats) -> NDArray[np.int64]:
    """A place in each row of probabilities."""
    ends = np.cumsum(p, axis=1)
    at = uniform * ends[:, -1]
    place: NDArray[np.int64] = (ends <= at[:, None]).sum(axis=1).clip(max=p.shape[1] - 1)
    return place
