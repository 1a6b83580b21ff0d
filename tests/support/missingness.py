"""A table whose distribution of values and of missing cells is known in closed form.

Three independent pairs of columns:

    visits, score   structural: score is missing exactly where visits = 0
    side, level     missing at random: level is missing more often on one side
    group, answer   group is missing completely at random; answer is missing by the group, also where that is missing
"""

import itertools

import numpy as np
import pandas as pd

VISITS = {0: 0.3, 1: 0.5, 2: 0.2}
SIDES = {"left": 0.5, "right": 0.5}
LEVEL_MEAN = {"left": 0.0, "right": 3.0}
LEVEL_MISSING = {"left": 0.1, "right": 0.6}
GROUPS = {"x": 0.6, "y": 0.4}
GROUP_MISSING = 0.25
YES = {"x": 0.8, "y": 0.3}  # P(answer = yes | group)
ANSWER_MISSING = {"x": 0.1, "y": 0.7}
NULL = None


def table(n: int, seed: int) -> pd.DataFrame:
    """Return rows with missing cells. The mean of score is 10 times visits, and its standard deviation is 2."""
    rng = np.random.default_rng(seed)
    visits = rng.choice(list(VISITS), n, p=list(VISITS.values()))
    side = rng.choice(list(SIDES), n, p=list(SIDES.values()))
    group = rng.choice(list(GROUPS), n, p=list(GROUPS.values()))
    score = rng.normal(10.0 * visits, 2.0)
    level = rng.normal(by(LEVEL_MEAN, side), 1.0)
    answer = np.where(rng.random(n) < by(YES, group), "yes", "no")
    score[visits == 0] = np.nan
    level[rng.random(n) < by(LEVEL_MISSING, side)] = np.nan
    answer = np.where(rng.random(n) < by(ANSWER_MISSING, group), NULL, answer)
    group = np.where(rng.random(n) < GROUP_MISSING, NULL, group)
    columns = {"visits": visits, "score": score, "side": side, "level": level, "group": group, "answer": answer}
    return pd.DataFrame(columns)


def by(values: dict[str, float], keys: np.ndarray) -> np.ndarray:
    return np.array([values[key] for key in keys])


def states(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the categories of rows; a number that may be missing is only whether it is."""
    found = pd.DataFrame({name: rows[name].astype(object) for name in ("visits", "side", "group", "answer")})
    found = found.where(found.notna(), NULL)
    found["score"], found["level"] = rows["score"].isna(), rows["level"].isna()
    return found


def pair_probabilities() -> dict[tuple[str, str], dict[tuple[object, object], float]]:
    """Return the joint distribution of the states of each pair of columns."""
    structural = {(count, missing): p * (missing == (count == 0)) for count, p in VISITS.items() for missing in (0, 1)}
    at_random = {
        (side, bool(missing)): p * (LEVEL_MISSING[side] if missing else 1 - LEVEL_MISSING[side])
        for side, p in SIDES.items()
        for missing in (0, 1)
    }
    answers = dict.fromkeys(itertools.product((*GROUPS, NULL), ("yes", "no", NULL)), 0.0)
    for group, p in GROUPS.items():
        p_answer = {"yes": YES[group], "no": 1 - YES[group]}
        p_answer = {answer: q * (1 - ANSWER_MISSING[group]) for answer, q in p_answer.items()}
        for answer, q in {**p_answer, NULL: ANSWER_MISSING[group]}.items():
            answers[group, answer] += p * q * (1 - GROUP_MISSING)
            answers[NULL, answer] += p * q * GROUP_MISSING
    structural = {(count, bool(missing)): p for (count, missing), p in structural.items()}
    return {("visits", "score"): structural, ("side", "level"): at_random, ("group", "answer"): answers}
