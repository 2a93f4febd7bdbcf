"""Documents, and what a crawler brings of them."""

import gzip
from pathlib import Path

import pytest
from crawl.web import LinkDataError, crawl, generated, linked

REAL = Path(__file__).parents[4] / "shared/data/links"
ROUNDS = 20


def write(folder, name, lines):
    with gzip.open(folder / name, "wt", encoding="utf-8") as file:
        file.write("\n".join(["# a comment", "", "First\tSecond", *lines]))


@pytest.fixture
def web():
    return generated(200, seed=3)


def test_the_first_round_brings_the_whole_web(web):
    first = next(crawl(web, ROUNDS, seed=1))
    assert {row.decode() for row, _ in first.news} == {d.url for d in web if d.news}
    assert {row.decode() for row, _ in first.pages} == {d.url for d in web if not d.news}
    texts = {row.decode(): cells[b"p:text"].decode() for row, cells in first.pages}
    assert all(texts[d.url].split() == list(d.words) for d in web if not d.news)


def test_the_same_seed_brings_the_same_rounds(web):
    assert list(crawl(web, ROUNDS, 1)) == list(crawl(web, ROUNDS, 1))
    assert list(crawl(web, ROUNDS, 1)) != list(crawl(web, ROUNDS, 2))
    assert generated(200, 3) == web


def test_more_of_the_news_than_of_the_static_pages_have_changed(web):
    known: dict[bytes, dict[bytes, bytes]] = {}
    changed: dict[str, list[bool]] = {"news": [], "pages": []}
    for one in crawl(web, ROUNDS, 1):
        for kind, puts in (("news", one.news), ("pages", one.pages)):
            changed[kind] += [known[row] != cells for row, cells in puts if row in known]
            known.update(puts)
    share = {kind: sum(found) / len(found) for kind, found in changed.items()}
    assert 0.5 < share["news"] < 0.7
    assert 0.15 < share["pages"] < 0.35


def test_quiet_rounds_bring_less(web):
    sizes = [len(one.news) + len(one.pages) for one in crawl(web, ROUNDS, 1)]
    assert sizes[1] == sizes[9] == 110
    assert sizes[10] == sizes[16] == 10
    assert sizes[17] == 110


def test_a_document_s_text_are_the_titles_that_it_links_to(tmp_path):
    write(tmp_path, "links.tsv.gz", ["%C3%85land\tBaltic_Sea", "%C3%85land\tEuro", "Euro\tCoin"])
    write(tmp_path, "categories.tsv.gz", ["%C3%85land\tsubject.Countries", "Euro\tsubject.Money"])
    land, euro = linked(tmp_path, 10)
    assert (land.url, land.news, land.words) == ("Åland", True, ("Baltic", "Sea", "Euro"))
    assert (euro.url, euro.news, euro.words) == ("Euro", False, ("Coin",))
    assert linked(tmp_path, 1) == [land]


def test_what_is_no_web_is_named(tmp_path):
    with pytest.raises(LinkDataError, match="--data must name the folder"):
        linked(tmp_path, 10)
    write(tmp_path, "links.tsv.gz", ["one column"])
    with pytest.raises(LinkDataError, match="is not two columns"):
        linked(tmp_path, 10)
    write(tmp_path, "links.tsv.gz", [])
    write(tmp_path, "categories.tsv.gz", [])
    with pytest.raises(LinkDataError, match="no links"):
        linked(tmp_path, 10)


def test_wikispeedia_can_be_read():
    if not REAL.is_dir():
        pytest.skip(f"{REAL} is not on this machine")
    web = linked(REAL, 1500)
    assert len({document.url for document in web}) == 1500
    assert 100 < sum(document.news for document in web) < 500
