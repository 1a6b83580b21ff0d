"""Environments of their own, for packages that cannot live beside ours.

An environment is made on first use in the user's cache, or in the folder that `HARPOON_ENVIRONMENTS` names, and kept
under a name that holds a digest of its requirements: other requirements make another environment.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from harpoon._text import shorten
from harpoon.exceptions import HarpoonError, MissingExtra
from harpoon_bench.cache import cache

FOLDER_VARIABLE = "HARPOON_ENVIRONMENTS"
READY = "ready"
PYTHON_ALONE = ("-E", "-s")  # without packages of ours that an environment variable or the user's folder offers
LINES_SHOWN = 12


class EnvironmentFailed(HarpoonError, RuntimeError):
    """An environment could not be made."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment and what pip installs into it.

    Attributes:
        name: For people and for the folder.
        requirements: As in a requirements file, one per line; torch pinned, because pip would otherwise fetch CUDA.

    >>> Environment("bare").folder.name.startswith("bare-")
    True
    """

    name: str
    requirements: str = ""

    @classmethod
    def named(cls, name: str) -> Environment:
        """One of those that come with the package."""
        text = resources.files("harpoon_bench").joinpath("environments", f"{name}.txt").read_text(encoding="utf-8")
        return cls(name, text)

    @property
    def wanted(self) -> list[str]:
        """The requirements without their comments."""
        lines = (line.strip() for line in self.requirements.splitlines())
        return [line for line in lines if line and not line.startswith("#")]

    @property
    def digest(self) -> str:
        """Of what is wanted and of the Python it is installed for."""
        key = "\n".join([str(sys.implementation.cache_tag), *self.wanted])
        return hashlib.sha256(key.encode()).hexdigest()[:12]

    @property
    def folder(self) -> Path:
        """Where it lives."""
        return environments_folder() / f"{self.name}-{self.digest}"

    @property
    def ready(self) -> bool:
        """Whether it has been made to the end."""
        return (self.folder / READY).exists()

    def python(self) -> Path:
        """Its interpreter. The first call makes the environment; others that call meanwhile wait for it."""
        if not self.ready:
            with _alone(self.folder):
                if not self.ready:
                    self._make()
        return _interpreter(self.folder)

    def _make(self) -> None:
        # What an interrupted process left behind has no mark, and goes.
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            with _progress_line(f"Making the environment {self.name!r} (once, may take minutes)") as say:
                for command in self._commands():
                    self._run(command, say)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        (self.folder / READY).touch()

    def _commands(self) -> Iterator[list[str]]:
        """What makes it. Where nothing is wanted, there is no pip."""
        venv = [sys.executable, *PYTHON_ALONE, "-m", "venv"]
        yield [*venv, *([] if self.wanted else ["--without-pip"]), str(self.folder)]
        if self.wanted:
            pip = [str(_interpreter(self.folder)), *PYTHON_ALONE, "-m", "pip"]
            yield [*pip, "install", "--no-input", "--disable-pip-version-check", *self.wanted]

    def _run(self, command: list[str], say: Callable[[str], None]) -> None:
        """Run a command, show its lines as they come, and explain where it fails."""
        last: deque[str] = deque(maxlen=LINES_SHOWN)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:  # noqa: S603
            for line in process.stdout or ():
                last.append(line.rstrip())
                say(last[-1])
        if process.returncode:
            tool = command[command.index("-m") + 1]
            raise EnvironmentFailed(
                f"The environment {self.name!r} could not be made in {self.folder}: {tool} ended with "
                f"{process.returncode}. Check that pip can reach its package index and that the disk has room, then "
                f"ask again; {FOLDER_VARIABLE} names another folder. The end of what it said:\n" + "\n".join(last)
            )


def environments_folder() -> Path:
    """Where environments live: the folder that `HARPOON_ENVIRONMENTS` names, or one in the user's cache."""
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen)
    return cache("environments")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Only one process at a time makes an environment. The lock dies with the process that holds it."""
    try:
        from filelock import FileLock
    except ImportError:
        raise MissingExtra.named("filelock", "bench", "An environment of its own") from None
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        yield


def _interpreter(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


@contextmanager
def _progress_line(title: str) -> Iterator[Callable[[str], None]]:
    """One line on the standard error that shows what is being done; just the title where nobody watches."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    if not console.is_terminal:
        console.print(title, soft_wrap=True)
    with console.status(title) as status:
        yield lambda line: status.update(f"{title}: {escape(shorten(line.strip()))}")
