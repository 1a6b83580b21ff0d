"""Errors and warnings: the tree, codes and facts, messages, pickling."""

import inspect
import pickle
import types

import pytest

from harpoon import exceptions
from harpoon.exceptions import (
    HarpoonError,
    HarpoonWarning,
    InvalidOption,
    MissingExtra,
    SchemaMismatch,
    TableFileError,
    warn,
)

CLASSES = [c for _, c in inspect.getmembers(exceptions, inspect.isclass) if c.__module__ == exceptions.__name__]
BASES = {
    "InvalidTable": ValueError,
    "SchemaMismatch": ValueError,
    "InvalidOption": ValueError,
    "InvalidCondition": ValueError,
    "InfeasibleCondition": ValueError,
    "NotFitted": AttributeError,
    "TrainingFailed": RuntimeError,
    "SamplingFailed": RuntimeError,
    "ModelFileError": OSError,
    "TableFileError": OSError,
    "RuleFileError": OSError,
    "MissingExtra": ImportError,
}


def test_the_module_docstring_lists_every_class():
    words = set(exceptions.__doc__.split())
    assert {c.__name__ for c in CLASSES} <= words


@pytest.mark.parametrize("error", CLASSES)
def test_errors_derive_from_a_builtin_and_warnings_are_called_so(error):
    if issubclass(error, HarpoonWarning):
        assert error.__name__.endswith("Warning")
    elif error is not HarpoonError:
        assert issubclass(error, HarpoonError)
        assert issubclass(error, BASES[error.__name__])
        with pytest.raises(BASES[error.__name__]):
            raise error("a message", code="too_few_rows", rows=3)


@pytest.mark.parametrize("error", CLASSES)
def test_message_code_and_facts_survive_pickling(error):
    before = error("a message", code="too_few_rows", rows=3)
    after = pickle.loads(pickle.dumps(before))  # noqa: S301
    assert type(after) is error
    assert (str(after), after.code, after.facts) == ("a message", "too_few_rows", {"rows": 3})


@pytest.mark.parametrize("error", CLASSES)
def test_code_and_facts_are_optional(error):
    assert (str(error("a message")), error("a message").code, error("a message").facts) == ("a message", "", {})


def test_codes_are_sorted_and_unique():
    assert list(exceptions.CODES) == sorted(set(exceptions.CODES))


def test_missing_and_extra_columns_suggest_close_names():
    missing = str(SchemaMismatch.missing_columns(["age"], ["Age", "job"]))
    assert "the column 'age', which the table does not have (it has 'Age', 'job')" in missing
    assert "Did you mean 'Age' for 'age'?" in missing
    extra = str(SchemaMismatch.extra_columns(["agee", "zzz"], ["age"], of="schema"))
    assert "the columns 'agee', 'zzz', which the schema does not name (it has 'age')" in extra
    assert "'agee' (did you mean 'age'?)" in extra


def test_an_invalid_choice_lists_the_valid_ones():
    error = InvalidOption.one_of("solver", "dpm", ["ddpm", "ddim"])
    assert str(error) == "solver must be one of 'ddim', 'ddpm', got 'dpm'. Did you mean 'ddpm'?"


def test_file_errors_give_the_reason():
    assert (
        str(TableFileError.unreadable("'a.csv'", OSError(2, "No such file"))) == "'a.csv' cannot be read: No such file."
    )
    assert str(TableFileError.unwritable("'a.db'", ValueError("locked.\nby x"))) == "'a.db' cannot be written: locked."
    error = TableFileError.already_exists("'a.csv' is already there")
    assert "force=True" in str(error)
    assert (error.code, error.facts) == ("already_exists", {"what": "'a.csv' is already there"})


def test_a_missing_extra_names_the_command():
    assert 'pip install -c constraints.txt ".[plots]"' in str(
        MissingExtra.for_package("matplotlib", "plots", "Plotting")
    )


def test_a_warning_points_at_the_line_outside_of_the_package_and_torch():
    inner = types.FunctionType(compile("warn(warning)", "inner.py", "exec"), {"__name__": "harpoon.data.reader"})
    outer = types.FunctionType(compile("inner()", "outer.py", "exec"), {"__name__": "torch.utils", "inner": inner})
    inner.__globals__.update(warn=warn, warning=HarpoonWarning("a message", code="too_few_rows"))
    with pytest.warns(HarpoonWarning, match="a message") as caught:
        outer()
    assert caught[0].filename == __file__
    assert caught[0].message.code == "too_few_rows"
