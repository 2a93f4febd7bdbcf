"""Shares of one configuration, and journals of workers that are not configured any more."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from headgate.observer import JournalSettings, KafkaSettings, Listener, ObserverConfig
from headgate.observer.workers.division import left_behind, observer_names, share


@pytest.fixture
def config(tmp_path: Path) -> ObserverConfig:
    return ObserverConfig(
        name="o",
        workers=2,
        thrift1=Listener("127.0.0.1:0", "a:1"),
        kafka=KafkaSettings("k:1"),
        journal=JournalSettings(str(tmp_path)),
    )


def leave_journal(folder: Path, name: str = "0000000007-00000000000000000000.segment") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).touch()


def names(config: ObserverConfig) -> list[tuple[str, str]]:
    return [(each.name, each.journal.directory) for each in left_behind(config)]


def test_each_worker_has_a_name_and_a_journal_of_its_own(config: ObserverConfig) -> None:
    first, second = (share(config, number, {"thrift1": "127.0.0.1:9"}) for number in (1, 2))
    assert (first.name, second.name) == ("o-1", "o-2")
    assert first.journal.directory != second.journal.directory
    assert first.thrift1 == second.thrift1 == Listener("127.0.0.1:9", "a:1")
    assert first.workers == 1
    assert observer_names(config) == {"o-1", "o-2"}
    assert observer_names(replace(config, workers=1)) == {"o"}


@pytest.mark.parametrize("workers", [1, 2])
def test_journals_of_those_that_are_started_again_are_theirs(
    config: ObserverConfig, tmp_path: Path, workers: int
) -> None:
    mine = [tmp_path] if workers == 1 else [tmp_path / "worker-1", tmp_path / "worker-2"]
    for folder in mine:
        leave_journal(folder)
    assert names(replace(config, workers=workers)) == []


def test_a_journal_of_a_single_process_is_left_to_its_name(
    config: ObserverConfig, tmp_path: Path
) -> None:
    leave_journal(tmp_path, "0000000007.gaps")
    assert names(config) == [("o", str(tmp_path))]


def test_journals_of_more_workers_are_left_to_their_names(
    config: ObserverConfig, tmp_path: Path
) -> None:
    for number in (1, 2, 3, 10):
        leave_journal(tmp_path / f"worker-{number}")
    leave_journal(tmp_path / "worker-x")
    (tmp_path / "worker-4").mkdir()
    assert {name for name, _ in names(config)} == {"o-3", "o-10"}
    alone = replace(config, workers=1)
    assert {name for name, _ in names(alone)} == {"o-1", "o-2", "o-3", "o-10"}
