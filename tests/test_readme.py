"""The README's Python runs, block after block, as it stands but for the training time."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.filterwarnings("ignore::harpoon.ColumnLeftOut")
def test_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 4
    names: dict[str, object] = {}
    for block in blocks:
        quick = block.replace("max_time=120", "max_time=1, hidden=32")
        exec(compile(quick, "README.md", "exec"), names)  # noqa: S102
    assert names["filled"].notna().to_numpy().all()
    assert set(names["gentoos"]["species"]) == {"Gentoo"}
    assert len(names["completed"]) == 10


def test_the_readme_shows_both_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
