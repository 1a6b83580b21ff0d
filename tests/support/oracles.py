"""Distributions known in closed form, as independent judges."""

import numpy as np
import pyarrow as pa

CLASS_PROBABILITIES = np.array([0.3, 0.7])
CENTRES = np.array([[-1.5, 1.0], [1.0, -0.5]])
COVARIANCE = np.array([[1.0, 0.6], [0.6, 1.0]])
CLASSES = np.array(["a", "b"])


def mixture_table(n: int, seed: int) -> pa.Table:
    """Rows of a mixture of two Gaussians: x, y and the class c."""
    rng = np.random.default_rng(seed)
    c = rng.choice(2, n, p=CLASS_PROBABILITIES)
    xy = CENTRES[c] + rng.multivariate_normal([0, 0], COVARIANCE, n)
    return pa.table({"x": xy[:, 0], "y": xy[:, 1], "c": CLASSES[c]})


def class_probabilities(x: float) -> np.ndarray:
    """P(c | x)."""
    weights = CLASS_PROBABILITIES * np.exp(-((x - CENTRES[:, 0]) ** 2) / 2)
    return weights / weights.sum()


def y_moments(x: float) -> tuple[float, float]:
    """E[y | x] and the standard deviation of y given x."""
    p = class_probabilities(x)
    means = CENTRES[:, 1] + 0.6 * (x - CENTRES[:, 0])
    mean = (p * means).sum()
    return float(mean), float(np.sqrt((p * (means**2 + 1 - 0.6**2)).sum() - mean**2))
