"""Identity of what an action computes: spelling does not count, everything else does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.flows import ModuleText, code_of, identity_of, parse_dataflow
from headgate.flows.identity import canonical

FILE = """\
name: air
containers:
  readings: detectors s:o3
  zones: {table: zones, column: "c:v", codec: float64}
actions:
  feed: {input: readings}
  zones:
    step: steps:zones
    reads: readings
    writes: zones
    parameters: {b: [1, 2], a: 1}
    timeout: 5 s
  sums: {stage: "stages.sums:stage", reads: readings, out: totals}
  tops: {stage: "stages.tops:stage", in: {totals: sums.totals}, writes: zones}
spark: {spark.sql.shuffle.partitions: "4"}
"""
MODULES = {
    "steps": b"import numpy\nfrom tools import scale\n\ndef zones(run):\n    return scale(run)\n",
    "tools": b"def scale(run):\n    import deep\n    return 2\n",
    "deep": b"X = 1\n",
    "aside": b"Y = 1\n",
    "stages": b"",
    "stages.sums": b"from . import shared\nfrom .shared import stage\n",
    "stages.shared": b"stage = 1\n",
    "stages.tops": b"stage = 2\n",
}
PACKAGES = ("stages",)


def identity(text=FILE, action="zones", modules=MODULES):
    def read(name):
        return ModuleText(modules[name], name in PACKAGES) if name in modules else None

    return identity_of(parse_dataflow(text, "flow.yaml"), action, read, lambda _: None)


def edited(old, new):
    assert old in FILE
    return FILE.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{b: [1, 2], a: 1}", "{a: 1.0, b: [1.0, 2]}"),
        ("timeout: 5 s", "timeout: 9 s"),
        ("name: air", "name: air # one of many"),
        ("codec: float64}", "codec: float64, count: cells}"),
    ],
)
def test_what_computes_the_same_has_one_identity(old, new):
    assert identity(edited(old, new)).hash == identity().hash


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("a: 1}", "a: 2}", "parameters"),
        ("detectors s:o3", "detectors s:no", "containers"),
        ("codec: float64", "codec: int64", "containers"),
        ("steps:zones", "steps:other", "kind"),
        ('"4"', '"8"', "spark"),
    ],
)
def test_what_computes_something_else_has_another(old, new, field):
    assert identity().differing(identity(edited(old, new))) == (field,)


def test_an_input_from_another_maker_is_another():
    other = edited("{totals: sums.totals}", "{totals: more.totals}").replace(
        "  tops:", "  more: {stage: 'stages.sums:stage', reads: readings, out: totals}\n  tops:"
    )
    assert identity(action="tops").differing(identity(other, "tops")) == ("inputs",)


def test_code_is_of_the_module_and_all_that_it_imports():
    assert set(identity().code) == {"steps", "tools", "deep"}
    assert set(identity(action="sums").code) == {"stages", "stages.sums", "stages.shared"}


@pytest.mark.parametrize(
    ("module", "text", "same"),
    [
        ("deep", b'"""Says more."""\n\nX   =  1  # one\n', True),
        ("deep", b"X = 2\n", False),
        ("tools", b'def scale(run):\n    """Doubles."""\n    import deep\n\n    return 2\n', True),
        ("aside", b"Y = 2\n", True),
        ("deep", b"X = (\n", False),
    ],
)
def test_comments_and_docstrings_do_not_count(module, text, same):
    other = identity(modules={**MODULES, module: text})
    assert (other.hash == identity().hash) is same


def test_modules_that_import_each_other_are_read_once():
    modules = {"a": b"import b\n", "b": b"import a\n"}
    texts = {name: ModuleText(text) for name, text in modules.items()}
    assert set(code_of("a", texts.get)) == {"a", "b"}


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def shuffled(value):
    match value:
        case dict():
            return {key: shuffled(value[key]) for key in reversed(value)}
        case list():
            return [shuffled(one) for one in value]
        case bool() | None | str():
            return value
        case int() if abs(value) < 2**53:
            return float(value)
        case _:
            return value


@given(plain, plain)
def test_a_canonical_text_is_equal_exactly_for_equal_values(one, other):
    assert canonical(shuffled(one)) == canonical(one)
    if canonical(one) == canonical(other):
        assert shuffled(one) == shuffled(other)
