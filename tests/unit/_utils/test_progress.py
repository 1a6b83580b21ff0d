"""Progress: one bar per call, however often the call samples."""

from contextlib import contextmanager

import pytest

from harpoon._utils import progress


@pytest.fixture
def bars(monkeypatch):
    """The bars that are shown: the last total and the steps done of each."""
    shown = []

    @contextmanager
    def show_bar(_words, total, _text, *, show):
        bar = {"total": total, "done": 0, "open": True}
        shown.append(bar) if show else None

        def update(*, total=None, advance=0):
            assert bar["open"]
            bar.update(total=bar["total"] if total is None else total, done=bar["done"] + advance)

        yield update
        bar["open"] = False

    monkeypatch.setattr(progress, "show_bar", show_bar)
    return shown


def sample(steps, show=True):
    with progress.sampling_bar(steps, 10, show) as on_step:
        for _ in range(steps):
            on_step()


def test_several_rounds_of_sampling_share_one_bar_whose_total_grows(bars):
    with progress.one_bar(True):
        for steps in (3, 4, 5):
            sample(steps)
        with progress.one_bar(True):  # a call inside the call
            sample(2)
    assert bars == [{"total": 14, "done": 14, "open": False}]


def test_nothing_is_shown_before_anything_is_sampled(bars):
    with progress.one_bar(True):
        pass
    assert not bars


def test_a_bar_is_closed_after_an_error_and_the_next_call_has_its_own(bars):
    def stop():
        with progress.one_bar(True):
            sample(1)
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        stop()
    with progress.one_bar(True):
        sample(2)
    assert [bar["total"] for bar in bars] == [1, 2]


def test_the_last_state_of_a_bar_is_shown(monkeypatch):
    """Even in a notebook, where rich does not show what changed after its last refresh."""
    from rich.progress import Progress

    shown = []
    monkeypatch.setattr(Progress, "refresh", lambda bar: shown.append([task.percentage for task in bar.tasks]))
    with progress.show_bar("Training", 1.0, "", show=True) as update:
        update(completed=0.94)
        update(completed=1.0)
    assert shown[-1] == [100.0]


def test_a_callback_is_called_for_each_round(bars):
    steps = []
    with progress.one_bar(steps.append):
        sample(1, steps.append)
        sample(2, steps.append)
    assert [(step.done, step.total) for step in steps] == [(1, 1), (1, 2), (2, 2)]
    assert not bars
