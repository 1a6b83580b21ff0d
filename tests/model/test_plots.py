"""Plots show the data: heights, edges and texts are read back from the figures."""

import datetime as dt
from itertools import pairwise

import matplotlib as mpl
import matplotlib.style
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from scipy.stats import ks_2samp

import harpoon
from harpoon import plots
from harpoon.diffusion.geometry import gradient_angles
from harpoon.plots.style import SAND, SEA

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def tables():
    """Two tables with columns of every kind; only the first has missing cells."""

    def make_table(rows, shift):
        rng = np.random.default_rng(shift)
        start = dt.datetime(2024, 1, 1)
        return pd.DataFrame(
            {
                "number": rng.normal(shift, 1, rows).round(2),
                "integer": rng.integers(0, 10, rows),
                "gain": np.where(rng.random(rows) < 0.8, 0.0, rng.exponential(1000, rows).round(1)),
                "flag": rng.random(rows) < 0.3,
                "category": rng.choice(["a", "b", "c"], rows, p=[0.6, 0.3, 0.1]),
                "many": rng.choice([f"label {i}" for i in range(40)], rows),
                "day": [(start + dt.timedelta(days=int(d))).date() for d in rng.integers(0, 700, rows)],
                "moment": pd.to_datetime(start) + pd.to_timedelta(rng.integers(0, 10**7, rows), unit="s"),
                "duration": pd.to_timedelta(rng.integers(60, 9000, rows), unit="s"),
                "nothing": None,
                "same": 1,
                "id": [f"row-{i}" for i in range(rows)],
            }
        )

    first, second = make_table(400, 0), make_table(300, 1)
    first.loc[:39, "number"] = np.nan
    first.loc[::4, "category"] = None
    return first, second


@pytest.fixture(scope="module")
def model():
    table = pd.DataFrame({"x": RNG.normal(size=60), "c": RNG.choice(["a", "b"], 60)})
    small = {"hidden": 16, "random_state": 0, "progress": False}
    return harpoon.Harpoon(max_epochs=3, eval_every=1, **small).fit(table), table


def panel(figure, name):
    return next(axes for axes in figure.axes if axes.get_title("left") == name)


def histograms(axes):
    """Return the heights and edges of the histogram of each table."""
    return [patch.get_data()[:2] for patch in axes.patches]


def bars(axes):
    """Return the length of the bar of each category, for each table."""
    names = [text.get_text() for text in axes.get_yticklabels()]
    lengths = [[bar.get_width() for bar in container] for container in axes.containers]
    return [dict(zip(names, each, strict=True)) for each in lengths]


def all_text(figure):
    """Return all texts of a figure."""
    figure.canvas.draw()
    return " ".join(text.get_text() for text in figure.findobj(mpl.text.Text) if text.get_visible())


def test_histograms_are_those_of_the_tables(tables):
    axes = panel(plots.marginals(*tables), "number")
    for (heights, edges), table in zip(histograms(axes), tables, strict=True):
        present = table["number"].dropna()
        expected = np.histogram(present, edges)[0] / len(present)
        assert np.allclose(heights, expected)
    assert [to_hex(patch.get_facecolor()) for patch in axes.patches[:1]] == [SAND]
    assert to_hex(axes.patches[1].get_edgecolor()) == SEA
    both = pd.concat(tables)["number"].dropna()
    assert histograms(axes)[0][1][0] <= both.min()
    assert histograms(axes)[0][1][-1] >= both.max()


def test_bins_of_integers_hold_one_value_each(tables):
    for (heights, edges), table in zip(histograms(panel(plots.marginals(*tables), "integer")), tables, strict=True):
        assert np.allclose(edges, np.arange(11) - 0.5)
        assert np.allclose(heights, table["integer"].value_counts(normalize=True).sort_index())


def test_bars_are_fractions_of_the_observed_cells(tables):
    for fractions, table in zip(bars(panel(plots.marginals(*tables), "category")), tables, strict=True):
        assert fractions == pytest.approx(table["category"].value_counts(normalize=True).to_dict())


def test_rare_categories_share_one_bar(tables):
    for fractions, table in zip(bars(panel(plots.marginals(*tables), "many")), tables, strict=True):
        assert len(fractions) == 9
        counted = table["many"].value_counts(normalize=True)
        shown = {name: counted.get(name, 0.0) for name in fractions if name != "32 others"}
        assert {name: fractions[name] for name in shown} == pytest.approx(shown)
        assert fractions["32 others"] == pytest.approx(1 - sum(shown.values()))


def test_a_spike_is_noted_below_the_panel(tables):
    axes = panel(plots.marginals(*tables), "gain")
    fractions = [(table["gain"] == 0).mean() for table in tables]
    assert axes.get_xlabel().startswith(f"at 0: {fractions[0]:.0%} | {fractions[1]:.0%}".replace("%", " %"))
    for (heights, _), table in zip(histograms(axes), tables, strict=True):
        outside = 1 - heights.sum() - (table["gain"] == 0).mean()
        assert 0 <= outside < 0.01


