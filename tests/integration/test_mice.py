"""R's mice reads our imputations back, and pools them to the same numbers."""

from datetime import date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.formula.api as smf

from harpoon import Harpoon, InvalidTable, TableFileError
from tests.support import frames, r

READ = 'suppressPackageStartupMessages(library(mice)); mids <- source("read_mids.R", chdir = TRUE)$value\n'


def smokers(n=150):
    """Return a small table with missing numbers and categories, from a linear model."""
    rng = np.random.default_rng(1)
    age = rng.normal(50, 10, n).round(1)
    smoker = np.where(rng.random(n) < 0.4, "yes", "no").astype(object)
    region = rng.choice(["north", "NA", 'say "south"'], n).astype(object)
    income = (0.5 * age + 4 * (smoker == "yes") + rng.normal(0, 5, n)).round(2)
    income[rng.random(n) < 0.3] = np.nan
    smoker[rng.random(n) < 0.2] = None
    return pd.DataFrame({"age": age, "smoker": smoker, "region": region, "income": income})


@pytest.fixture(scope="module")
def draws():
    table = smokers()
    model = Harpoon(hidden=32, max_epochs=60, random_state=0, progress=False).fit(table)
    return model.impute(table, draws=5, random_state=0)


@pytest.fixture(scope="module")
def folder(draws, tmp_path_factory):
    r.require("mice")
    folder = tmp_path_factory.mktemp("mids")
    draws.to_mids(folder)
    return folder


def larger(table):
    return smf.ols("income ~ age + smoker + region", table).fit()


def smaller(table):
    return smf.ols("income ~ age", table).fit()


def logit_of_age(table):
    return smf.logit("smoked ~ age", table.assign(smoked=(table["smoker"] == "yes") * 1)).fit(disp=0)


def logit(table):
    return smf.logit("smoked ~ age + income", table.assign(smoked=(table["smoker"] == "yes") * 1)).fit(disp=0)


def test_mice_pools_a_linear_model_to_the_same_table(draws, folder):
    script = READ + (
        "s <- pool(with(mids, lm(income ~ age + smoker + relevel(region, 'NA'))))\n"
        "t <- summary(s, conf.int = TRUE)\n"
        "names(t)[grep('%', names(t))] <- c('low', 'high')\n"
        "json(c(as.list(t), as.list(s$pooled[c('ubar', 'b', 'riv', 'lambda', 'fmi', 'dfcom')])))"
    )
    ours, theirs = draws.pool(larger), r.run(script, folder)
    low, high = ours.interval(0.95)
    for mine, name in (
        (ours.estimate, "estimate"),
        (ours.std_error, "std.error"),
        (ours.statistic, "statistic"),
        (ours.df, "df"),
        (ours.p_value, "p.value"),
        (low, "low"),
        (high, "high"),
        (ours.within, "ubar"),
        (ours.between, "b"),
        (ours.riv, "riv"),
        (ours.lambda_, "lambda"),
        (ours.fmi, "fmi"),
        (np.full(5, ours.df_complete), "dfcom"),
    ):
        assert sorted(mine) == pytest.approx(sorted(theirs[name]), rel=1e-7), name


def test_mice_pools_a_logistic_regression_to_the_same_table(draws, folder):
    script = READ + "json(as.list(summary(pool(with(mids, glm(smoker ~ age + income, family = binomial))))))"
    ours, theirs = draws.pool(logit), r.run(script, folder)
    assert ours.estimate == pytest.approx(theirs["estimate"], rel=1e-5)  # two optimisers
    assert ours.std_error == pytest.approx(theirs["std.error"], rel=1e-4)
    assert ours.df == pytest.approx(theirs["df"], rel=1e-3)


def test_mice_pools_values_that_are_shifted_by_hand_to_the_same_table(draws, folder):
    script = READ + (
        "o <- complete(mids, 0); hidden <- is.na(o$income); delta <- 0.5 * sd(o$income, na.rm = TRUE)\n"
        "shift <- function(d) { d$income[hidden] <- d$income[hidden] + delta; lm(income ~ age + smoker, d) }\n"
        "json(as.list(summary(pool(as.mira(lapply(complete(mids, 'all'), shift))))))"
    )
    shifted, theirs = draws.shift({"income": 0.5}), r.run(script, folder)
    ours = shifted.pool(lambda table: smf.ols("income ~ age + smoker", table).fit())
    assert sorted(ours.estimate) == pytest.approx(sorted(theirs["estimate"]), rel=1e-3)  # ours are rounded to 0.01
    assert sorted(ours.std_error) == pytest.approx(sorted(theirs["std.error"]), rel=1e-3)
    assert sorted(ours.df) == pytest.approx(sorted(theirs["df"]), rel=1e-2)


TESTS = {
    "D1": "D1(f1, f0)$result",
    "D4": "mitml::testModels(as.mitml.result(f1), as.mitml.result(f0), 'D4', ariv = 'positive', data = data)$test",
}


