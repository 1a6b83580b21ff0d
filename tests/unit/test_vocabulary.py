"""One vocabulary: names and words of the first version of the package do not come back.

Each rule is a pattern and the files in which it must not occur. `ALLOWED` lists the exceptions, with a reason.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ("src/**/*.py",)
PROSE = ("src/**/*.py", "docs/*.md", "README.md", "CONTRIBUTING.md")
EVERYWHERE = (*PROSE, "docs/*.py", "tests/**/*.py")

OLD_MODULES = (
    "abreast|anchored|arguments|arrow|binding|bound|branches|canvas|cells|checkpoints|codec|completing|conditional|"
    "conforming|copies|demo|drawing|encodings|errors|exact|expecting|feasibility|files|forms|frames|geometry|guidance|"
    "imputation|inference\\.inferred|intervals|keeping|kinds|laws|learning|marginals|masks|model|network|objectives|"
    "optimising|pairs|panels|parsing|penalties|places|pointers|presets|products|progress|pulling|quantities|questions|"
    "readings|reporting|reports|sampling|scaling|schedule|schema|searching|selection|simplexes|spelling|storage|tables|"
    "tallies|teams|turns|units|violations|ways|serve|cli|bench"
)
OLD_CLASSES = (
    "RankLaws|SpikeCodec|GroupedCodec|NumberCodec|IntegerCodec|AtNoise|AnchoredAtNoise|Puller|Drawer|Tally|Tallies|"
    "Spanned|Learner|Lesson|Turns|Simplexes|DrawingOptions|LabelsGrouped|LabelsGroupedWarning|UnseenCategory|"
    "UnseenCategoryWarning|ColumnLeftOut|RowsDropped|TooFewDraws|Doorkeeper|HeldBytes"
)
OLD_DEFINITIONS = {
    *("Cells", "Template", "Counted", "Standard", "Quantile", "Ranks", "Shape", "Given", "Estimator"),
    *("Corruption", "Sight", "Laws", "Reading", "Peaks", "Looked", "Copies", "Copied", "Pointers", "Pointed", "Form"),
    *("Forms", "Said", "Recipe", "Evidence", "Logs", "Places", "Filled", "Conditional", "Way", "Selection"),
    *("Twist", "Completion", "Question", "Violation", "Weights", "Report", "Plan", "Alone", "Together", "Settings"),
    *(
        "Quantity",
        "Place",
        "Loose",
        "Held",
        "Filling",
        "Filler",
        "Shards",
        "Door",
        "Scales",
        "Patient",
        "Desk",
        "Watch",
    ),
    *("Fault", "Talk", "Level", "Parts", "Phrase", "Alike"),
    *("taken", "joined", "laid_over", "written_into", "conform", "as_labels", "unseen_labels", "tallied", "merged"),
    *("spanned", "slot_ends", "snapped", "carried", "sees_known", "knowing", "learn_moments", "inner_matrices"),
    *("looked", "told_by", "settled", "binned", "numbered", "moved", "refreshed", "anyhow", "pulled"),
    *("harder", "survivors", "looked_ahead", "obstacles", "of_complete", "described", "in_words", "drawn", "evaluated"),
    *("compared", "quoted", "shortened", "listed", "rendered", "opened", "written", "chosen", "said", "told"),
}
OLD_OPTIONS = (
    "noise_scale|longest_pull|keep_best|largest_gradient|steps_per_report|strength_schedule|bound_weight|bound_power|"
    "all_unknown|at_noise"
)

NAMES = {
    "old modules": (rf"\bharpoon\.({OLD_MODULES})\b(?!\.load)|\bfrom harpoon import ({OLD_MODULES})\b", EVERYWHERE),
    "old classes": (rf"\b({OLD_CLASSES})\b", EVERYWHERE),
    "old options": (rf"\b({OLD_OPTIONS})\b", EVERYWHERE),
    "old options as keywords": (
        r"\b(held_out|cool_down|optimiser|strength|incomplete|first_row|turns|slots(?!=True)|start_noise)=(?!=)",
        EVERYWHERE,
    ),
    "old options in quotes": (
        r"[\"'](held_out|cool_down|optimiser|strength|first_row|turns|slots|spiked)[\"']",
        EVERYWHERE,
    ),
    "old strategies": (r"strategy\W{1,6}[\"'](kept|known|guided|plain|completed)[\"']", EVERYWHERE),
    "a loss as text": (r"\bloss=[\"']m[as]e", EVERYWHERE),
    "decode=": (r"\bdecode=(True|False)\b", EVERYWHERE),
    "engine= of fit": (r"\.fit\([^)\n]*\bengine=", EVERYWHERE),
    "old attributes": (r"\.(settings_|report_)\b|\bmodel\.settings\b", EVERYWHERE),
    "old flags": (r"(?<![\w-])--(fewer|batch|stacked)(?![\w-])", EVERYWHERE),
}
WORDS = {
    word: (rf"\b({pattern})\b", PROSE)
    for word, pattern in {
        "law": "laws?",
        "turns": "turns",
        "told": "told",
        "said": "said",
        "looked": "looked",
        "pull": "pull(s|ed)?",
        "slot": "slots?",
        "hole": "holes?",
        "wholly": "wholly",
        "by heart": "by heart",
        "whatever": "whatever",
        "whole number": "whole numbers?",
        "at the most": "at the (most|least)",
        "put right": "put right|mend(ed|s)?",
        "plain rows": "plain rows",
    }.items()
}
ALLOWED = {
    ("docs/how-it-works.md", "turns"): "guidance turns terms into a penalty",
    ("src/harpoon/conditions/language/expressions.py", "turns"): "the parser turns text into a tree",
}


@cache
def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def files(patterns: tuple[str, ...]) -> list[Path]:
    return [path for pattern in patterns for path in sorted(ROOT.glob(pattern)) if path != Path(__file__)]


def offenders(rule: str, pattern: str, patterns: tuple[str, ...], *, ignore_case: bool = False) -> list[str]:
    """Return the places where a pattern occurs, as "file:line: text"."""
    search = re.compile(pattern, re.IGNORECASE if ignore_case else 0).search
    found = []
    for path in files(patterns):
        name = path.relative_to(ROOT).as_posix()
        if (name, rule) not in ALLOWED:
            found += [f"{name}:{n}: {line.strip()[:120]}" for n, line in enumerate(lines(path), 1) if search(line)]
    return found


@pytest.mark.parametrize("rule", NAMES)
def test_no_old_name_is_used(rule):
    found = offenders(rule, *NAMES[rule])
    assert not found, "\n".join([f"{len(found)} uses of {rule}:", *found])


@pytest.mark.parametrize("rule", WORDS)
def test_no_word_of_the_old_dialect_is_used(rule):
    found = offenders(rule, *WORDS[rule], ignore_case=True)
    assert not found, "\n".join([f"{len(found)} uses of the word {rule!r}:", *found])


def test_no_old_name_is_defined():
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{node.lineno}: {node.name}"
        for path in files(SOURCE)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name.lstrip("_") in OLD_DEFINITIONS
    ]
    assert not found, "\n".join([f"{len(found)} definitions with an old name:", *found])


@pytest.mark.parametrize(("name", "rule"), ALLOWED)
def test_every_exception_is_needed(name, rule):
    pattern, _ = {**NAMES, **WORDS}[rule]
    assert any(re.search(pattern, line, re.IGNORECASE) for line in lines(ROOT / name))
