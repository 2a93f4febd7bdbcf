"""Names of files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.incremental.state import UnusableName, Writer
from headgate.incremental.state.names import folder

WRITERS = st.builds(
    Writer,
    st.text(st.characters(codec="ascii"), min_size=1, max_size=12) | st.just("näme"),
    st.text("a./%~-", min_size=1, max_size=6),
    st.integers(0, 20),
    st.text("a.1:", min_size=1, max_size=6),
)


def test_names_never_repeat():
    writer = Writer("stage", "r", 1, "h")

    assert len({writer.rows_name() for _ in range(100)}) == 100


@given(WRITERS, WRITERS)
def test_a_prefix_is_of_one_attempt_only(one, other):
    assert other.rows_name().startswith(one.prefix) == (one == other)
    assert other.rows_name().startswith(folder(one.stage)) == (one.stage == other.stage)


@given(WRITERS)
def test_a_name_is_one_folder_and_one_file_whatever_the_parts_hold(writer):
    parts = writer.manifest_name().split("/")

    assert len(parts) == 2
    assert not {"", ".", ".."} & set(parts)
    assert all(part.isascii() and part.isprintable() for part in parts)


@pytest.mark.parametrize("name", ["", "x" * 300])
def test_parts_that_no_file_can_be_named_for_are_refused(name):
    for parts in ((name, "r", "h"), ("s", name, "h"), ("s", "r", name)):
        with pytest.raises(UnusableName):
            Writer(parts[0], parts[1], 1, parts[2])
