"""Configurations of any shape: unknown keys, variables and errors, each with place and cure."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import Struct

from headgate.settings import ConfigurationError, Places, load, parse


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    table: str
    origins: tuple[str, ...] = ()


class Inner(Struct, frozen=True, forbid_unknown_fields=True):
    certificate: str
    seconds: float = 1.0


class Outer(Struct, frozen=True, forbid_unknown_fields=True):
    address: str
    inner: Inner | None = None


class Whole(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    outer: Outer
    rules: tuple[Rule, ...] = ()
    free: dict[str, str | int] = {}
    targets: str | tuple[str, ...] = ""
    kinds: tuple[str, ...] = ("a",)
    ports: list[int] | None = None


TEXT = """\
name = "n"

[outer]
address = "a:1"

[outer.inner]
certificate = "c"

[[rules]]
table = "t"

[[rules]]
table = "u"

[free]
"any.key" = 3
"""


def check(settings: Whole, places: Places) -> None:
    places.check_address(("outer", "address"), settings.outer.address)


def read(text: str, environment: dict[str, str] | None = None) -> Whole:
    return parse(Whole, text, "x.toml", environment or {}, prefix="X_", check=check)


def test_tables_arrays_and_free_keys_are_read() -> None:
    found = read(TEXT)
    assert found.outer.inner == Inner("c")
    assert found.rules == (Rule("t"), Rule("u"))
    assert found.free == {"any.key": 3}


def test_a_variable_reaches_a_table_within_a_table() -> None:
    found = read(TEXT, {"X_OUTER_INNER_SECONDS": "2.5", "Y_NAME": "other"})
    assert found.outer.inner == Inner("c", 2.5)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("certificate", "certificat", "x.toml:7: unknown key 'outer.inner.certificat'; did you"),
        ('table = "u"', 'tabel = "u"', "x.toml:13: unknown key 'rules[1].tabel'; did you mean"),
        ('table = "u"', "table = 3", "x.toml:13: 'rules[1].table': Expected `str`"),
        ('table = "u"', 'origins = ["o"]', "x.toml:12: 'rules[1].table' is missing; add it under"),
        ('[outer]\naddress = "a:1"\n', "[outer]\n", "x.toml:3: 'outer.address' is missing; add it"),
        ("a:1", "a", "x.toml:4: 'outer.address': 'a' is no address"),
        ("a:1", "a:99999", "x.toml:4: 'outer.address': 'a:99999' is no address"),
        ('name = "n"', 'name = "n"\nrules = 3', "x.toml: not valid TOML"),
    ],
)
def test_a_mistake_is_told_with_its_place(before: str, after: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(TEXT.replace(before, after))
    assert str(caught.value).startswith(message)


def test_a_missing_table_is_told_with_the_keys_that_it_needs() -> None:
    with pytest.raises(ConfigurationError, match=r"'outer' is missing; add address under \[outer"):
        read('name = "n"\n')


def test_what_must_be_a_table_is_told() -> None:
    with pytest.raises(ConfigurationError, match=r"x.toml:2: 'outer' must be a table: \[outer\]"):
        read('name = "n"\nouter = 1\n')
    with pytest.raises(ConfigurationError, match=r"'rules\[0\]' must be a table: \[\[rules\]\]"):
        read('name = "n"\nrules = [1]\n[outer]\naddress = "a:1"\n')


def test_no_variable_sets_free_keys_or_arrays_of_tables() -> None:
    for variable in ("X_FREE", "X_RULES"):
        with pytest.raises(ConfigurationError, match="overrides no key"):
            read(TEXT, {variable: "1"})


@pytest.mark.parametrize(
    ("said", "kinds"),
    [
        ("session", ("session",)),
        ("session, submit", ("session", "submit")),
        ('["a,b", "c"]', ("a,b", "c")),
        ("[::1]:9,[::2]:9", ("[::1]:9", "[::2]:9")),
        ("", ()),
    ],
)
def test_a_variable_sets_a_list(said: str, kinds: tuple[str, ...]) -> None:
    assert read(TEXT, {"X_KINDS": said}).kinds == kinds


def test_the_items_of_a_list_have_their_type() -> None:
    assert read(TEXT, {"X_PORTS": "1, 2"}).ports == [1, 2]
    with pytest.raises(ConfigurationError, match="X_PORTS"):
        read(TEXT, {"X_PORTS": "1,x"})


def test_what_may_be_one_text_stays_one() -> None:
    assert read(TEXT, {"X_TARGETS": "a:1,b:2"}).targets == "a:1,b:2"


def test_an_address_from_a_variable_is_told_by_the_variable() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(TEXT, {"X_OUTER_ADDRESS": "nowhere"})
    assert str(caught.value).startswith("environment: X_OUTER_ADDRESS: 'outer.address'")


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    with pytest.raises(ConfigurationError, match="--config"):
        load(Whole, path, {}, prefix="X_", check=check)
    path.write_bytes(b"name = '\xff'")
    with pytest.raises(ConfigurationError, match="UTF-8"):
        load(Whole, path, {}, prefix="X_", check=check)


@pytest.mark.parametrize("written", ["inf", "-inf", "nan", "+inf"])
def test_a_number_without_an_end_is_refused_with_its_place(written: str) -> None:
    text = TEXT.replace('certificate = "c"', f'certificate = "c"\nseconds = {written}')

    with pytest.raises(ConfigurationError, match=r"f:8: 'outer\.inner\.seconds': .* write one"):
        parse(Whole, text, "f", {}, prefix="H_", check=check)
    with pytest.raises(ConfigurationError, match=r"H_OUTER_INNER_SECONDS.*(finite|`float`)"):
        parse(Whole, TEXT, "f", {"H_OUTER_INNER_SECONDS": written}, prefix="H_", check=check)
