"""The command line with hostile tables, closed streams and wrong options."""

import csv
import json
import signal
import sys
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import harpoon
from harpoon import io
from harpoon.apps.cli import app, console, main, options
from harpoon.config import DEFAULT_REPORT_ROWS, PRESETS
from harpoon.engines import ENGINES
from harpoon.inference.conditional.strategies import STRATEGIES
from harpoon.inference.diagnostics.sampling_info import SamplingInfo
from harpoon.io import FORMATS
from tests.support.cli import call


def assert_refused(done, words, code):
    assert done.code == code, done.said
    assert words in done.said
    assert done.said.startswith("Error: ")
    assert done.said.count("\n") == 1
    assert done.out == b""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of a number, a boolean, an integer and a category."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=80).round(3),
            "flag": rng.random(80) < 0.5,
            "k": rng.integers(0, 50, 80),
            "c": rng.choice(["a", "b"], 80),
        }
    )
    path = tmp_path_factory.mktemp("model") / "m.harpoon"
    harpoon.Harpoon(hidden=16, max_epochs=1, random_state=0, progress=False).fit(frame).save(path)
    return path


@pytest.fixture
def file(tmp_path):
    def written(content, name="rows.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


# Cells are copied unchanged.


def test_no_file_beside_the_output_is_touched(model, tmp_path):
    own = tmp_path / ".harpoon-2024-backup.csv"
    own.write_text("a year of work")
    assert call("sample", model, "-n", 1, "-o", tmp_path / "rows.csv").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [own.name, "rows.csv"]


def test_cells_that_are_not_filled_stay_byte_for_byte(model, file):
    lines = ["x,flag,k,c,note,more", " 0.10,TRUE,+3,a,,", '1e-1,False,4.0,b,"",NA', '.5,true,7,a,"a, ""b""",\t']
    whole = "\n".join(lines) + "\n"
    assert call("impute", model, file(whole), "-q").out.decode() == whole
    holes = 'x,flag,k,c,note,more\n,NA,,a,,\n0.5,,n/a,,"",x\n'.replace("n/a", "N/A")
    done = call("impute", model, file(holes), "-q", "--only", "c")
    assert done.code == 0, done.said
    before, after = holes.splitlines(), done.out.decode().splitlines()
    assert after[:2] == before[:2]
    assert after[2] in {before[2].replace("N/A,,", f"N/A,{label},") for label in "ab"}


def test_empty_cells_and_empty_texts_are_missing(file):
    path = file('a,b\n1,""\n,x\n"",\n')
    assert io.read_table(path).to_pydict() == {"a": [1, None, None], "b": [None, "x", None]}
    assert '"missing": 0.6666666666666666' in call("schema", path, "--json").out.decode()


@pytest.mark.parametrize("batch", [1, 2, 3, 100])
@pytest.mark.parametrize("word", ["TRUE", "False", "true"])
def test_booleans_are_spelled_as_in_the_whole_table_whatever_the_blocks(model, file, batch, word):
    path = file(f"x,flag,k,c\n0.1,,1,a\n0.2,,2,b\n0.3,{word},3,a\n")
    flags = [
        row[1] for row in csv.reader(StringIO(call("impute", model, path, "--block-size", batch, "-q").out.decode()))
    ][1:]
    assert flags[-1] == word
    for flag in flags:
        assert (flag.isupper(), flag.istitle()) == (word.isupper(), word.istitle())


# Old and long text files.


def test_lines_may_end_as_on_old_macs(file):
    assert io.read_table(file("a,b,c\r1,2,x\r3,4,y\r")).to_pydict() == {"a": [1, 3], "b": [2, 4], "c": ["x", "y"]}
    assert io.read_table(file('a;"b\r\nb"\r1;2\r')).column_names == ["a", "b\r\nb"]


def test_a_long_header_is_read_whole(file):
    names = [f"{number:03}" + "n" * 1000 for number in range(100)]
    table = io.read_table(file(",".join(names) + "\n" + ",".join("1" * 100) + "\n"))
    assert table.column_names == names
    assert table.num_rows == 1


def test_a_very_long_name_is_refused(file):
    assert_refused(call("schema", file("n" * 200_000 + ",b\n1,2\n")), "names of the columns", 1)
    assert_refused(call("schema", file("n,b," * 2_200_000)), "row beyond", 1)


@pytest.mark.parametrize("content", ["x,flag,k,c", "\n\nx,flag,k,c", 'x,flag,k,"c"', "x,flag,k,c".encode("utf-16")])
def test_a_header_without_the_end_of_its_line_is_a_table_of_no_rows(model, file, content):
    done = call("impute", model, file(content), "-q")
    assert (done.code, done.out) == (0, b"x,flag,k,c\n"), done.said


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--encoding", "hex", "Try utf-8"),
        ("--encoding", "rot13", "Try utf-8"),
        ("--encoding", "undefined", "Try utf-8"),
        ("--delimiter", "é", "ASCII character"),
    ],
)
def test_odd_encodings_and_delimiters_are_wrong_usage(file, option, value, words):
    assert_refused(call("schema", file("a,b\n1,2\n"), option, value), words, 2)


