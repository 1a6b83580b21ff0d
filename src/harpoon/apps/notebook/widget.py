"""The widget: the page of Studio in a cell, its requests answered by the service inside of the kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import anywidget
import traitlets
from fastapi import FastAPI

from harpoon._utils.validation import check_count
from harpoon.apps.notebook.asgi import Answer, InProcessClient, Request
from harpoon.apps.notebook.page import studio_page
from harpoon.apps.server.routes import create_app
from harpoon.conditions.language.parser import to_predicate
from harpoon.estimator import Harpoon

MIN_HEIGHT = 200  # pixels
SCENARIOS = {"where": "a", "compare": "b"}  # their names in the state of the page


class Explorer(anywidget.AnyWidget):
    """A widget that asks a model what-if questions; see `Harpoon.explore`.

    `where` and `compare` are the conditions of its two scenarios. They follow the controls, and the controls follow
    them.
    """

    _esm = Path(__file__).parent / "explorer.js"
    _page = traitlets.Unicode().tag(sync=True)
    _address = traitlets.Unicode().tag(sync=True)
    _height = traitlets.Int().tag(sync=True)

    def __init__(self, app: FastAPI, column_names: list[str], *, address: str, height: int) -> None:
        super().__init__(_page=studio_page(), _address=address, _height=height)
        self._column_names, self._client, self._workers = column_names, InProcessClient(app), app.state.workers
        self.on_msg(self._answer_message)

    @classmethod
    def of_model(cls, model: Harpoon, data: object, *, where: object, compare: object, height: int) -> Explorer:
        """Return the widget of a model; see `Harpoon.explore`."""
        app = create_app(model, data=data, name=model._name)
        names = model.schema_.names
        scenarios = {"where": _text(where, names), "compare": _text(compare, names)}
        return cls(
            app,
            names,
            address=_with({}, scenarios),
            height=check_count(height, "height, in pixels,", low=MIN_HEIGHT),
        )

    @property
    def where(self) -> str | None:
        """The condition of scenario A; None without one."""
        return self._state.get("a")

    @where.setter
    def where(self, condition: object) -> None:
        self._set("where", condition)

    @property
    def compare(self) -> str | None:
        """The condition of scenario B; None without one."""
        return self._state.get("b")

    @compare.setter
    def compare(self, condition: object) -> None:
        self._set("compare", condition)

    def close(self) -> None:
        """Remove the widget, and end what it computes."""
        self._client.close()
        self._workers.close()
        super().close()

    def __repr__(self) -> str:
        scenarios = [f"{name}={condition!r}" for name in SCENARIOS if (condition := getattr(self, name))]
        return f"Explorer({', '.join(scenarios)})"

    @property
    def _state(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self._address).items()}

    def _set(self, name: str, condition: object) -> None:
        self._address = _with(self._state, {name: _text(condition, self._column_names)})

    def _answer_message(self, _widget: object, message: dict[str, Any], buffers: list[memoryview]) -> None:
        """Answer a message of the page: a request, or that it no longer waits for one."""
        key = str(message["id"])
        if message.get("abort"):
            self._client.abort(key)
            return

        def reply(part: Answer) -> None:
            facts = {"id": key, "status": part.status, "headers": part.headers, "last": part.is_last}
            self.send(facts, [part.body] if part.body else None)

        body = bytes(buffers[0]) if buffers else b""
        self._client.send(key, Request(message["path"], message["method"], message["headers"], body), reply)


def _text(condition: object, names: list[str]) -> str | None:
    """Return a condition in SQL, or raise InvalidCondition."""
    return None if condition is None else str(to_predicate(condition, names))


def _with(values: dict[str, str], conditions: dict[str, str | None]) -> str:
    """Return the state of the page with other conditions."""
    changed: dict[str, str | None] = {**values, **{SCENARIOS[name]: text for name, text in conditions.items()}}
    return urlencode({name: text for name, text in changed.items() if text is not None})