@pytest.mark.parametrize("method", TESTS)
@pytest.mark.parametrize("family", ["linear", "logistic"])
def test_mice_compares_two_models_with_the_same_result(draws, folder, method, family):
    r.require("mitml")
    fits = {
        "linear": ("lm(income ~ age + smoker + region, d)", "lm(income ~ age, d)"),
        "logistic": ("glm(smoker ~ age + income, binomial, d)", "glm(smoker ~ age, binomial, d)"),
    }
    script = READ + (
        "data <- mitml::as.mitml.list(complete(mids, 'all'))\n"
        f"f1 <- as.mira(lapply(data, function(d) {fits[family][0]}))\n"
        f"f0 <- as.mira(lapply(data, function(d) {fits[family][1]}))\n"
        f"t <- {TESTS[method]}\n"
        "json(setNames(as.list(t[1, ]), c('F', 'df1', 'df2', 'p', 'riv')))"
    )
    models = {"linear": (larger, smaller), "logistic": (logit, logit_of_age)}
    ours, theirs = draws.compare(*models[family], method=method), r.run(script, folder)
    terms = {"linear": ("smoker[T.yes]", "region[T.north]", 'region[T.say "south"]'), "logistic": ("income",)}
    assert ours.terms == terms[family]
    assert [ours.statistic, ours.df1, ours.df2, ours.p_value, ours.riv] == pytest.approx(
        [theirs[name][0] for name in ("F", "df1", "df2", "p", "riv")], rel=1e-7 if family == "linear" else 1e-4
    )


def test_mice_reads_every_cell_back(draws, folder):
    script = READ + (
        "t <- complete(mids, 2); o <- complete(mids, 0)\n"
        "json(list(m = mids$m, smoker = t$smoker, region = t$region, income = t$income, levels = levels(t$region),"
        " missing = is.na(o$income), original = o$smoker))"
    )
    theirs, table = r.run(script, folder), smokers()
    assert theirs["m"] == [5]
    for name in ("smoker", "region"):
        assert theirs[name] == list(draws.tables[1][name])
    assert theirs["income"] == pytest.approx(draws.tables[1]["income"], rel=1e-15)
    assert sorted(theirs["levels"]) == sorted(set(table["region"]))
    assert theirs["missing"] == list(table["income"].isna())
    assert theirs["original"] == [value if isinstance(value, str) else None for value in table["smoker"]]


def test_mice_reads_every_kind_of_column(tmp_path):
    r.require("mice")
    days = [date(2020, 1, 1 + i % 28) for i in range(40)]
    table = pa.table(
        {
            "day": pa.array([None if i % 5 == 0 else day for i, day in enumerate(days)]),
            "time": pa.array([None if i % 7 == 0 else datetime(2020, 1, 2, 3, 4, i) for i in range(40)]),
            "flag": pa.array([None if i % 4 == 0 else i % 3 == 0 for i in range(40)]),
            "count": pa.array([None if i % 3 == 0 else i for i in range(40)]),
            "note": pa.array([f"row {i}" for i in range(40)]),
        }
    )
    draws = frames.fit(table).impute(table, draws=2)
    draws.to_mids(tmp_path)
    script = READ + (
        "t <- complete(mids, 1)\n"
        "json(list(class = sapply(t, function(x) class(x)[1]), day = format(t$day), time = format(t$time), "
        "flag = t$flag, count = t$count, note = t$note))"
    )
    theirs, ours = r.run(script, tmp_path), draws.tables[0].to_pydict()
    assert theirs["class"] == ["Date", "POSIXct", "logical", "numeric", "factor"]
    assert theirs["day"] == [str(day) for day in ours["day"]]
    assert theirs["time"] == [str(time) for time in ours["time"]]
    for name in ("flag", "count", "note"):
        assert theirs[name] == ours[name]


def test_mice_reads_names_and_texts_that_r_does_not_allow(tmp_path):
    r.require("mice")
    table = pa.table(
        {
            "body mass": pa.array([None if i % 3 == 0 else float(i * 7 % 11) for i in range(60)]),
            "if": pa.array(["ä", "b, c", None, "NA", "😀", '\\"'] * 10),
            "größe": pa.array([float(i) for i in range(60)]),
        }
    )
    draws = frames.fit(table).impute(table, draws=2)
    draws.to_mids(tmp_path)
    script = READ + (
        "t <- complete(mids, 1)\n"
        "s <- summary(pool(with(mids, lm(body.mass ~ if.))))\n"
        "json(list(names = names(t)[1:2], codes = as.integer(t[[2]]) - 1, height = t[[3]], mass = t[[1]]))"
    )
    theirs, ours = r.run(script, tmp_path), draws.tables[0].to_pydict()
    assert theirs["names"] == ["body.mass", "if."]
    assert theirs["mass"] == pytest.approx(ours["body mass"])
    assert theirs["height"] == ours["größe"]
    categories = sorted(set(table["if"].to_pylist()) - {None})
    assert [categories[code] for code in theirs["codes"]] == ours["if"]


def test_files_of_mids_are_replaced_only_by_force(draws, tmp_path):
    draws.to_mids(tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["imputations.csv", "read_mids.R"]
    with pytest.raises(TableFileError, match="already there"):
        draws.to_mids(tmp_path / "new")
    draws.to_mids(tmp_path / "new", force=True)


def test_the_index_columns_of_mice_are_reserved(tmp_path):
    table = pa.table({".imp": [1.0, 2.5, None, 4.0] * 10, "x": ["a", "b"] * 20})
    with pytest.raises(InvalidTable, match="Rename"):
        frames.fit(table).impute(table, draws=2).to_mids(tmp_path)
