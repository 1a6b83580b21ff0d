"""The R package in r/harpoon: installed by R CMD INSTALL, used as a method of mice through reticulate, and pooled."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest

from harpoon import Harpoon, InvalidOption, Privacy, Schema
from tests.support import r

ROOT = Path(__file__).parents[2]
QUICK = "max_epochs = 2, options = list(hidden = 16)"
TABLE = """
suppressPackageStartupMessages({library(mice); library(harpoon)})
set.seed(2)
n <- 80
age <- round(rnorm(n, 50, 10))
smoker <- factor(ifelse(runif(n) < 0.4, "ja, sehr", "n\\u00e9in"))
income <- round(0.5 * age + 4 * (smoker == "ja, sehr") + rnorm(n), 2)
children <- rpois(n, 2)
owner <- runif(n) < 0.5
income[runif(n) < 0.3] <- NA; smoker[runif(n) < 0.2] <- NA; children[1:9] <- NA; owner[4:12] <- NA
data <- data.frame(age, smoker, income, children, owner)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    """A library of R with the package, as a user installs it from the repository."""
    r.require("mice", "reticulate")
    folder = tmp_path_factory.mktemp("library")
    command = ["R", "CMD", "INSTALL", f"--library={folder}", str(ROOT / "r" / "harpoon")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def environment(library) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return {"R_LIBS": str(library), "RETICULATE_PYTHON": sys.executable, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def bridge() -> ModuleType:
    """The Python half of the package."""
    path = ROOT / "r" / "harpoon" / "inst" / "python" / "harpoon_mice.py"
    spec = importlib.util.spec_from_file_location("harpoon_mice", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_budget_is_refused_because_the_schema_is_read_off_the_rows(bridge):
    columns = {"x": {"kind": "number", "values": [0.5, 1.5] * 20, "missing": [False] * 40}}
    with pytest.raises(InvalidOption, match="schema that was written without a look at the rows"):
        bridge.fit(columns, {"privacy": Privacy(2.0, 1e-6)}, 1)


def test_the_door_gives_the_rows_of_python(bridge):
    """Without R: the same seeds give the same model and the same draws."""
    x, label = [1.5, 2.5, None, 4.0, None, 1.0] * 10, ["a", None, "b", "b", "a", None] * 10
    cells = {"x": ("number", x, 0.0), "label": ("category", label, "")}
    columns = {
        name: {
            "kind": kind,
            "values": [filler if value is None else value for value in values],
            "missing": [value is None for value in values],
        }
        for name, (kind, values, filler) in cells.items()
    }
    options = {"hidden": 16.0, "max_epochs": 1.0}  # numbers of R are floats
    drawn = bridge.draw(bridge.fit(columns, options, 3), columns, ["label", "x"], 5)
    table = pa.table({"x": x, "label": label})
    schema = Schema.infer(table, kinds={"x": "number", "label": "category"})
    model = Harpoon(schema=schema, hidden=16, max_epochs=1, random_state=3, progress=False).fit(table)
    expected = model.impute(table, draws=1, random_state=5).tables[0]
    for name in table.column_names:
        assert drawn[name] == expected[name].filter(table[name].is_null()).to_pylist()


def test_mice_imputes_by_harpoon_and_pools(environment, tmp_path):
    """Column after column, and all columns in one block, which trains once and gives the same for the same seed."""
    script = TABLE + (
        f"imp <- mice(data, method = 'harpoon', m = 1, maxit = 1, seed = 1, printFlag = FALSE, {QUICK})\n"
        "whole <- function(seed) mice(data, method = 'harpoon', blocks = list(all = names(data)), m = 3, maxit = 1,\n"
        f"  seed = seed, printFlag = FALSE, {QUICK})\n"
        "one <- whole(7); same <- whole(7); other <- whole(8)\n"
        "pooled <- summary(pool(with(one, lm(income ~ age + smoker))))\n"
        "t <- complete(one, 1)\n"
        "known <- function(t, v) t[[v]][!is.na(data[[v]])]\n"
        "kept <- all(sapply(names(data), function(v) identical(known(t, v), known(data, v))))\n"
        "json(list(left = c(sum(is.na(complete(imp))), sum(is.na(t))), kept = kept, levels = levels(t$smoker),\n"
        "  class = sapply(t, function(x) class(x)[1]), term = pooled$term, se = pooled$std.error,\n"
        "  same = identical(one$imp, same$imp), other = identical(one$imp, other$imp),\n"
        "  differ = any(one$imp$income[, 1] != one$imp$income[, 2]), income = one$imp$income[, 1],\n"
        "  decimals = max(abs(round(one$imp$income[, 1], 2) - one$imp$income[, 1]))))"
    )
    found = r.run(script, tmp_path, **environment)
    assert found["left"] == [0, 0]
    assert found["kept"] == [1]
    assert found["levels"] == ["ja, sehr", "n\u00e9in"]
    assert found["class"] == ["numeric", "factor", "numeric", "integer", "logical"]
    assert found["term"] == ["(Intercept)", "age", "smokern\u00e9in"]
    assert all(error > 0 for error in found["se"])
    assert (found["same"], found["other"], found["differ"]) == ([1], [0], [1])
    assert found["decimals"][0] < 1e-9


def test_a_fitted_model_is_used_and_bad_tables_are_refused(environment, tmp_path):
    script = TABLE + (
        f"model <- harpoon_fit(data, {QUICK}, seed = 3)\n"
        "draw <- function(seed) { set.seed(seed); mice.impute.harpoon(data, model = model) }\n"
        "imp <- mice(data, method = 'harpoon', m = 2, maxit = 2, seed = 1, printFlag = FALSE, model = model)\n"
        "fails <- function(data) tryCatch({ harpoon_fit(data, 1); 'no error' }, error = conditionMessage)\n"
        "hostile <- data.frame(a = c(1.5, NA, 3), b = factor(c('x\"; stop()', 'y', NA)))\n"
        "names(hostile) <- c('if', 'b d\\u00e4 \"\\'`')\n"
        "names <- names(mice.impute.harpoon(hostile[rep(1:3, 20), ], type = c(0, 0), max_epochs = 1))\n"
        "json(list(same = identical(draw(5), draw(5)), other = identical(draw(5), draw(6)),\n"
        "  left = sum(is.na(complete(imp))), time = fails(data.frame(t = Sys.time() + 1:30, x = 1:30)),\n"
        "  infinite = fails(data.frame(x = c(1, Inf, NA))), none = fails(data.frame()), list = fails(list(a = 1)),\n"
        "  few = fails(data.frame(x = c(NA_real_, NA))), names = names))"
    )
    found = r.run(script, tmp_path, **environment)
    assert (found["same"], found["other"], found["left"]) == ([1], [0], [0])
    assert "class POSIXct" in found["time"][0]
    assert "infinite" in found["infinite"][0]
    assert "needs a data frame with rows" in found["none"][0]
    assert "needs a data frame with rows" in found["list"][0]
    assert found["few"][0] != "no error"
    assert found["names"] == ["if", "b d\u00e4 \"'`"]


def test_character_columns_are_predictors_or_refused_before_a_training(environment, tmp_path):
    """mice cannot hold imputed texts. A complete column of texts is used in a block with the others, as a factor is."""
    script = (
        "suppressPackageStartupMessages({library(mice); library(harpoon)})\nset.seed(1)\n"
        "data <- data.frame(x = rnorm(60), g = rep(c('a', 'b', 'b'), 20))\ndata$x[c(2, 8)] <- NA\n"
        "run <- function(data, ...) mice(data, method = 'harpoon', m = 2, maxit = 1, seed = 2, printFlag = FALSE,\n"
        f"  ..., {QUICK})\n"
        "whole <- function(data) run(data, blocks = list(all = names(data)))\n"
        "text <- whole(data); made <- whole(transform(data, g = factor(g)))\n"
        "data$g[c(3, 9, 20)] <- NA\n"
        "factors <- complete(whole(transform(data, g = factor(g))))\n"
        "assignInNamespace('bridge', function() stop('Python was called'), 'harpoon')\n"
        "fails <- function(call) tryCatch({ call; 'no error' }, error = conditionMessage)\n"
        "json(list(same = identical(text$imp$x, made$imp$x), left = sum(is.na(factors)), block = fails(whole(data)),\n"
        "  own = fails(mice.impute.harpoon(data, type = c(0, 0)))))"
    )
    found = r.run(script, tmp_path, **environment)
    assert (found["same"], found["left"]) == ([1], [0])
    for name in ("block", "own"):
        assert "Column 'g' has the class character and missing values." in found[name][0]
        assert "make it a factor first, by factor()" in found[name][0]


def test_a_missing_python_package_says_what_to_install(environment, library, tmp_path):
    """Without Harpoon in Python, the error names the package and how to choose the interpreter."""
    (tmp_path / "harpoon.py").write_text("raise ImportError('not this one')", encoding="utf-8")
    script = TABLE + "json(list(message = tryCatch(harpoon_fit(data), error = conditionMessage)))"
    found = r.run(script, tmp_path, **{**environment, "PYTHONPATH": str(tmp_path)})
    assert "pip install -c constraints.txt . in a clone of the repository" in found["message"][0]
    assert "RETICULATE_PYTHON" in found["message"][0]


def test_the_vignette_runs(environment, tmp_path):
    """The code of the vignette, with a small budget."""
    text = (ROOT / "r" / "harpoon" / "vignettes" / "harpoon.Rmd").read_text(encoding="utf-8")
    blocks = [part.partition("\n")[2] for part in text.split("```")[1::2] if part.startswith("{r")]
    assert len(blocks) >= 4
    code = "\n".join(blocks).replace("max_time = 30", f"{QUICK}").replace("m = 20", "m = 2")
    start = "suppressPackageStartupMessages({library(mice); library(harpoon)})\n"
    done = r.try_to_run(start + code, tmp_path, **environment)
    assert done.returncode == 0, done.stderr
    assert "estimate" in done.stdout
