"""The highest revision seen of each dataflow, over restarts and in several agents of a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.agent.state.sealed import SavedRevisions
from headgate.settings import ConfigurationError


def opened(path: Path, place: str = "cluster/headgate") -> SavedRevisions:
    revisions = SavedRevisions(path)
    revisions.open(place)
    return revisions


def test_what_was_seen_is_known_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "revisions"
    before = opened(file)
    before.note("flow", 3)
    before.note("flow", 2)
    before.close()
    assert opened(file).highest("flow") == 3


def test_of_two_agents_neither_sets_the_other_back(tmp_path: Path) -> None:
    file = tmp_path / "revisions"
    one, two = opened(file), opened(file)
    one.note("flow", 7)
    two.note("flow", 5)
    assert opened(file).highest("flow") == 7


def test_names_count_anew_in_each_table_of_each_cluster(tmp_path: Path) -> None:
    file = tmp_path / "revisions"
    opened(file).note("flow", 7)
    assert opened(file, "cluster/other").highest("flow") == 0


def test_a_file_that_cannot_be_used_is_named_with_a_cure(tmp_path: Path) -> None:
    file = tmp_path / "revisions"
    file.write_bytes(b"not a database" * 100)
    with pytest.raises(ConfigurationError, match=rf"{file}.*remove the file"):
        opened(file)


def test_what_cannot_be_written_is_remembered_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "revisions"
    revisions = opened(file)
    other = opened(file)
    other._database.execute("drop table revisions")  # type: ignore[union-attr]
    revisions.note("flow", 3)
    assert revisions.highest("flow") == 3