def test_the_score_is_the_distance(tables):
    first, second = (table["number"].dropna() for table in tables)
    expected = ks_2samp(first, second).statistic
    written = all_text(plots.marginals(*tables, columns=["number"]))
    assert f"KS {expected:.2f}" in written
    assert "missing: 10 % | 0 %" in written


@pytest.mark.parametrize("name", ["day", "moment"])
def test_dates_have_an_axis_of_dates(tables, name):
    figure = plots.marginals(*tables, columns=[name])
    figure.canvas.draw()
    axes = panel(figure, name)
    for (heights, edges), table in zip(histograms(axes), tables, strict=True):
        days = pd.to_datetime(table[name]).astype("datetime64[us]").to_numpy().astype(np.int64) / 86_400e6
        assert np.allclose(heights, np.histogram(days, edges)[0] / len(table))
    ticks = [text.get_text() for text in axes.get_xticklabels()]
    assert {"2025", "Feb", "Apr"} & set(ticks), ticks


def test_durations_have_a_suitable_unit(tables):
    axes = panel(plots.what_if(*tables, columns=["duration"]), "duration")
    assert "hours" in axes.get_xlabel()
    hours = tables[0]["duration"].dt.total_seconds() / 3600
    heights, edges = histograms(axes)[0]
    assert np.allclose(heights, np.histogram(hours, edges)[0] / len(hours), atol=0.02)


def test_what_if_puts_the_most_changed_column_first(tables):
    before = tables[0][["category", "number", "integer"]]
    after = before[before["number"] > 1.5]
    figure = plots.what_if(before, after, where="number > 1.5")
    assert figure.axes[0].get_title("left") == "number"
    written = all_text(figure)
    assert "What if number > 1.5?" in written
    assert f"mean {before['number'].mean():.3g} → {after['number'].mean():.3g}" in written
    assert f"after ({len(after)} rows)" in written


def test_columns_that_cannot_be_compared_are_named(tables):
    written = all_text(plots.marginals(*tables))
    assert "nothing (empty)" in written
    assert "same (constant)" in written
    assert "id (identifier)" in written


def test_many_columns_are_limited_with_a_note():
    wide = pd.DataFrame(RNG.normal(size=(30, 300)), columns=[f"c{i}" for i in range(300)])
    figure = plots.marginals(wide, wide, max_panels=6)
    assert len(figure.axes) == 6
    assert "294 more columns" in all_text(figure)
    wide.loc[0, "c299"] = np.nan
    figure = plots.missingness(wide)
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert len(names) == 40
    assert "c299" in names
    assert "260 more columns" in all_text(figure)


@pytest.mark.parametrize("rows", [7, 1000])
def test_missingness_shows_the_missing_cells(rows, frame_of):
    missing = RNG.random((rows, 2)) < [0.5, 0.1]
    missing[0] = [True, False]
    columns = {name: [None if is_missing else 1.5 for is_missing in missing[:, i]] for i, name in enumerate("xy")}
    figure = plots.missingness(frame_of(columns))
    left, right = figure.axes
    assert np.allclose([bar.get_width() for bar in right.patches], missing.mean(axis=0))
    mesh = left.collections[0]
    edges = mesh.get_coordinates()[0, :, 0].astype(int)
    for fractions, is_missing in zip(mesh.get_array(), missing.T, strict=True):
        expected = [is_missing[low:high].mean() for low, high in pairwise(edges)]
        assert np.allclose(fractions, expected)
    assert f"{missing.sum():,} of {missing.size:,} cells are missing" in all_text(figure)


def test_a_complete_table_says_so():
    assert "No cell is missing" in all_text(plots.missingness(pa.table({"x": [1, 2, 3]})))


def test_training_shows_the_losses(model):
    history = model[0].history_
    axes = plots.training(model[0]).axes[0]
    rows, held, lowest = axes.lines
    assert list(rows.get_ydata()) == [epoch.loss for epoch in history.epochs]
    assert list(held.get_ydata()) == [epoch.validation_loss for epoch in history.epochs]
    assert list(lowest.get_ydata()) == [min(held.get_ydata())]
    assert "stopped by epochs" in all_text(axes.figure)


def test_training_without_validation_rows_and_with_a_single_epoch():
    table = pa.table({"x": [0.1, 0.7, 0.3] * 4})
    fitted = harpoon.Harpoon(hidden=16, max_epochs=1, validation_fraction=0.0, progress=False).fit(table)
    (line,) = plots.training(fitted).axes[0].lines
    assert len(line.get_ydata()) == 1
    assert line.get_marker() == "o"


def test_angles_are_those_of_the_geometry(model):
    fitted, table = model
    axes = plots.angles(fitted, table, losses=["mae", "mse"], rows=10).axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    times = list(lines["mse"].get_xdata())
    expected = gradient_angles(
        fitted.denoiser_,
        fitted.encode(table),
        fitted.codec_.slices,
        losses=["mae", "mse"],
        rows=10,
        times=times,
    )
    for loss in ("mae", "mse"):
        assert np.allclose(lines[loss].get_ydata(), expected[loss].mean)


