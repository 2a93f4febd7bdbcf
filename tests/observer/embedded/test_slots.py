"""Which journal a process of a program takes."""

from itertools import islice
from pathlib import Path

from headgate.observer.embedded.slots import abandoned_slots, slot_directory, slots_to_take
from headgate.observer.recording.journal import Journal


def begin(root: Path, slot: int) -> Journal:
    return Journal(slot_directory(root, slot), limit_bytes=1 << 20, segment_bytes=1 << 20)


def crash(journal: Journal) -> None:
    journal.append(b"request", "t", listener=0, dialect=0, received=1.0)
    journal.abandon()


def test_the_first_process_takes_the_first_slot(tmp_path):
    assert next(slots_to_take(tmp_path)) == 0


def test_what_was_left_behind_is_taken_first(tmp_path):
    begin(tmp_path, 0).close()
    crash(begin(tmp_path, 1))

    assert list(islice(slots_to_take(tmp_path), 3)) == [1, 0, 2]


def test_a_living_process_keeps_its_slot(tmp_path):
    alive = begin(tmp_path, 0)
    crash(begin(tmp_path, 1))

    assert abandoned_slots(tmp_path) == [1]
    alive.close()


def test_a_clean_end_leaves_nothing_to_adopt(tmp_path):
    begin(tmp_path, 0).close()

    assert abandoned_slots(tmp_path) == []
