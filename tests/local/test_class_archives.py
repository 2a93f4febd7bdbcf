"""Archives of classes: recorded once, kept for one build of Java and its jars, never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from headgate.local import Java, ProcessIdentity, find_java
from headgate.local.processes.class_archives import ClassArchives, are_recorded_by
from headgate.settings.java import parse_build

JAVA = Java(program=Path("/usr/bin/java"), version=17, build="17.0.15+6")
OTHER_BUILD = Java(program=Path("/usr/bin/java"), version=17, build="17.0.16+8")
WHOLE = b"\xa8\xab\x0b\xf0 and so on"
MONTH_SECONDS = 31 * 86_400


@pytest.fixture
def jars(tmp_path: Path) -> list[Path]:
    files = [tmp_path / "one.jar", tmp_path / "two.jar"]
    for file in files:
        file.write_bytes(b"classes")
    return files


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def archives(tmp_path: Path, scratch: Path) -> ClassArchives:
    return ClassArchives(tmp_path / "cache", scratch)


def place(options: list[str], option: str) -> Path | None:
    """Return the file that one of a part's options names."""
    found = [each for each in options if each.startswith(option)]
    return Path(found[0].partition("=")[2]) if found else None


def recorded(options: list[str]) -> Path:
    file = place(options, "-XX:ArchiveClassesAtExit=")
    assert file is not None, options
    return file


def used(options: list[str]) -> Path | None:
    return place(options, "-XX:SharedArchiveFile=")


def store(archives: ClassArchives, jars: list[Path], part: str = "kafka") -> Path:
    """Have a part record its archive; return where it is kept."""
    recorded(archives.options(JAVA, part, jars)).write_bytes(WHOLE)
    archives.keep()
    kept = used(archives.options(JAVA, part, jars))
    assert kept is not None
    return kept


def test_what_a_part_has_recorded_is_used_by_other_instances(
    archives: ClassArchives, jars: list[Path], tmp_path: Path
) -> None:
    kept = store(archives, jars)
    assert kept.read_bytes() == WHOLE
    other = ClassArchives(tmp_path / "cache", tmp_path / "elsewhere")
    assert used(other.options(JAVA, "kafka", jars)) == kept


def test_another_part_build_of_java_or_jar_has_an_archive_of_its_own(
    archives: ClassArchives, jars: list[Path]
) -> None:
    store(archives, jars)
    assert used(archives.options(JAVA, "thrift1", jars)) is None
    assert used(archives.options(OTHER_BUILD, "kafka", jars)) is None
    assert used(archives.options(JAVA, "kafka", jars[:1])) is None
    os.utime(jars[1], (0, 0))  # fetched again: Java compares the time
    assert used(archives.options(JAVA, "kafka", jars)) is None


@pytest.mark.parametrize("left", [b"", bytes(4096)], ids=["empty", "without its head"])
def test_what_is_not_whole_is_not_kept(
    archives: ClassArchives, jars: list[Path], scratch: Path, left: bytes
) -> None:
    recorded(archives.options(JAVA, "kafka", jars)).write_bytes(left)
    archives.keep()
    assert used(archives.options(JAVA, "kafka", jars)) is None
    assert list(scratch.iterdir()) == []


def test_a_start_removes_what_an_end_that_was_cut_short_has_left(
    archives: ClassArchives, jars: list[Path]
) -> None:
    left = recorded(archives.options(JAVA, "kafka", jars))
    left.write_bytes(WHOLE[:6])
    assert recorded(archives.options(JAVA, "kafka", jars)) == left
    assert not left.exists()


def test_what_killed_parts_were_writing_is_discarded(
    archives: ClassArchives, jars: list[Path], scratch: Path
) -> None:
    recorded(archives.options(JAVA, "kafka", jars)).write_bytes(WHOLE)
    archives.discard()
    archives.keep()
    assert list(scratch.iterdir()) == []
    assert used(archives.options(JAVA, "kafka", jars)) is None


def test_one_that_is_forgotten_is_recorded_anew(archives: ClassArchives, jars: list[Path]) -> None:
    store(archives, jars)
    archives.forget(JAVA, "kafka", jars)
    archives.forget(JAVA, "kafka", jars)
    assert used(archives.options(JAVA, "kafka", jars)) is None


def test_one_that_others_may_write_is_not_used(archives: ClassArchives, jars: list[Path]) -> None:
    kept = store(archives, jars)
    kept.chmod(0o620)
    assert used(archives.options(JAVA, "kafka", jars)) is None


def test_those_that_nobody_has_used_for_a_month_are_deleted(
    archives: ClassArchives, jars: list[Path]
) -> None:
    old, fresh = store(archives, jars), store(archives, jars, "thrift1")
    for archive in (old, fresh):
        os.utime(archive, (time.time() - MONTH_SECONDS,) * 2)
    archives.options(JAVA, "thrift1", jars)
    archives.keep()
    assert [each.exists() for each in (old, fresh)] == [False, True]


@pytest.fixture
def sleeper(request: pytest.FixtureRequest) -> Iterator[ProcessIdentity]:
    # Linux shows a program's arguments only some moments after it has begun: it says when.
    program = "import sys; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, *request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield ProcessIdentity(process.pid, psutil.Process(process.pid).create_time())


@pytest.mark.parametrize(
    ("sleeper", "records"),
    [(["-XX:ArchiveClassesAtExit=a.jsa"], True), (["-XX:SharedArchiveFile=a.jsa"], False)],
    ids=["records", "uses"],
    indirect=["sleeper"],
)
def test_a_process_is_asked_whether_it_records(sleeper: ProcessIdentity, records: bool) -> None:
    assert are_recorded_by([sleeper]) is records


def test_one_that_has_ended_records_nothing() -> None:
    assert not are_recorded_by([ProcessIdentity(2**22 + 1, 0.0)])


@pytest.mark.parametrize("damage", [b"", b"no archive", WHOLE, WHOLE + bytes(1 << 20)])
def test_java_starts_in_silence_with_a_damaged_one(
    archives: ClassArchives, jars: list[Path], damage: bytes
) -> None:
    java = find_java()
    recorded(archives.options(java, "kafka", jars)).write_bytes(WHOLE)
    archives.keep()
    kept = used(archives.options(java, "kafka", jars))
    assert kept is not None
    kept.write_bytes(damage)
    options = archives.options(java, "kafka", jars)
    done = subprocess.run(
        [java.program, *options, "-version"], capture_output=True, text=True, check=True
    )
    assert (parse_build(done.stderr), done.stdout) == (java.build, "")
