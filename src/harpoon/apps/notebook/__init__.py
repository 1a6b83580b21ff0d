"""Studio in a notebook: a widget that shows its page, and answers its requests in the kernel. Extra "notebook".

explorer      the widget, and `explore`, which makes one
asgi          requests to an ASGI application without a server
page          the page of Studio as one document
explorer.js   the frame of the page, and messages between the page and the kernel
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harpoon.exceptions import MissingExtra

if TYPE_CHECKING:
    from harpoon.apps.notebook.widget import Explorer
    from harpoon.estimator import Harpoon


def explore(model: Harpoon, data: object = None, *, where: object, compare: object, height: int) -> Explorer:
    """Return a widget that asks a model what-if questions; see `Harpoon.explore`."""
    for package in ("anywidget", "fastapi"):
        try:
            __import__(package)
        except ImportError:
            raise MissingExtra.for_package(package, "notebook", "The what-if widget") from None
    from harpoon.apps.notebook.widget import Explorer

    return Explorer.of_model(model, data, where=where, compare=compare, height=height)
