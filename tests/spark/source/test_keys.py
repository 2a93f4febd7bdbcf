"""Keys become Arrow columns, and columns keys."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.events import KeyForm, key_text
from headgate.spark.source.keys import key_array, name_array, row_keys
from headgate.spark.source.values import UnwritableValue, ValueType

KEYS = st.lists(
    st.binary(min_size=1, max_size=8) | st.sampled_from([b"a", b"\\", b"\xff", b"\\x41"])
)


@given(KEYS)
def test_rows_of_all_bytes_come_back_as_text_and_as_bytes(keys: list[bytes]) -> None:
    text = key_array(keys)

    assert text.type == pa.string()
    assert row_keys(text) == keys
    assert row_keys(pa.chunked_array([text.cast(pa.large_string())])) == keys
    assert row_keys(key_array(keys, ValueType.BINARY)) == keys


def test_the_array_holds_the_texts_of_the_keys() -> None:
    assert key_array([b"a", "é".encode()]).to_pylist() == ["a", "é"]
    assert key_array([b"a", b"\xff", b"\\"]).to_pylist() == ["a", r"\xFF", r"\x5C"]
    assert key_array([]).to_pylist() == []


def test_names_of_columns_have_the_form_of_the_keys() -> None:
    names = [key_text(b"\xff"), "a"]

    assert name_array(names, KeyForm.TEXT).to_pylist() == [r"\xFF", "a"]
    assert name_array(names, KeyForm.BINARY).to_pylist() == [b"\xff", b"a"]


@pytest.mark.parametrize("keys", [["a", None], ["a", ""], ["\\", None]])
def test_a_row_without_key_is_refused(keys: list[str | None]) -> None:
    with pytest.raises(UnwritableValue, match="'row'"):
        row_keys(pa.array(keys, pa.string()))


def test_numbers_are_rows_as_text() -> None:
    assert row_keys(pa.array([7, 12])) == [b"7", b"12"]
