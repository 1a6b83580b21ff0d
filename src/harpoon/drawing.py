"""Drawing cells: in turn, by the reverse loop, or in a single evaluation, on rows of which something is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import torch

from harpoon.abreast import abreast
from harpoon.anchored import AnchoredAtNoise
from harpoon.cells import Index, Rows, joined, taken, written_into
from harpoon.codec import Codec
from harpoon.errors import SamplingFailed
from harpoon.guidance import SCHEDULES, Guidance, Penalty, Twist
from harpoon.network import AtNoise, Denoiser, Given, Spanned
from harpoon.penalties import reconstruction, summed
from harpoon.presets import Settings
from harpoon.progress import Progress, drawing_bar, teller
from harpoon.sampling import STARTS, STEPS, reverse, row_noise
from harpoon.scaling import Floats
from harpoon.selection import Selection
from harpoon.turns import CHANCES, Turns

Read = TypeVar("Read")
FEWEST_ROWS = 64
SHEET = 16  # batches are encoded and read together, at the most
FARTHEST = 1e4  # deviations from the mean; what lies beyond would be no number after a few layers
MOVING = 2**48  # tells the chances that a cell is drawn again from those of what is drawn
NOISE_NUMBERS = 2**26  # at most this many random numbers are held at once, whatever the number of columns


@dataclass
class Drawer:
    """Draws the unknown cells of rows, and counts what that costs.

    Attributes:
        denoiser: The trained network.
        codec: From rows to what the network sees, and back.
        settings: How to draw.
        device: Where the network is.
        seed: Of the noise; a row has its noise from the seed, its number and the number of the draw alone.
        progress: Whether to show a bar, or a function that is told of each step; what it raises ends the drawing.
        evaluations: How often the network has looked at a row.
    """

    denoiser: Denoiser
    codec: Codec
    settings: Settings
    device: torch.device
    seed: int = 0
    progress: Progress = False
    evaluations: int = field(default=0, init=False)

    def estimates(self, rows: Rows, reading: Callable[[Floats], Read]) -> list[Read]:
        """What `reading` makes of E[x_0 | known cells], sheet after sheet: one evaluation where there is only noise.

        Rows are encoded and read in sheets of several batches, because a column of a sheet costs hardly more than one
        of a batch.
        """
        width, height = self.codec.width, height_of(rows)
        size = _batch_rows(self.settings.sampling_batch_size, width)
        each = -(-height // torch.get_num_threads())  # so that all threads have as much to do
        sheets = list(_batches(height, max(size, _batch_rows(min(each, SHEET * size), width * SHEET))))
        on_step = teller(sum(-(-count // size) for _, count in sheets), height, self.progress)

        def read(sheet: tuple[Index, int]) -> Read:
            index, filled = sheet
            known, parts = seen(self.codec, taken(rows, index)), []
            for batch, count in _batches(filled, size):
                parts.append(self._expected(known[torch.from_numpy(batch)].to(self.device))[:count])
                on_step()
            return reading(np.concatenate(parts))

        self.evaluations += height
        return abreast(read, sheets, self.device)

    @torch.no_grad()
    def _expected(self, known: Given) -> Floats:
        """E[x_0 | known cells] of one batch."""
        x0_hat: Floats = self.at_noise.expected(known).cpu().double().numpy()
        return x0_hat

    def draw(
        self,
        rows: Rows,
        index: Index,
        *,
        draw: int = 0,
        penalty: Penalty | None = None,
        strength: float | None = None,
        selection: Selection | None = None,
    ) -> Rows:
        """Rows with every cell drawn, numbered by `index`; the cells that are known come back as they are.

        Args:
            rows: What is known.
            index: The number of each row, which its noise depends on.
            draw: The number of the draw, likewise.
            penalty: What pulls the rows, besides what is known of them where the network does not see that.
            strength: Of the pull; that of the settings by default.
            selection: Which rows go on at each step, for a law that pulling alone would bend.
        """
        if penalty is None and self.in_turn is not None and isinstance(self.at_noise, AnchoredAtNoise):
            return self._drawn_in_turn(self.at_noise, self.in_turn, rows, index, draw)
        settings = self.settings
        times = self.denoiser.schedule.times(settings.sampling_steps)
        noises = 1 if settings.noise_scale == "none" else len(times)
        size = _batch_rows(settings.sampling_batch_size, noises * self.codec.width)
        if selection is not None:
            size = max(1, size // selection.group) * selection.group

        def drawn(batch: Index, given: Rows, on_step: Callable[[], None]) -> Rows:
            known = seen(self.codec, given).to(self.device)
            noise = row_noise(self.seed, index[batch], noises, self.codec.width, draw=draw).to(self.device)
            x = reverse(
                self.denoiser,
                noise,
                times=times,
                start=STARTS[settings.start],
                step=STEPS[settings.noise_scale],
                order=settings.order,
                given=known,
                guidance=self._guidance(known, penalty, strength, Guidance if selection is None else Twist),
                selection=None if selection is None else selection.starting_at(int(batch[0])),
                on_step=on_step,
            )
            _check_finite(x, settings)
            return self._decoded(given, known, x)

        # A penalty may be the user's function, and knows nothing of threads.
        return self._by_batch(rows, drawn, size, len(times) - 1, alone=penalty is not None)

    @cached_property
    def at_noise(self) -> AtNoise:
        """The network where there is only noise."""
        return self.denoiser.at_noise()

    @cached_property
    def in_turn(self) -> Turns | None:
        """How cells are drawn in turn, if they are."""
        suited = self.settings.turns and Turns.suit(self.codec)
        return Turns.of(self.codec).to(self.device) if suited else None

    def _drawn_in_turn(self, network: AnchoredAtNoise, in_turn: Turns, rows: Rows, index: Index, draw: int) -> Rows:
        turns = min(self.settings.turns, len(in_turn))
        recipes = network.denoiser.rank_laws.copies.forms.recipes(self.codec.units)

        def drawn(batch: Index, given: Rows, on_step: Callable[[], None]) -> Rows:
            known = seen(self.codec, given).to(self.device)
            noise = row_noise(self.seed, index[batch], CHANCES, len(in_turn), draw=draw)
            chances = torch.special.ndtr(noise).to(self.device)
            x, form_of = in_turn.drawn(network, known, chances, turns, on_step)
            return self.codec.copied(self._decoded(given, known, x), form_of.cpu().numpy(), recipes)

        slots = network.denoiser.rank_laws.width
        size = _batch_rows(self.settings.sampling_batch_size, CHANCES * len(in_turn) + slots)
        return self._by_batch(rows, drawn, size, turns)

    def _by_batch(
        self,
        rows: Rows,
        drawn: Callable[[Index, Rows, Callable[[], None]], Rows],
        size: int,
        steps: int,
        *,
        alone: bool = False,
    ) -> Rows:
        """Rows with every cell drawn, batch after batch or abreast: `drawn` makes rows of what is known."""
        batches = list(_batches(height_of(rows), size))

        def decoded(batch: Index, count: int, on_step: Callable[[], None]) -> Rows:
            return taken(drawn(batch, taken(rows, batch), on_step), slice(count))

        self.evaluations += height_of(rows) * steps
        progress = self.progress if batches else False
        with drawing_bar(len(batches) * steps, height_of(rows), progress) as on_step:
            if alone:
                parts = [decoded(*batch, on_step) for batch in batches]
            else:
                parts = abreast(lambda batch: decoded(*batch, on_step), batches, self.device)
        return joined(parts) if parts else dict(rows)

    def moved(self, rows: Rows, known: Rows, index: Index, *, share: float, draw: int) -> Rows:
        """Rows of which a share of the cells is drawn again: other rows of the same law, near these if it is small.

        What is `known` stays. This is a step of Gibbs sampling: it leaves the law of the model as it is, and with rows
        refused that break a condition it leaves the law under the condition as it is.
        """
        chances = torch.special.ndtr(row_noise(self.seed, index, 1, len(rows), draw=MOVING ^ draw))[0].numpy()
        kept = {
            name: replace(cells, missing=known[name].missing & (chances[:, place] < share))
            for place, (name, cells) in enumerate(rows.items())
        }
        return self.draw(kept, index, draw=draw)

    def _decoded(self, given: Rows, known: Given, x: torch.Tensor) -> Rows:
        """The rows of a batch, with what is given of them as it is."""
        return written_into(given, self.codec.decode(known.write_into(x).cpu().double().numpy()))

    def _guidance(
        self, known: Given, penalty: Penalty | None, strength: float | None, kind: type[Guidance]
    ) -> Guidance | None:
        """What pulls: the penalty, and the known cells of a network that does not see them."""
        penalties = [] if penalty is None else [penalty]
        if not self.denoiser.sees_known and bool(known.known.any()):
            penalties.append(reconstruction(self.settings.loss, known, self.codec.blocks))
        eta = self.settings.strength if strength is None else strength
        if not penalties or not eta:
            return None
        return kind(summed(penalties), SCHEDULES[self.settings.strength_schedule](eta), self.settings.longest_pull)


def seen(codec: Codec, rows: Rows) -> Given:
    """Rows as the network sees them."""
    known = torch.from_numpy(codec.spread(codec.known(rows)))
    x = codec.encode(rows)
    np.clip(x, -FARTHEST, FARTHEST, out=x)
    return Given(torch.from_numpy(x).float(), known)


def spanned(codec: Codec, rows: Rows) -> Given:
    """Rows to train on."""
    known, (places, low, high) = seen(codec, rows), codec.spans(rows)
    if not len(places):
        return known
    ends = (torch.from_numpy(end).float() for end in (low, high))
    return Spanned(known.x, known.known, torch.from_numpy(places), *ends)


def height_of(rows: Rows) -> int:
    """How many rows there are."""
    return len(next(iter(rows.values())))


def _check_finite(x: torch.Tensor, settings: Settings) -> None:
    lost = int((~x.isfinite()).any(dim=1).sum())
    if lost:
        raise SamplingFailed(
            f"The guidance threw {lost} of {len(x)} rows out of the range of numbers: its gradients were too large. "
            f"Use a smaller strength than {settings.strength:g}, or loss='mae', whose gradients are bounded."
        )


def _batches(rows: int, size: int) -> Iterator[tuple[Index, int]]:
    """The rows of each batch and how many of them count; a small batch is padded with its own rows.

    With a handful of rows, products of matrices are summed in another order, and a guided loop makes that visible: a
    row would depend on how many others are drawn with it.
    """
    for start in range(0, rows, size):
        batch = np.arange(start, min(start + size, rows))
        yield np.resize(batch, max(len(batch), FEWEST_ROWS)), len(batch)


def _batch_rows(asked: int, numbers: int) -> int:
    """Rows per batch: as asked, but never more than there is room for with so many numbers per row."""
    return max(1, min(asked, NOISE_NUMBERS // numbers))
