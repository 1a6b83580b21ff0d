"""Optional packages: the extras of the package, and what they are for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata


@dataclass(frozen=True)
class Extra:
    """An extra of the package; `exceptions.INSTALL` is the command that installs it.

    Attributes:
        packages: What it installs directly.
        purpose: What it is for.
    """

    packages: tuple[str, ...]
    purpose: str

    @property
    def versions(self) -> dict[str, str | None]:
        """The installed version of each package; None if it is not installed."""
        return {package: installed_version(package) for package in self.packages}


REQUIRED = (
    "torch",
    "numpy",
    "scipy",
    "narwhals",
    "scikit-learn",
    "safetensors",
    "sqlglot",
    "typer",
    "rich",
    "pyarrow",
)
EXTRAS = {
    "demo": Extra(("matplotlib", "palmerpenguins", "pandas"), "harpoon demo"),
    "metrics": Extra(("xgboost-cpu",), "scores that train classifiers"),
    "mlflow": Extra(("mlflow-skinny",), "models of MLflow"),
    "notebook": Extra(("anywidget", "fastapi"), "the what-if widget of notebooks"),
    "plots": Extra(("matplotlib",), "plots"),
    "postgres": Extra(("psycopg",), "tables of PostgreSQL"),
    "privacy": Extra(("opacus",), "training with differential privacy"),
    "ray": Extra(("ray",), "the engine Ray"),
    "report": Extra(("jinja2",), "reports as a page"),
    "rules": Extra(("pyyaml",), "rules in YAML"),
    "serve": Extra(("fastapi", "uvicorn", "python-multipart"), "harpoon serve"),
    "spark": Extra(("pyspark",), "the engine Spark, which also needs Java"),
    "sql": Extra(("duckdb",), "tables of DuckDB, and models inside it"),
}


def installed_version(package: str) -> str | None:
    """Return the version of an installed package, without importing it; None if it is not installed.

    >>> installed_version("no such package") is None
    True
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
