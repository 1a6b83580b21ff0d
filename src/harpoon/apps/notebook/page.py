"""The page of Studio as one document, for a frame without an address of its own."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from functools import cache
from pathlib import Path

from harpoon.apps.server.routes import STUDIO

PREFIX = "studio/"  # of the names of modules: a frame without an address cannot resolve relative ones
IMPORT = re.compile(r'(\bfrom |\bimport )"\./([\w-]+\.js)"')
STYLESHEET = re.compile(r'<link rel="stylesheet" href="([\w-]+\.css)">')
ICON = re.compile(r'<link rel="icon"[^>]*>\n?')
MAIN = '<script type="module" src="main.js"></script>'


@cache
def studio_page() -> str:
    """Return the page with its styles and its scripts inside: an import map gives each module as a data URL."""
    page = ICON.sub("", (STUDIO / "index.html").read_text(encoding="utf-8"))
    page = STYLESHEET.sub(lambda link: f"<style>{(STUDIO / link[1]).read_text(encoding='utf-8')}</style>", page)
    imports = {f"{PREFIX}{path.name}": _data_url(path) for path in sorted(STUDIO.glob("*.js"))}
    start = f'<script type="module">import "{PREFIX}main.js";</script>'
    return page.replace(MAIN, f'<script type="importmap">{json.dumps({"imports": imports})}</script>\n{start}')


def _data_url(path: Path) -> str:
    """Return a module as a URL, its imports under their names in the import map."""
    source = IMPORT.sub(rf'\1"{PREFIX}\2"', path.read_text(encoding="utf-8"))
    return f"data:text/javascript;base64,{b64encode(source.encode()).decode()}"
