"""XML text to elements that know their place; no document type, so no entity of its own making."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from headgate.flows.grammar.problems import DataflowErrors, Findings, Position
from headgate.flows.grammar.text import decoded, read_bytes
from headgate.flows.grammar.tree import MAX_CHARACTERS

MAX_XML_CHARACTERS = MAX_CHARACTERS // 2
"""Longest workflow, in characters: a dataflow file holds it beside what it was made into."""

_MAX_DEPTH = 64  # nested elements; a workflow needs 8 or so

_SEPARATOR = " "  # between namespace and name: neither may hold it


@dataclass(slots=True)
class Element:
    """An element, with its attributes and children; ``text`` is what stands in it, in one piece.

    Attributes with a namespace are left out: a workflow has none of its own. ``start`` and ``end``
    are its place in the document's text, from ``<`` to behind ``>``.
    """

    namespace: str
    name: str
    attributes: dict[str, str]
    at: Position
    start: int
    end: int = 0
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def of(self, name: str) -> Iterator[Element]:
        """Yield the children of that name in this element's namespace."""
        return (c for c in self.children if c.name == name and c.namespace == self.namespace)


_ENCODING = re.compile(
    r"""(?P<before><\?xml\s+version\s*=\s*(?:"[^"<]*"|'[^'<]*')\s+encoding\s*=\s*["'])"""
    r"(?P<name>[A-Za-z][A-Za-z0-9._\-]*)"
)
_ENCODINGS = re.compile(
    r"utf-?8|us-ascii|ascii|iso-?8859-\d{1,2}|latin-?1|windows-125\d|cp125\d|koi8-[ru]|shift_jis|"
    r"euc-(?:jp|kr)|gb2312|gbk|gb18030|big5"
)
_WIDE = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"<\0": "utf-16-le", b"\0<": "utf-16-be"}
"""Encodings that are known by a file's first bytes."""
_UTF8_MARK = b"\xef\xbb\xbf"


def load_workflow_text(path: Path | str) -> str:
    """Return the text of a workflow's file, its lines ended by line feeds.

    The encoding that it declares is honoured; the text declares UTF-8.

    Raises:
        DataflowErrors: the file can't be read, or is not of the encoding that it declares.
    """
    data = read_bytes(path, MAX_XML_CHARACTERS)
    text = decoded(data, _encoding(path, data), path, MAX_XML_CHARACTERS)
    return says_utf8(text.replace("\r\n", "\n").replace("\r", "\n"))


def says_utf8(text: str) -> str:
    """Return an XML text whose declaration says UTF-8, if it says any encoding."""
    return _ENCODING.sub(r"\g<before>UTF-8", text, count=1) if text.startswith("<?xml") else text


def _encoding(path: Path | str, data: bytes) -> str:
    """Return the name of a file's encoding, as it declares it or as its first bytes show.

    Raises:
        DataflowErrors: it declares one that is not known, or that it cannot be of.
    """
    wide = _WIDE.get(data[:2])
    marked = data.startswith(_UTF8_MARK)
    if wide is not None:
        return wide
    head = data.removeprefix(_UTF8_MARK)[:200].decode("latin-1")
    declared = _ENCODING.match(head)
    if declared is None:
        return "utf-8-sig"
    name = declared["name"].lower()
    findings = Findings(str(path))
    at = Position(head.count("\n", 0, declared.start("name")) + 1, 1)
    if not _ENCODINGS.fullmatch(name):
        findings.error(
            at,
            f"the encoding `{declared['name']}` can't be read here",
            'save the file as UTF-8 and declare it: `encoding="UTF-8"`',
        )
    elif marked and name not in ("utf-8", "utf8"):
        findings.error(
            at,
            f"the file begins as UTF-8 does, and declares `{declared['name']}`",
            'declare `encoding="UTF-8"`',
        )
    else:
        return "utf-8-sig" if name in ("utf-8", "utf8") else name
    raise DataflowErrors(findings.problems)


def read_document(text: str, findings: Findings) -> Element | None:
    """Return the root element of an XML text; None after a problem."""
    if len(text) > MAX_XML_CHARACTERS:
        findings.error(
            Position(1, 1),
            f"{len(text):,} characters; a workflow has at most {MAX_XML_CHARACTERS:,}",
            "check that this is the workflow, and keep data out of it",
        )
        return None
    reader = _Reader(text, findings)
    try:
        return reader.root()
    except _RefusedError:
        return None
    except expat.ExpatError as error:
        findings.error(
            Position(error.lineno, error.offset + 1),
            f"not XML: {expat.ErrorString(error.code)}",
            "check the tags and quotes around this place; each `<tag>` needs its `</tag>`",
        )
        return None


class _RefusedError(Exception):
    """The document is not read any further; the reason is among the findings."""


class _Reader:
    def __init__(self, text: str, findings: Findings) -> None:
        # What the declaration says of the encoding was true of the bytes, not of this text.
        self._data = text.encode("utf-8")
        self._findings = findings
        self._open: list[Element] = []
        self._root: Element | None = None
        self._parser = expat.ParserCreate("utf-8", _SEPARATOR)
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._document_type
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters

    def root(self) -> Element | None:
        self._parser.Parse(self._data, True)  # noqa: FBT003 -- expat takes it by position
        if self._root is not None:
            self._to_characters(self._root)
        return self._root

    @property
    def _at(self) -> Position:
        return Position(self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1)

    def _document_type(self, *_: object) -> None:
        # Expat is behind its name by now, or further.
        index = self._parser.CurrentByteIndex
        before = self._data[: max(0, self._data.rfind(b"<!DOCTYPE", 0, index + 1))].decode("utf-8")
        self._findings.error(
            Position(before.count("\n") + 1, len(before) - before.rfind("\n")),
            "a workflow has no document type, and entities of its own are never read",
            "remove the `<!DOCTYPE …>`, and write what its entities stand for in their places",
        )
        raise _RefusedError

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= _MAX_DEPTH:
            self._findings.error(
                self._at, f"more than {_MAX_DEPTH} elements lie in each other", "make it flatter"
            )
            raise _RefusedError
        namespace, _, local = name.rpartition(_SEPARATOR)
        own = {key: value for key, value in attributes.items() if _SEPARATOR not in key}
        element = Element(namespace, local, own, self._at, self._parser.CurrentByteIndex)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self._root = element
        self._open.append(element)

    def _end(self, _: str) -> None:
        element = self._open.pop()
        index = self._parser.CurrentByteIndex
        empty = not element.children and not element.text
        if empty and self._data[index - 2 : index] == b"/>":
            element.end = index  # expat is already behind an element that is its own end
        else:
            element.end = self._data.index(b">", index) + 1

    def _characters(self, text: str) -> None:
        self._open[-1].text += text

    def _to_characters(self, root: Element) -> None:
        """Turn places in bytes into places in the text."""
        if self._data.isascii():
            return
        elements = [root]
        for element in elements:  # grows while it is gone through
            elements.extend(element.children)
        characters = {0: 0}
        before = 0
        for place in sorted({p for e in elements for p in (e.start, e.end)}):
            passed = len(self._data[before:place].decode("utf-8"))
            characters[place] = characters[before] + passed
            before = place
        for element in elements:
            element.start = characters[element.start]
            element.end = characters[element.end]
