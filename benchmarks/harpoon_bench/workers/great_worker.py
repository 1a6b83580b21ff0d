"""GReaT of the package be-great: a language model of rows that are written as sentences."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pandas as pd
import torch
from be_great import GReaT
from be_great.great_utils import _convert_text_to_tabular_data, _partial_df_to_prompts
from huggingface_hub import constants as hub
from job import Job, run
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, TrainerCallback
from transformers.trainer import DEFAULT_CALLBACKS

END = "<|endoftext|>"
VOCABULARY_SIZE = 2000
SMALL_MODEL = {"n_layer": 3, "n_head": 4, "n_embd": 96, "n_positions": 1024}
SMALL_TRAINING = {"learning_rate": 1e-3, "batch_size": 32}
RETRIES = 5
CONNECTION_TIMEOUT_SECONDS = 5.0
MAX_NUMBER_LENGTH = 24
TOKEN_COUNT_ROWS = 1000
MAX_SAMPLING_ROUNDS = 20
TOKEN_MARGIN = 1.5


class StopInTime(TrainerCallback):
    """Stops the training at its time limit."""

    def __init__(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds

    def on_step_end(self, _args: Any, _state: Any, control: Any, **_: Any) -> Any:
        """Called by the trainer after each step."""
        control.should_training_stop |= time.monotonic() > self.deadline
        return control


def do_task(job: Job) -> None:
    """Fit, impute or sample; `fit` saves the model for the others."""
    seed = job.settings["seed"]
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    hub.HF_HUB_OFFLINE = hub.HF_HUB_OFFLINE or not reachable(hub.ENDPOINT)
    {"fit": fit, "impute": impute, "sample": sample}[job.settings["task"]](job)


def reachable(address: str) -> bool:
    """Return whether the address responds; the client of the hub would retry for a minute."""
    try:
        urlopen(Request(address, method="HEAD"), timeout=CONNECTION_TIMEOUT_SECONDS).close()  # noqa: S310 - an address of the package
    except HTTPError:
        return True
    except OSError:
        return False
    return True


def fit(job: Job) -> None:
    """Train until the epochs or the seconds are spent."""
    state = job.folder / "state"
    state.mkdir()
    options, rows = job.settings["options"], to_words(job, job.table("train").dropna())
    seconds = job.settings["seconds"]
    model, note = pretrained_or_small(options, rows, state)
    if seconds is not None:
        DEFAULT_CALLBACKS.append(StopInTime(seconds))
    trainer = model.fit(rows)
    model.tokens_per_cell = tokens_per_cell(model, rows)
    model.conditional_col_dist = None  # cannot always be saved; prompts come from the training table
    model.save(str(state / "model"))
    epochs = trainer.state.epoch or 0
    job.write_note(f"{note}; {epochs:.1f} of {options['epochs']} epochs")


def pretrained_or_small(options: dict[str, Any], rows: pd.DataFrame, state: Path) -> tuple[GReaT, str]:
    """Return a pretrained model if one is available, otherwise a small untrained one, and a note."""
    settings = {
        "experiment_dir": str(state / "training"),
        "epochs": options["epochs"],
        "float_precision": options["float_precision"],
        "save_strategy": "no",
        "logging_strategy": "no",
    }
    try:
        return GReaT(options["llm"], batch_size=options["batch_size"], **settings), f"pretrained {options['llm']}"
    except OSError:
        save_small_model(rows, state / "small")
        model = GReaT(str(state / "small"), **settings, **SMALL_TRAINING)
        size = sum(p.numel() for p in model.model.parameters()) / 1e6
        return model, (
            f"no pretrained model was available: a GPT-2 configuration of {size:.1f} million weights trained from "
            "scratch, with a tokenizer trained on the table"
        )


def save_small_model(rows: pd.DataFrame, folder: Path) -> None:
    """Save an untrained GPT-2 of a few layers, and a tokenizer of the words of the table and single digits."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(_partial_df_to_prompts(rows), trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, bos_token=END, pad_token=END).save_pretrained(
        folder
    )
    config = GPT2Config(vocab_size=tokenizer.get_vocab_size(), bos_token_id=0, eos_token_id=0, **SMALL_MODEL)
    GPT2LMHeadModel(config).save_pretrained(folder)


def impute(job: Job) -> None:
    """Generate the missing cells after a prompt of the observed ones; retry cells that cannot be parsed."""
    model, incomplete, k = load_model(job), job.table("incomplete"), job.settings["options"]["k"]
    imputed = incomplete.copy()
    for _ in range(1 + RETRIES):
        # Rows with equally many missing cells need equally many tokens.
        gaps = imputed.isna().sum(axis=1).sort_values(kind="stable")
        gaps = gaps[gaps > 0]
        for start in range(0, len(gaps), k):
            batch = gaps.index[start : start + k]
            prompts = _partial_df_to_prompts(to_words(job, imputed.loc[batch]), model.float_precision)
            generated = generate(job, model, prompts, cells=gaps[batch].max()).set_index(batch)
            imputed.loc[batch] = imputed.loc[batch].fillna(generated)
    percent = 100 * imputed.isna().sum().sum() / max(incomplete.isna().sum().sum(), 1)
    fill_rest(job, imputed)
    job.write_result(
        imputed,
        f"{percent:.1f} % of the cells were not generated in {1 + RETRIES} attempts and got the mean or a random "
        "category",
    )