# Streams and bugs.


@pytest.mark.parametrize(
    ("stream", "command", "words"),
    [
        ("stdout", ("sample", "-n", "2", "--quiet"), "standard output is closed"),
        ("stdout", ("info", "--json"), "standard output is closed"),
        ("stdout", ("info",), "standard output is closed"),
        ("stdin", ("impute", "-"), "standard input is closed"),
        ("stderr", ("info",), ""),
    ],
)
def test_closed_standard_streams_give_a_sentence(model, monkeypatch, stream, command, words):
    said = StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.setattr(sys, stream, None)  # as Python has it after `>&-`
    monkeypatch.setattr(sys, "argv", ["harpoon", command[0], str(model), *command[1:]])
    monkeypatch.setattr(signal, "signal", lambda *_handler: None)
    with pytest.raises(SystemExit) as ended:
        main()
    if stream == "stderr":
        sys.stderr.close()
    assert ended.value.code == (1 if words else 0)
    assert words in said.getvalue()
    assert said.getvalue().count("\n") == bool(words)


def test_a_closed_pipe_ends_every_command(monkeypatch):
    class Gone(StringIO):
        def write(self, _text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    for output in (console.Console(), console.Console(json=True)):
        with pytest.raises(BrokenPipeError):
            output.result({"a": 1}, "one")


def test_a_bug_is_shown_as_a_sentence(model, monkeypatch):
    def fail(*_arguments, **_options):
        raise ArithmeticError("seven")

    monkeypatch.setattr("harpoon.apps.cli.info.load_model", fail)
    assert_refused(call("info", model), "ArithmeticError: seven. This is a bug in Harpoon", 1)
    assert "Traceback" in call("info", model, "--debug").said


# Options.


def test_a_column_is_given_one_value(model):
    assert_refused(call("sample", model, "--given", "c=a", "--given", "c=b"), "two values for c", 2)
    assert_refused(call("check", model, "--where", "x > 0", "--given", "c=a", "--given", "c=a"), "two values for c", 2)


def test_messages_about_schemas_and_folders_have_no_python(model, file, tmp_path):
    table, out = file("a,b\n1,x\n2,y\n"), tmp_path / "m.harpoon"
    done = call("fit", table, "-o", out, "--schema", tmp_path / "nope")
    assert_refused(done, "nope' cannot be read: No such file", 1)
    assert "Path(" not in done.said
    schema = tmp_path / "schema.json"
    assert call("schema", table, "-o", schema, "-q").code == 0
    more, fewer = file("a,b,c\n1,x,2\n2,y,3\n", "more.csv"), file("a\n1\n2\n", "fewer.csv")
    assert_refused(call("fit", more, "-o", out, "--schema", schema), "'c', which the schema does not name", 1)
    assert_refused(call("fit", fewer, "-o", out, "--schema", schema), "The schema names the column 'b'", 1)
    assert_refused(call("info", tmp_path), "is a folder", 1)
    assert_refused(call("schema", model), "is a model, not a table. Name a table here", 1)


def test_options_without_effect_are_wrong_usage(model, file):
    table = file("x,flag,k,c\n,,,\n")
    assert_refused(call("impute", model, table, "--stack-draws"), "--draws", 2)
    for command in (("impute", model, table), ("sample", model, "-n", 2)):
        assert_refused(call(*command, "--workers", 2), "--workers is the number of workers of an engine", 2)
    assert_refused(call("report", table, table, "--rows", 5, "--json"), "--rows needs a model", 2)
    assert_refused(call("report", table, table, "--where", "k > 1", "--json"), "--where needs a model", 2)


def test_quiet_silences_messages_and_not_the_result(model, file):
    done = call("schema", file("a,b\n?,x\nNA,y\n"), "--quiet")
    assert done.said == ""
    assert b"category" in done.out
    assert json.loads(call("info", model, "--quiet", "--json").out)["columns"] == 4


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("evaluate", f"{DEFAULT_REPORT_ROWS:,} by default"),
        ("report", f"or {DEFAULT_REPORT_ROWS:,} without a table"),
        ("sample", "COLUMN=VALUE"),
        ("info", "errors and the result remain"),
    ],
)
def test_the_help_shows_defaults_and_forms(command, words):
    assert words in " ".join(call(command, "--help").out.decode().replace("│", " ").split())


