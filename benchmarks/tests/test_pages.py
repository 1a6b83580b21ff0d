"""The results page: every number is from a record or a published table."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from harpoon.exceptions import InvalidOption
from harpoon_bench import pages
from harpoon_bench.__main__ import app
from harpoon_bench.pages import write_page
from harpoon_bench.records import Cell, Results
from harpoon_bench.tables import Column, Table, Value, read_published

ROOT = Path(__file__).parents[2]
PUBLISHED = {
    "imputation": "mask,ratio,method,dataset,metric,mean,std\n"
    "MAR,0.25,GAIN,adult,mse,0.90,0.1\nMAR,0.25,Harpoon,adult,mse,0.50,0.1\n"
    "MAR,0.25,GAIN,adult,accuracy,60,1\nMAR,0.25,GAIN,bean,mse,>1e5,\n",
    "constraints": "constraint,method,dataset,metric,mean,std\nor,Harpoon,adult,violation_pct,3.04,0.07\n",
    "ablations": "ablation,ratio,option,dataset,metric,mean,std\nloss,0.25,MSE,shoppers,mse,0.86,0.11\n",
    "runtimes": "method,dataset,mean_s,std_s\nGAIN,adult,0.1,0.0\nHarpoon,adult,4.0,0.0\n",
    "datasets": "dataset,count,mean\nadult,rows,32561\nadult,categorical,9\n",
    "shares": "dataset,condition,mean\nadult,range,21.73\nadult,or,24.83\n",
}
TRAINED = {"fit_seconds": 9.6, "fit_peak_mib": 321, "facts": {"epochs": 7}, "note": "a remark"}


@pytest.fixture
def folders(tmp_path):
    paper, results, output = (tmp_path / name for name in ("paper", "results", "docs"))
    paper.mkdir()
    for name, text in PUBLISHED.items():
        (paper / f"{name}.csv").write_text(text)
    return paper, results, output


def page(folders):
    paper, results, output = folders
    options = ["--published", str(paper), "--results", str(results), "--output", str(output)]
    outcome = CliRunner().invoke(app, ["page", *options], catch_exceptions=False)
    assert outcome.exit_code == 0
    return (output / "results.md").read_text()


def test_committed_page_is_that_of_the_records(tmp_path):
    page = write_page(ROOT / "benchmarks" / "results" / "experiments", tmp_path)
    assert page.read_text() == (ROOT / "docs" / "results.md").read_text(), "run: harpoon-bench page"


def test_page_without_records(folders):
    text = page(folders)
    assert text.count("Not measured yet.") == 8
    assert "## Versions" not in text
    assert "| GAIN (published) | 0.90 ± 0.10 |" in text
    assert "**0.50 ± 0.10**" in text


def test_means_over_seeds_and_published_numbers(folders):
    results = Results(folders[1])
    for seed, (mse, accuracy) in enumerate([(0.3, 0.5), (0.5, 0.6)]):
        cell = Cell("imputation", "adult", "anchored", "MAR", 0.25, seed=seed, budget=60)
        results.write(cell, {"metrics": {"mse": mse, "accuracy": accuracy}, **TRAINED})
    text = page(folders)
    assert "| Harpoon (anchored), ≤ 60 s | **0.40 ± 0.10 (2)** |" in text
    assert "| Harpoon (anchored), ≤ 60 s | 55.00 ± 5.00 (2) |" in text
    assert (
        "- Harpoon (anchored), ≤ 60 s is better than every published method in 1 of 2 cells; 97 of 99 were not "
        "measured or failed. Not better in: MAR 0.25 accuracy adult (55.00; GAIN (published) 60.00)." in text
    )
    assert "- Harpoon (anchored), ≤ 60 s, adult (7 epochs, trained 10 s, peak 321 MiB): a remark" in text


def test_failures_are_listed(folders):
    error = {"kind": "OutOfTime", "stage": "answering", "message": "stopped after | 5 s"}
    cell = Cell("imputation", "adult", "knn", "MAR", 0.25, seed=3)
    Results(folders[1]).write(cell, {"error": error})
    Results(folders[1]).write(
        Cell("imputation", "adult", "knn", "MAR", 0.25, seed=4), {"metrics": {"mse": 0.1}, **TRAINED}
    )
    text = page(folders)
    assert "| KNNImputer | failed |" in text
    assert "| imputation | adult MAR 0.25, seed 3 | KNNImputer | answering | stopped after / 5 s |" in text


def test_a_seed_counts_once_and_success_beats_failure(folders):
    results = Results(folders[1])
    error = {"error": {"kind": "OutOfTime", "stage": "answering", "message": "stopped"}}
    results.write(Cell("imputation", "adult", "mean", "MAR", 0.25), error)
    for budget in (5, 6):  # which the mean ignores
        cell = Cell("imputation", "adult", "mean", "MAR", 0.25, budget=budget)
        results.write(cell, {"metrics": {"mse": 0.5}, **TRAINED})
    assert "| mean and mode | **0.50 (1)** |" in page(folders)


def test_values_equal_to_two_digits_are_ties(folders):
    cell = Cell("imputation", "adult", "anchored", "MAR", 0.25)
    Results(folders[1]).write(cell, {"metrics": {"accuracy": 0.600049}, **TRAINED})
    text = page(folders)
    assert "| GAIN (published) | **60.00" in text
    assert "| Harpoon (anchored) | **60.00 (1)** |" in text
    assert "in 0 of 1 cells" in text


def test_methods_are_compared_on_shared_masks(folders):
    """The third mask is harder for all methods; a method without it must not look better."""
    results = Results(folders[1])
    scores = {"anchored": [0.3, 0.5, 0.7], "knn": [0.4, 0.6], "mean": [0.5, 0.7, 0.9], "gain": [0.1]}
    for method, found in scores.items():
        for seed, mse in enumerate(found):
            cell = Cell("imputation", "bean", method, "MAR", 0.25, seed=seed)
            results.write(cell, {"metrics": {"mse": mse}, **TRAINED})
    text = page(folders)
    shared = text[text.index("on the same masks") : text.index("### MAR, 25 %")]
    assert "| | bean MAR 0.25: mse |" in shared
    assert "| Harpoon (anchored) | **0.40 ± 0.10 (2)** |" in shared
    assert "| KNNImputer | 0.50 ± 0.10 (2) |" in shared
    assert "GAIN" not in shared  # with its single mask, only one mask would be shared
    assert "| Harpoon (anchored) | – | 0.50 ± 0.16 (3) |" in text


def test_conditions_ablations_runtimes_and_angles(folders):
    results = Results(folders[1])
    branches = {"range": [0.5, 0.6], "category": [0.7, 0.8]}
    sampled = {"metrics": {"violation": 0.01}, "branches": branches, **TRAINED}
    results.write(Cell("constraints", "adult", "guided", condition="or"), sampled)
    scores = {"metrics": {"mse": 0.8, "accuracy": 0.5}, **TRAINED}
    for options in ({"reconstruction_loss": "mse"}, {"encoding": "integer", "sampling_steps": 50}):
        results.write(Cell("ablation", "shoppers", "paper", "MAR", 0.25, options=options), scores)
    for method, seconds in (("anchored", 0.5), ("knn", 2.0), ("paper", 4.0)):
        results.write(Cell("runtime", "adult", method, "MAR", 0.25), {"answer_seconds": seconds, **TRAINED})
    late = {"kind": "OutOfTime", "stage": "answering", "message": "stopped"}
    results.write(Cell("runtime", "adult", "great", "MAR", 0.25), {"error": late})
    angles = {"mae": {"times": [2, 1], "mean": [80.0, None], "std": [1.0, None]}}
    results.write(Cell("geometry", "adult", "paper"), {"angles": angles, **TRAINED})
    theorem = {"alpha_bar": 0.9, "distance_to_projection": 0.012, "normal_fraction": 0.5}
    results.write(Cell("geometry", "circle", "exact"), {"theorems": [theorem]})
    results.write(Cell("fidelity", "adult", "real"), {"metrics": {"alpha": 0.9}, **TRAINED})
    text = page(folders)
    assert "| Harpoon (anchored, guided) | **1.00 (1)** |" in text
    assert "| MSE: Harpoon (paper preset), reconstruction_loss=mse (7 epochs) | **0.80 (1)** |" in text
    assert "| Integer: Harpoon (paper preset), encoding=integer, sampling_steps=50 (7 epochs) | **0.80 (1)** |" in text
    assert "| KNNImputer | 2 | 0.5 |" in text
    assert "| GReaT | failed | |" in text
    assert "| Harpoon | 4 | 1 |" in text
    assert "| 0.9 | 1.20e-02 | 5.00e-01 |" in text
    assert "| real training rows | 0.90 (1) |" in text
    for name in ("angles.svg", "disjunctions.svg"):
        assert f"]({name})" in text
        assert (folders[2] / name).read_text().startswith("<?xml")


def test_page_is_reproducible(folders):
    Results(folders[1]).write(
        Cell("constraints", "adult", "guided", condition="or"),
        {"metrics": {}, "branches": {"range": [0.5, 0.6], "category": [0.7, 0.8]}, **TRAINED},
    )
    page(folders)
    before = {path.name: path.read_bytes() for path in folders[2].iterdir()}
    page(folders)
    assert {path.name: path.read_bytes() for path in folders[2].iterdir()} == before


def test_huge_numbers_are_powers_of_ten():
    assert str(Value(5.06e32)) == ">1e32"
    assert str(Value(99999.0, 1.0)) == "99999.00 ± 1.00"


def test_a_tie_is_not_a_win():
    table = Table([Column("a", "mse"), Column("b", "accuracy"), Column("c", "mse")])
    for row, values in {"ours": (0.5, 0.5, 0.1), "theirs": (0.5, 0.6, 0.2)}.items():
        for column, value in zip("abc", values, strict=True):
            table.put(row, column, Value(value))
    assert [found.won for found in table.compare("ours", ["theirs"])] == [False, False, True]
    assert table.to_markdown().splitlines()[2] == "| ours | **0.50** | 0.50 | **0.10** |"


def test_wrong_published_table_is_an_error(folders):
    with pytest.raises(InvalidOption, match="Choose a folder"):
        read_published(folders[0] / "nothing.csv", ("method",))
    with pytest.raises(InvalidOption, match="must be a CSV file of published numbers"):
        read_published(folders[0] / "runtimes.csv", ("colour",))


def test_published_hyperimpute_is_of_a_result_file(folders):
    path = folders[0] / "imputation.csv"
    path.write_text(path.read_text() + "MAR,0.25,HyperImpute,adult,mse,1.05,0.15\n")
    assert "| HyperImpute, authors' result file (published) | 1.05 ± 0.15 |" in page(folders)


def test_scores_as_published_are_rows_of_their_own(folders):
    scores = {"violation": 0.0, "ks": 0.78, "published_violation": 0.23, "published_ks": 0.9}
    cell = Cell("constraints", "adult", "paper", condition="or")
    branches = {"range": [0.5, 0.6], "category": [0.7, 0.8]}
    Results(folders[1]).write(cell, {"metrics": scores, "branches": branches, **TRAINED})
    Results(folders[1]).write(Cell("fidelity", "adult", "paper"), {"metrics": {"alpha": 0.5, "published_ks": 0.9}})
    text = page(folders)
    assert "| Harpoon (paper preset) | **0.00 (1)** | – | – | 0.78 (1) | – | – |" in text
    assert "| Harpoon (paper preset), scored as published | 23.00 (1) | – | – | **0.90 (1)** | – | – |" in text


def test_statistics_of_data_sets_beside_the_published_ones(folders):
    counts = {"rows": 32561, "numeric": 6, "categorical": 8, "train": 22792, "test": 9769}
    shares = {"range": {"where": "age >= 50", "train": 0.21731}, "or": {"where": "age >= 50 or b = 'c'", "train": 0.3}}
    Results(folders[1]).write(Cell("statistics", "adult", "data"), {"counts": counts, "shares": shares})
    text = page(folders)
    assert "| adult | 32,561 | 6 | 8 (9) | 22,792 | 9,769 |" in text
    assert "| adult | range | `age >= 50` | 21.73 |" in text
    assert "| adult | or | `age >= 50 or b = 'c'` | 30.00 (24.83) |" in text


def test_a_table_of_several_versions_has_a_warning(folders):
    results = Results(folders[1])
    versions = [{"commit": "a" * 40, "clean": True}, {"commit": "b" * 40, "clean": False}, {}]
    for seed, version in enumerate(versions):
        cell = Cell("imputation", "adult", "mean", "MAR", 0.25, seed=seed)
        results.write(cell, {"metrics": {"mse": 0.5}, **TRAINED, **version})
    results.write(Cell("imputation", "adult", "mean", "MCAR", 0.25), {"metrics": {"mse": 0.5}, **TRAINED})
    text = page(folders)
    tables = {part.splitlines()[0]: part for part in text.split("### ")}
    mixed = (
        "**Mixed versions**: the measured rows are of several commits: aaaaaaa (1), bbbbbbb with changes (1), before "
        "commits were recorded (1)."
    )
    assert mixed in tables["MAR, 25 % hidden: mse"]
    assert "Mixed versions" not in tables["MCAR, 25 % hidden: mse"]
    assert "| imputation | before commits were recorded (2), aaaaaaa (1), bbbbbbb with changes (1) |" in text


def test_agreement_is_within_two_deviations_or_five_percent():
    columns = [Column(name, "mse") for name in "abcde"]
    published = {name: Value(10.0, std) for name, std in zip("abcd", (1.0, 1.0, 0.1, None), strict=True)}
    measured = {name: Value(mean) for name, mean in zip("abcde", (12.0, 12.1, 9.6, 9.4, 1.0), strict=True)}
    table = Table(columns, {"Harpoon (paper preset)": measured, "Harpoon (published)": published}, title="MAR")
    found = table.agreement("Harpoon (paper preset)", "Harpoon (published)")
    assert [(cell.cell, cell.agrees, cell.won) for cell in found] == [
        ("MAR a", True, False),
        ("MAR b", False, False),
        ("MAR c", True, True),
        ("MAR d", False, True),
    ]
    line = pages.describe_agreement({"MAR": [table]}).splitlines()[-1]
    assert "2 of 4 measured cells agree; better in 1 (MAR d (9.40; 10.00)); worse in 1 (MAR b (12.10; 10.00))" in line
    assert pages.describe_agreement({"MAR": []}) == ""