def fill_rest(job: Job, table: pd.DataFrame) -> None:
    """Fill the remaining cells with the mean or a random category, as in the paper."""
    train = job.table("train")
    for name in table:
        gaps = table[name].isna()
        observed = train[name].dropna()
        table.loc[gaps, name] = np.random.choice(observed, gaps.sum()) if name in job.discrete else observed.mean()


def sample(job: Job) -> None:
    """Generate rows until there are enough in which every cell can be parsed."""
    model, wanted = load_model(job), job.settings["rows"]
    k, first = job.settings["options"]["k"], model.conditional_col
    starts = to_words(job, job.table("train"))[first].dropna()
    kept = pd.DataFrame(columns=model.columns, dtype="float64")
    for _ in range(MAX_SAMPLING_ROUNDS * -(-wanted // k)):
        prompts = [f"{first} is {value}," for value in starts.sample(k, replace=True)]
        rows = generate(job, model, prompts, cells=len(model.columns)).dropna()
        kept = pd.concat([kept, rows], ignore_index=True)
        if len(kept) >= wanted:
            return job.write_result(kept.head(wanted))
    raise RuntimeError(f"GReaT generated {len(kept)} valid rows of {wanted}; train it longer.")


def generate(job: Job, model: GReaT, prompts: list[str], *, cells: int) -> pd.DataFrame:
    """Complete the prompts and parse the text; cells that cannot be parsed are missing."""
    new_tokens = int(TOKEN_MARGIN * cells * model.tokens_per_cell)
    max_length = model.model.config.max_position_embeddings - new_tokens
    tokens = model.tokenizer(prompts, return_tensors="pt", padding=True, truncation=True, max_length=max_length)
    output = model.model.generate(
        input_ids=tokens["input_ids"],
        attention_mask=tokens["attention_mask"],
        max_new_tokens=new_tokens,
        do_sample=True,
        temperature=job.settings["options"]["temperature"],
        pad_token_id=model.tokenizer.pad_token_id,
    )
    texts = model.tokenizer.batch_decode(output, skip_special_tokens=True)
    return to_numbers(job, _convert_text_to_tabular_data(texts, model.columns))


def load_model(job: Job) -> GReaT:
    """Load the model that `fit` saved."""
    model = GReaT.load_from_dir(str(job.folder / "state" / "model"))
    model.model.eval()
    model.tokenizer.truncation_side = "left"  # keep the end of a prompt, which names the next cell
    return model


def tokens_per_cell(model: GReaT, rows: pd.DataFrame) -> float:
    """Return the tokens per cell of the longest row; the model does not end sentences itself."""
    texts = _partial_df_to_prompts(rows.head(TOKEN_COUNT_ROWS), model.float_precision)
    return max(len(ids) for ids in model.tokenizer(texts)["input_ids"]) / rows.shape[1]


def to_words(job: Job, numbers: pd.DataFrame) -> pd.DataFrame:
    """Return the table with categories as text and integers without a decimal point."""
    table = numbers.astype(object)
    for column in job.columns:
        values = numbers[column["name"]]
        if column["name"] in job.discrete:
            words = values.map(dict(enumerate(map(str, column["categories"]))))
        elif column["kind"] == "integer":
            words = pd.Series([to_integer(value) for value in values], values.index, dtype=object)
        else:
            words = values
        table[column["name"]] = words
    return table


def to_integer(value: float) -> float:
    """Return the value as an int if it is integral; generated values need not be."""
    return int(value) if value.is_integer() else value


def to_numbers(job: Job, words: pd.DataFrame) -> pd.DataFrame:
    """Invert `to_words`: indices of categories and finite numbers; everything else is missing."""
    numbers = {}
    for column in job.columns:
        texts = words[column["name"]].astype(object)
        if column["name"] in job.discrete:
            numbers[column["name"]] = texts.map({str(category): i for i, category in enumerate(column["categories"])})
        else:
            parsed = pd.to_numeric(texts.where(texts.str.len() <= MAX_NUMBER_LENGTH), errors="coerce")
            if job.settings["options"]["reject_out_of_range"]:
                parsed = parsed.where(parsed.between(column["minimum"], column["maximum"]))
            numbers[column["name"]] = parsed
    return pd.DataFrame(numbers, dtype="float64").replace([np.inf, -np.inf], np.nan)


if __name__ == "__main__":
    run(do_task)
