"""Documents, generated or linked, and what a crawler brings of them.

The linked ones are those of Wikispeedia: a document's text are the titles that it links to. That
web has no news; documents about countries, business and everyday life stand for them.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import numpy as np
from msgspec import Struct

ROUND_SECONDS = 30.0
"""The crawler's time from one round to the next."""

_NEWS = ("subject.Countries", "subject.Business_Studies", "subject.Everyday_life")
_NEWS_SHARE = 1 / 3
_VOCABULARY = 3000
_WORDS = (20, 80)
_ZIPF = 1.2

_BUSY, _QUIET = (40, 70), (4, 6)
"""News and static pages that are fetched in a round."""
_QUIET_ROUNDS = (0.5, 0.85)
"""From and to which part of the rounds."""
_CHANGED = (0.6, 0.25)
"""Share of the news and of the static pages that have changed since they were fetched last."""
_REWRITTEN = 0.2
"""Share of the words that change with it."""

Puts = list[tuple[bytes, dict[bytes, bytes]]]


class LinkDataError(Exception):
    """The folder does not hold the links, or they are not what was expected."""


class Document(Struct, frozen=True):
    """A document of the web."""

    url: str
    news: bool
    words: tuple[str, ...]


class Round(Struct, frozen=True):
    """What a crawler puts into its tables in one round."""

    label: str
    news: Puts
    pages: Puts


def generated(documents: int, seed: int) -> list[Document]:
    """Return documents with words of a made-up language, common ones often, as in any."""
    random = np.random.default_rng(seed)
    syllables = [c + v for c in "bdfgklmnprstv" for v in "aeiou"]
    language = ["".join(random.choice(syllables, 3)) for _ in range(_VOCABULARY)]
    return [
        Document(
            url=f"example.org/{'news' if news else 'page'}/{number:05d}",
            news=bool(news),
            words=tuple(
                language[min(rank, _VOCABULARY) - 1]
                for rank in random.zipf(_ZIPF, random.integers(*_WORDS))
            ),
        )
        for number, news in enumerate(random.uniform(size=documents) < _NEWS_SHARE)
    ]


def linked(folder: Path, documents: int) -> list[Document]:
    """Return documents of Wikispeedia, evenly chosen from all that link to others.

    Raises:
        LinkDataError: ``links.tsv.gz`` or ``categories.tsv.gz`` is not there, or holds no links.
    """
    targets: dict[str, list[str]] = defaultdict(list)
    for source, target in _pairs(folder / "links.tsv.gz"):
        targets[source].append(unquote(target).replace("_", " "))
    news = {
        title
        for title, subject in _pairs(folder / "categories.tsv.gz")
        if subject.startswith(_NEWS)
    }
    if not targets:
        raise LinkDataError(f"{folder / 'links.tsv.gz'}: no links; expected pairs of titles")
    step = max(len(targets) / documents, 1.0)
    titles = list(targets)
    chosen = [titles[int(at * step)] for at in range(min(documents, len(titles)))]
    return [
        Document(unquote(title), title in news, tuple(" ".join(targets[title]).split()))
        for title in chosen
    ]


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    if not path.is_file():
        raise LinkDataError(
            f"{path}: not found; --data must name the folder with links.tsv.gz and "
            "categories.tsv.gz"
        )
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        lines = (line for line in file if line.strip() and not line.startswith("#"))
        for number, row in enumerate(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)):
            if len(row) != 2:
                raise LinkDataError(f"{path}: {row!r} is not two columns with a tab between")
            if number:  # the first names the columns
                yield row[0], row[1]


def crawl(web: Sequence[Document], rounds: int, seed: int) -> Iterator[Round]:
    """Yield what a crawler brings: first the whole web, then the documents that it fetches again.

    It fetches many documents in a busy round and few in a quiet one. News change more often.
    """
    random = np.random.default_rng(seed)
    kinds = ([doc for doc in web if doc.news], [doc for doc in web if not doc.news])
    words = [[list(doc.words) for doc in kind] for kind in kinds]
    every = [word for doc in web for word in doc.words]
    for number in range(rounds):
        quiet = _QUIET_ROUNDS[0] <= number / rounds < _QUIET_ROUNDS[1]
        puts: list[Puts] = []
        for kind, documents in enumerate(kinds):
            count = (_QUIET if quiet else _BUSY)[kind]
            size = len(documents)
            fetched = (
                random.choice(size, min(count, size), replace=False) if number else range(size)
            )
            for at in fetched:
                if number and random.uniform() < _CHANGED[kind]:
                    _rewrite(words[kind][at], every, random)
            puts.append(
                [
                    (documents[at].url.encode(), {b"p:text": " ".join(words[kind][at]).encode()})
                    for at in fetched
                ]
            )
        yield Round(f"round {number + 1}", *puts)


def _rewrite(words: list[str], every: Sequence[str], random: np.random.Generator) -> None:
    for _ in range(max(1, round(_REWRITTEN * len(words)))):
        words[int(random.integers(len(words)))] = every[int(random.integers(len(every)))]
