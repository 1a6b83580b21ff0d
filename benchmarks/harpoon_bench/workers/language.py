"""GReaT of the package be-great: rows as sentences, learnt by a language model."""

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
from job import Job, work
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, TrainerCallback
from transformers.trainer import DEFAULT_CALLBACKS

END = "<|endoftext|>"
WORDS = 2000
SMALL = {"n_layer": 3, "n_head": 4, "n_embd": 96, "n_positions": 1024}
SMALL_TRAINING = {"learning_rate": 1e-3, "batch_size": 32}
ATTEMPTS = 5
PATIENCE = 5.0
LONGEST_NUMBER = 24
LOOKED_AT = 1000
ROUNDS_OF_DRAWING = 20
SLACK = 1.5


class StopInTime(TrainerCallback):
    """Ends the training when its seconds are over."""

    def __init__(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds

    def on_step_end(self, _args: Any, _state: Any, control: Any, **_: Any) -> Any:
        """Asked by the trainer after every step."""
        control.should_training_stop |= time.monotonic() > self.deadline
        return control


def do(job: Job) -> None:
    """One of three tasks; the first leaves its model for the others."""
    seed = job.settings["seed"]
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    hub.HF_HUB_OFFLINE = hub.HF_HUB_OFFLINE or not reachable(hub.ENDPOINT)
    {"fit": fit, "impute": impute, "sample": sample}[job.settings["task"]](job)


def reachable(address: str) -> bool:
    """Whether anything answers: the hub's own client would try for a minute."""
    try:
        urlopen(Request(address, method="HEAD"), timeout=PATIENCE).close()  # noqa: S310 - an address of the package's own
    except HTTPError:
        return True
    except OSError:
        return False
    return True


def fit(job: Job) -> None:
    """Train, until the epochs or the seconds are over."""
    state = job.folder / "state"
    state.mkdir()
    options, rows = job.settings["options"], in_words(job, job.table("train").dropna())
    seconds = job.settings["seconds"]
    model, note = pretrained_or_small(options, rows, state)
    if seconds is not None:
        DEFAULT_CALLBACKS.append(StopInTime(seconds))
    trainer = model.fit(rows)
    model.tokens_per_cell = tokens_per_cell(model, rows)
    model.conditional_col_dist = None  # cannot always be saved, and rows are begun from the training table
    model.save(str(state / "model"))
    epochs = trainer.state.epoch or 0
    job.remark(f"{note}; {epochs:.1f} of {options['epochs']} epochs")


def pretrained_or_small(options: dict[str, Any], rows: pd.DataFrame, state: Path) -> tuple[GReaT, str]:
    """A pretrained model where one can be reached, otherwise a small one that starts from nothing."""
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
        start_small(rows, state / "small")
        model = GReaT(str(state / "small"), **settings, **SMALL_TRAINING)
        size = sum(p.numel() for p in model.model.parameters()) / 1e6
        return model, (
            f"no pretrained model could be reached: a GPT-2 configuration of {size:.1f} million weights from scratch, "
            "with a tokenizer trained on the table"
        )


def start_small(rows: pd.DataFrame, folder: Path) -> None:
    """An untrained GPT-2 of a few layers, and a tokenizer that knows the words of the table and single digits."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=WORDS, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(_partial_df_to_prompts(rows), trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, bos_token=END, pad_token=END).save_pretrained(
        folder
    )
    config = GPT2Config(vocab_size=tokenizer.get_vocab_size(), bos_token_id=0, eos_token_id=0, **SMALL)
    GPT2LMHeadModel(config).save_pretrained(folder)


def impute(job: Job) -> None:
    """Sentences are begun with what is known and written to the end, with five more tries for what stays open."""
    model, holes, k = reload(job), job.table("holes"), job.settings["options"]["k"]
    filled = holes.copy()
    for _ in range(1 + ATTEMPTS):
        # Rows with as many holes take as many tokens, so they go together.
        gaps = filled.isna().sum(axis=1).sort_values(kind="stable")
        gaps = gaps[gaps > 0]
        for start in range(0, len(gaps), k):
            some = gaps.index[start : start + k]
            prompts = _partial_df_to_prompts(in_words(job, filled.loc[some]), model.float_precision)
            answers = written(job, model, prompts, cells=gaps[some].max()).set_index(some)
            filled.loc[some] = filled.loc[some].fillna(answers)
    share = filled.isna().sum().sum() / max(holes.isna().sum().sum(), 1)
    give_up(job, filled)
    job.answer(filled, f"{share:.1%} of the cells were not written in {1 + ATTEMPTS} tries: mean, or a label at random")


def give_up(job: Job, table: pd.DataFrame) -> None:
    """What is still open gets the mean of its column, or a label at random, as in the paper."""
    train = job.table("train")
    for name in table:
        gaps = table[name].isna()
        seen = train[name].dropna()
        table.loc[gaps, name] = np.random.choice(seen, gaps.sum()) if name in job.discrete else seen.mean()


def sample(job: Job) -> None:
    """Rows from the start, until there are enough in which every cell can be read."""
    model, wanted = reload(job), job.settings["rows"]
    k, first = job.settings["options"]["k"], model.conditional_col
    starts = in_words(job, job.table("train"))[first].dropna()
    kept = pd.DataFrame(columns=model.columns, dtype="float64")
    for _ in range(ROUNDS_OF_DRAWING * -(-wanted // k)):
        prompts = [f"{first} is {value}," for value in starts.sample(k, replace=True)]
        rows = written(job, model, prompts, cells=len(model.columns)).dropna()
        kept = pd.concat([kept, rows], ignore_index=True)
        if len(kept) >= wanted:
            return job.answer(kept.head(wanted))
    raise RuntimeError(f"GReaT wrote {len(kept)} readable rows of {wanted}; it needs a longer training.")


def written(job: Job, model: GReaT, prompts: list[str], *, cells: int) -> pd.DataFrame:
    """What the model writes after the beginnings of rows, read back; what cannot be read is a hole."""
    more = int(SLACK * cells * model.tokens_per_cell)
    room = model.model.config.max_position_embeddings - more
    tokens = model.tokenizer(prompts, return_tensors="pt", padding=True, truncation=True, max_length=room)
    made = model.model.generate(
        input_ids=tokens["input_ids"],
        attention_mask=tokens["attention_mask"],
        max_new_tokens=more,
        do_sample=True,
        temperature=job.settings["options"]["temperature"],
        pad_token_id=model.tokenizer.pad_token_id,
    )
    texts = model.tokenizer.batch_decode(made, skip_special_tokens=True)
    return in_numbers(job, _convert_text_to_tabular_data(texts, model.columns))


def reload(job: Job) -> GReaT:
    """The model that `fit` left."""
    model = GReaT.load_from_dir(str(job.folder / "state" / "model"))
    model.model.eval()
    model.tokenizer.truncation_side = "left"  # the end of a prompt says which cell comes next
    return model


def tokens_per_cell(model: GReaT, rows: pd.DataFrame) -> float:
    """Of the longest row; sentences do not end by themselves."""
    texts = _partial_df_to_prompts(rows.head(LOOKED_AT), model.float_precision)
    return max(len(ids) for ids in model.tokenizer(texts)["input_ids"]) / rows.shape[1]


def in_words(job: Job, numbers: pd.DataFrame) -> pd.DataFrame:
    """Labels as their text, whole numbers without a point."""
    table = numbers.astype(object)
    for column in job.columns:
        values = numbers[column["name"]]
        if column["name"] in job.discrete:
            words = values.map(dict(enumerate(map(str, column["labels"]))))
        elif column["kind"] == "integer":
            words = pd.Series([whole(value) for value in values], values.index, dtype=object)
        else:
            words = values
        table[column["name"]] = words
    return table


def whole(value: float) -> float:
    """A whole number as an integer; what the model wrote need not be one."""
    return int(value) if value.is_integer() else value


def in_numbers(job: Job, words: pd.DataFrame) -> pd.DataFrame:
    """Back from words: positions of labels, finite numbers, and holes for the rest."""
    numbers = {}
    for column in job.columns:
        texts = words[column["name"]].astype(object)
        if column["name"] in job.discrete:
            numbers[column["name"]] = texts.map({str(label): i for i, label in enumerate(column["labels"])})
        else:
            read = pd.to_numeric(texts.where(texts.str.len() <= LONGEST_NUMBER), errors="coerce")
            believed = read.between(column["minimum"], column["maximum"]) | (not job.settings["options"]["within"])
            numbers[column["name"]] = read.where(believed)
    return pd.DataFrame(numbers, dtype="float64").replace([np.inf, -np.inf], np.nan)


if __name__ == "__main__":
    work(do)
