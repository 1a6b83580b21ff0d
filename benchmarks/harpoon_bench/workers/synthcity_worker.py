"""Scores of the package synthcity, for rows in an .npz file: alpha, ks, identifiability, detection and utility.

    python synthcity_worker.py rows.npz scores.json

Synthcity imports dozens of packages that its scores do not use, and pins versions that conflict. Those that are not
installed are replaced by empty modules, so `pip install --no-deps synthcity` and the packages below are enough.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import sys
import tempfile
import types
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import sklearn
import xgboost

# Packages that synthcity imports for its generators, survival analysis and plots.
UNUSED = (
    *("arfpy", "be_great", "decaf", "fastai", "fastcore", "fflows", "lifelines", "matplotlib", "monai", "nflows"),
    *("opacus", "pgmpy", "PIL", "pycox", "pykeops", "redis", "seaborn", "shap", "tenacity", "torchtuples"),
    *("torchvision", "tsai", "xgbse"),
)


class EmptyModule(types.ModuleType):
    """A module of a package that is not installed: any name in it is an empty class."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class EmptyModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an empty module for each unused package that no other finder has found."""

    def find_spec(
        self, name: str, _path: object = None, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a specification for modules of unused packages."""
        is_unused = name.partition(".")[0] in UNUSED
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_unused else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> EmptyModule:
        """Make the module."""
        return EmptyModule(spec.name)

    def exec_module(self, _module: types.ModuleType) -> None:
        """Do nothing."""


def main(rows: Path, output: Path) -> None:
    """Score the rows with synthcity."""
    sys.meta_path.append(EmptyModules())
    from synthcity.metrics.eval_detection import SyntheticDetectionLinear, SyntheticDetectionXGB
    from synthcity.metrics.eval_performance import PerformanceEvaluatorXGB
    from synthcity.metrics.eval_privacy import IdentifiabilityScore
    from synthcity.metrics.eval_statistical import AlphaPrecision, KolmogorovSmirnovTest
    from synthcity.plugins.core.dataloader import GenericDataLoader
    from synthcity.version import __version__

    arrays = np.load(rows)
    options = {"use_cache": False, "workspace": Path(tempfile.mkdtemp())}
    real, new = (GenericDataLoader(arrays[name]) for name in ("reference", "sampled"))
    alpha = AlphaPrecision(**options)
    # Its `evaluate` would also train a one-class network, whose scores the paper does not use.
    naive = alpha.metrics(*(part.to_numpy() for part in alpha._normalize_covariates(real, new)))
    labelled = (
        GenericDataLoader(pd.DataFrame(arrays[f"{name}_features"]).assign(label=arrays[f"{name}_labels"]))
        for name in ("reference", "sampled")
    )
    scores = {
        "alpha": float(naive[3]),
        "ks": KolmogorovSmirnovTest(**options).evaluate(real, new)["marginal"],
        "identifiability": float(IdentifiabilityScore(**options)._compute_scores(real, new)["score"]),
        "detection": SyntheticDetectionLinear(**options).evaluate(real, new)["mean"],
        "detection_xgboost": SyntheticDetectionXGB(**options).evaluate(real, new)["mean"],
        "utility": PerformanceEvaluatorXGB(**options).evaluate(*labelled)["syn_id"],
    }
    versions = {"synthcity": __version__, "numpy": np.__version__, "pandas": pd.__version__}
    versions |= {"scikit-learn": sklearn.__version__, "xgboost": xgboost.__version__}
    output.write_text(json.dumps({"scores": scores, "versions": versions}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
