"""Errors and warnings of the library in the words of the command line, and their exit codes."""

from __future__ import annotations

from harpoon._formatting import format_list
from harpoon.exceptions import HarpoonError, HarpoonWarning, InfeasibleCondition, InvalidCondition, InvalidOption

EXIT_CODES: dict[type, int] = {InfeasibleCondition: 3, InvalidCondition: 2, InvalidOption: 2}  # 1 for other errors
SENTENCES = {  # of the command line, by the code of an error or a warning; the fields are its facts
    "already_exists": "{what}. Choose another name, or replace it with --force.",
    "broken_rules": "{problem} (counted from 0). harpoon check lists all of them.",
    "checkpoint_not_model": "{path!r} is the checkpoint of a training, not a model. Resume the training with "
    "harpoon fit --checkpoint, which saves the model.",
    "invalid_cell": "{problem} Fix the cell, empty it, or declare it missing: --missing {value!r}.",
    "local_engine_workers": "The local engine is one process, not {workers}. Use --engine ray for more workers.",
    "model_instead_of_table": "{name} is a model, not a table. Name a table here; harpoon info describes a model, and "
    "harpoon sample writes rows of it.",
    "n_with_table": "-n must be left out if --given is a table: one row is sampled for each of its rows.",
    "option_of_text_files": "--{option} {problem}. Leave it out.",
    "needs_condition": "--strategy and --allow-fewer need a condition. Add --where, or leave them out.",
    "personal_columns": "Left out, because they look personal: {columns}. Model one all the same with --kind "
    "{example}=category.",
    "rows_dropped": "Only {complete} of {rows} rows are complete, and the model trains on those only. Train on all "
    "rows with --option incomplete_rows=mask.",
    "short_training": "The time limit stopped the training after epoch {epochs}, while the model was still "
    "improving. A longer --max-time gives a better model.",
    "shortfall_of_given_rows": "--allow-fewer is for -n rows; given rows are all completed, or none are.",
    "structural_missing": "Filled: {problem}. --option structural=keep leaves such cells missing.",
    "too_few_complete_rows": "The model trains on complete rows only, and the table has {complete} of them; it needs "
    "at least {required}. Train on all rows with --option incomplete_rows=mask.",
    "targets_missed": "{problem}, or take the nearest with --allow-fewer.",
    "too_few_rows_found": "{problem} Relax it, or take these rows with --allow-fewer.",
    "unknown_encoding": "{name} is neither {tried} text nor a Parquet, Arrow or gzip file. If it is text in another "
    "encoding, give it as --encoding latin-1; otherwise save the table as CSV or Parquet.",
    "unknown_format": "The name {name!r} does not tell the format of the table. End it with one of {suffixes} (and "
    ".gz), or give --format.",
}
SAME_SENTENCE = (
    "checkpoint_mismatch",
    "extrapolation",
    "mixed_offsets",
    "mixed_types",
    "no_overlap",
    "option_out_of_range",
    "option_without_effect",
    "too_few_rows",
)


def sentence(error: Exception) -> str:
    """Return the sentence of the command line for an error or a warning."""
    if isinstance(error, HarpoonError | HarpoonWarning):
        facts = {name: format_list(fact) if isinstance(fact, list) else fact for name, fact in error.facts.items()}
        return SENTENCES[error.code].format(**facts) if error.code in SENTENCES else str(error)
    if isinstance(error, OSError):
        return f"{error.strerror or error}{'' if error.filename is None else f': {error.filename}'}"
    if isinstance(error, MemoryError):
        return "There is not enough memory. Use a smaller --block-size, or fewer rows."
    return f"{type(error).__name__}: {error}. This is a bug in Harpoon; run it again with --debug and report it."