@pytest.mark.parametrize(
    ("command", "names"), [("sample", STRATEGIES), ("fit", PRESETS), ("impute", ENGINES), ("impute", FORMATS)]
)
def test_the_help_names_every_choice(command, names):
    text = " ".join(call(command, "--help").out.decode().replace("│", " ").split())
    assert all(name in text for name in names)


@pytest.mark.parametrize(
    ("command", "option", "words"), [("sample", "--strategy", STRATEGIES), ("fit", "--preset", PRESETS)]
)
def test_the_shell_completes_what_python_takes(command, option, words):
    asked = {"_HARPOON_COMPLETE": "complete_bash", "COMP_WORDS": f"harpoon {command} {option} ", "COMP_CWORD": "3"}
    done = CliRunner().invoke(app, [], env=asked, prog_name="harpoon")
    assert sorted(done.stdout.split()) == sorted(words)
    assert options.complete_from("harpoon.config:PRESETS")("p") == ["paper"]


# Notes for newcomers.


def test_a_single_column_with_a_delimiter_in_its_name_is_noted(file):
    path = file("a,b\n1,2\n3,4\n")
    note = "Only one column was found, and its name holds ','; is that the delimiter?"
    assert note in call("schema", path, "--delimiter", ";").said
    assert call("schema", path).said == ""


def test_categories_that_look_like_missing_cells_are_noted_until_they_are_declared(file):
    path = file("work,job,n\n?,a, ?\nx,?,1\n?,b,2\n")
    done = call("schema", path)
    assert done.said == "Note: '?' in 'work', 'job', 'n' looks like a missing cell. If it is: --missing '?'\n"
    done = call("schema", path, "--missing", "?", "--json")
    assert "Note" not in done.said
    assert [column["kind"] for column in json.loads(done.out)["columns"]] == ["category", "category", "integer"]


def test_sampling_info_has_singular_and_plural():
    assert str(SamplingInfo("rejection", 1, 9, None, 0.0, 1, 9, 0.1)).startswith(
        "1 row, rejection: 9 sampled in 1 round,"
    )
    assert str(SamplingInfo("rejection", 2, 9, None, 0.0, 2, 9, 0.1)).startswith(
        "2 rows, rejection: 9 sampled in 2 rounds,"
    )
