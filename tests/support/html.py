"""HTML as a browser reads it: its elements, and its text."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"br", "img", "input", "link", "meta"}


@dataclass
class Element:
    """An element that was read: its name, its attributes and its text."""

    name: str
    attributes: dict
    text: str = ""


@dataclass
class Page(HTMLParser):
    """All elements of a text in order; an unbalanced text is an error."""

    elements: list = field(default_factory=list)
    opened: list = field(default_factory=list)

    def __post_init__(self):
        super().__init__()

    def handle_starttag(self, tag, attrs):
        self.elements.append(Element(tag, dict(attrs)))
        if tag not in VOID:
            self.opened.append(self.elements[-1])

    def handle_endtag(self, tag):
        assert self.opened.pop().name == tag

    def handle_data(self, data):
        for element in self.opened:
            element.text += data

    def all(self, name):
        return [element for element in self.elements if element.name == name]

    def table(self):
        """The cells of all tables as texts, row by row."""
        rows = []
        for element in self.elements:
            if element.name == "tr":
                rows.append([])
            elif element.name in ("th", "td"):
                rows[-1].append(element.text)
        return rows


def read(html):
    """Return the elements of a text."""
    page = Page()
    page.feed(html)
    page.close()
    assert not page.opened
    return page