def test_given_axes_are_drawn_on(model):
    figure = Figure()
    axes = figure.subplots()
    assert plots.training(model[0], ax=axes) is figure
    assert len(axes.lines) == 3


def test_frames_of_two_libraries_can_be_compared(tables):
    plain = tables[0][["number", "category", "integer"]]
    figure = plots.marginals(pl.from_pandas(plain), pa.Table.from_pandas(plain, preserve_index=False))
    assert all_text(figure).count(" 0.00") == 3


def test_integers_compare_with_numbers():
    figure = plots.marginals(pd.DataFrame({"x": [1, 2, 3]}), pd.DataFrame({"x": [1.5, 2.25, 3.0]}))
    assert np.isclose(histograms(figure.axes[0])[1][0].sum(), 1)


HOSTILE = {
    "mathematics": {"$x_{$": [1.0, 2.0, 3.0], "a$b": ["$\\frac$", "_under", "%s"]},
    "long": {"x" * 500: ["y" * 500, "two\nlines\tand a tab", ""]},
    "one row": {"x": [1.5], "c": ["a"]},
    "huge": {"x": [1e290, -1e290, 1e-300], "n": [2**62, -(2**62), 0]},
    "outlier": {"x": [*np.arange(200.0).tolist(), 1e12]},
    "dates": {"d": [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]},
    "moments": {"t": pa.array([-(2**62), 0, 2**62], pa.timestamp("ns"))},
    "durations": {"s": pa.array([0, 1, 5], pa.duration("ns"))},
    "categories": {"c": [f"label {i % 900}" for i in range(2000)]},
    "accents": {"größe": ["é", "ø", "ß"], "α": [1, 2, 3]},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tables_are_drawn(name):
    table = pa.table(HOSTILE[name])
    other = pa.concat_tables([table] * 2)
    figures = [plots.missingness(table), *([] if name == "one row" else [plots.marginals(table, other)])]
    for figure in [*figures, *([] if name == "one row" else [plots.what_if(table, other, where="$a$ > 1")])]:
        assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        (lambda: plots.missingness(pd.DataFrame()), harpoon.InvalidTable, "rows and columns"),
        (lambda: plots.missingness([1, 2]), harpoon.InvalidTable, "pandas, polars or pyarrow"),
        (lambda: plots.marginals(pa.table({"x": [1.0, 2]}), pa.table({"y": [1.0, 2]})), harpoon.InvalidTable, "x"),
        (
            lambda: plots.marginals(pa.table({"x": [1.0, 2]}), pa.table({"x": ["a", "b"]})),
            harpoon.SchemaMismatch,
            "'x'",
        ),
        (
            lambda: plots.marginals(pa.table({"x": [1.0, np.inf]}), pa.table({"x": [1.0, 2]})),
            harpoon.InvalidTable,
            "inf",
        ),
        (
            lambda: plots.what_if(pa.table({"age": [1.0, 2]}), pa.table({"age": [1.0, 2]}), columns=["agee"]),
            harpoon.InvalidOption,
            "Did you mean 'age'",
        ),
        (lambda: plots.missingness(pa.table({"x": [1]}), max_columns=0), harpoon.InvalidOption, "max_columns"),
        (lambda: plots.missingness(pa.table({"x": [1]}), size=(0, 3)), harpoon.InvalidOption, "inches"),
        (lambda: plots.what_if(*[pa.table({"x": [1, 2]})] * 2, names=("one",)), harpoon.InvalidOption, "two"),
        (lambda: plots.training(harpoon.Harpoon()), harpoon.NotFitted, "fit"),
        (lambda: plots.training("model.harpoon"), harpoon.InvalidOption, "str"),
    ],
)
def test_mistakes_are_explained(ask, error, says):
    with pytest.raises(error, match=says):
        ask()


def test_no_global_state_is_changed_and_a_dark_style_does_not_show(tables, model):
    with mpl.rc_context():
        mpl.style.use("dark_background")
        before = dict(mpl.rcParams)
        backend = mpl.get_backend(auto_select=False)
        figures = [
            plots.missingness(tables[0]),
            plots.marginals(*tables),
            plots.what_if(*tables),
            plots.training(model[0]),
            plots.angles(*model, losses=["mae"], rows=5),
        ]
        for figure in figures:
            figure._repr_png_()
            assert to_hex(figure.get_facecolor()) == "#ffffff"
            assert {to_hex(axes.get_facecolor()) for axes in figure.axes} == {"#ffffff"}
            assert "#ffffff" not in {to_hex(t.get_color()) for t in figure.findobj(mpl.text.Text) if t.get_text()}
        assert dict(mpl.rcParams) == before
        assert mpl.get_backend(auto_select=False) == backend
