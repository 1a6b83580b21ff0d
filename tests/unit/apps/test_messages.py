"""Messages in the language of their layer: the library has codes, each front end has sentences for them."""

import ast
import re
from functools import cache
from pathlib import Path
from string import Formatter

import pytest

from harpoon import exceptions
from harpoon.apps.cli import errors as cli_errors
from harpoon.apps.server import errors

PACKAGE = Path(exceptions.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
LIBRARY = [path for path in MODULES if "apps" not in path.relative_to(PACKAGE).parts]
FRONT_ENDS = [path for path in MODULES if "apps" in path.relative_to(PACKAGE).parts]
RAISED = {name for name in dir(exceptions) if isinstance(getattr(exceptions, name), type)}


@cache
def nodes(path):
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def calls(path):
    return [node for node in nodes(path) if isinstance(node, ast.Call)]


def functions(path):
    return [node for node in nodes(path) if isinstance(node, ast.FunctionDef)]


@cache
def raised_with_code():
    """The code and the names of the facts of every error that is made in the library."""
    return list(_raised_with_code())


def _raised_with_code():
    for path in LIBRARY:
        for call in calls(path):
            keywords = {keyword.arg: keyword.value for keyword in call.keywords}
            if isinstance(keywords.get("code"), ast.Constant) and keywords["code"].value:
                yield keywords["code"].value, keywords.keys() - {"code"}
        for function in functions(path):  # one that makes an error with a code by default
            for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
                if argument.arg == "code" and isinstance(default, ast.Constant) and default.value:
                    yield default.value, {argument.arg for argument in function.args.args}


def texts(node):
    return [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def fields(sentence):
    return {re.split(r"[.!:\[]", name)[0] for _, name, _, _ in Formatter().parse(sentence) if name}


def test_every_code_of_the_library_is_declared_and_every_declared_code_is_used():
    assert {code for code, _ in raised_with_code()} == set(exceptions.CODES)
    assert list(exceptions.CODES) == sorted(set(exceptions.CODES))


@pytest.mark.parametrize("sentences", [cli_errors.SENTENCES, errors.SENTENCES], ids=["command line", "service"])
def test_sentences_of_a_front_end_are_made_from_the_facts_of_a_known_code(sentences):
    for code, names in raised_with_code():
        assert fields(sentences.get(code, "")) <= names
    assert set(sentences) <= set(exceptions.CODES)
    assert all(sentence.endswith(".") for sentence in sentences.values())


def test_the_command_line_has_a_sentence_for_every_code_or_keeps_that_of_the_library_on_purpose():
    codes = [*cli_errors.SENTENCES, *cli_errors.SAME_SENTENCE]
    assert sorted(codes) == sorted({code for code, _ in raised_with_code()})


@pytest.mark.parametrize("path", FRONT_ENDS, ids=lambda path: path.stem)
def test_no_front_end_rewrites_a_message(path):
    rewriting = [call for call in calls(path) if getattr(call.func, "attr", "") in ("replace", "sub", "translate")]
    assert not [call for call in rewriting if re.search("error|message|sentence", ast.unparse(call))]
    if path in (Path(cli_errors.__file__), Path(errors.__file__)):  # where errors become text
        assert rewriting == []


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.stem)
def test_no_sentence_of_the_library_names_a_flag(path):
    for call in calls(path):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        owner = getattr(call.func.value, "id", "") if isinstance(call.func, ast.Attribute) else ""
        if {name, owner} & RAISED or name == "warn":
            assert not [text for text in texts(call) if re.search(r"(^|\W)--[a-z]", text)]


def test_errors_without_a_sentence_of_the_front_end_keep_their_own():
    error = exceptions.InvalidOption("hidden must be even, got 3.")
    assert cli_errors.sentence(error) == "hidden must be even, got 3."
    assert errors.sentence(error) == "hidden must be even, got 3."


def test_each_front_end_has_its_own_words_for_the_same_error():
    error = exceptions.InfeasibleCondition(
        'None. Use on_shortfall="return".', code="too_few_rows_found", problem="Only 3 of 9 rows were found."
    )
    assert cli_errors.sentence(error).endswith("with --allow-fewer.")
    assert errors.sentence(error).endswith('with "allow_fewer": true.')
