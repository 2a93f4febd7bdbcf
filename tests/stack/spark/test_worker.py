"""The worker process on the real HBase, Kafka and Spark: what steps see and how attempts end."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from worker_bench import WAIT, Bench, container, pair, publish, rows, update, wait_until

from headgate.client import ScanRange
from headgate.engine import OnUndecodable
from headgate.events import GONE, Cut, Outcome, UpdateKind, lost_after
from headgate.flows import ActionIdentity, RunIdentity
from headgate.spark import (
    AdoptSession,
    Committed,
    Ending,
    RunKey,
    RunLedger,
    SessionWorker,
    StartSession,
    StepEnded,
    StepStarted,
    WorkerReady,
    WorkerReply,
)

if TYPE_CHECKING:
    from conftest import RunningStack

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def bench(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(stack, tmp_path_factory.mktemp("worker"))
    try:
        assert isinstance(made.replies.get(timeout=WAIT), WorkerReady)
        yield made
    finally:
        made.worker.stop()


@pytest.fixture
def tables(bench: Bench) -> tuple[str, str]:
    source, target = bench.stack.table("spark_in", ["f"]), bench.stack.table("spark_out", ["f"])
    with bench.connect() as connection:
        columns = {b"f:a": [b"1.5", None, b"no number"], b"f:b": [b"2", b"3", b"4"]}
        connection.put_columns(source, [b"r1", b"r2", b"r3"], columns)
    return source, target


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("total", {b"r1": b"3.5", b"r2": b"3.0", b"r3": b"4.0"}),
        ("total_by_tasks", {b"r1": b"2.0", b"r2": b"3.0", b"r3": b"4.0"}),
        ("udf_of_the_module", {b"r1": b"4.0", b"r2": b"6.0", b"r3": b"8.0"}),
    ],
)
def test_a_step_reads_a_container_and_writes_another(
    bench: Bench, tables: tuple[str, str], function: str, expected: dict[bytes, bytes]
) -> None:
    (ended,) = bench.carry_out(bench.request(function, pair(tables)))

    assert ended.ending is Ending.COMMITTED, ended.detail
    assert ended.rows_written == 3
    assert rows(bench, tables[1]) == expected


def test_a_run_says_what_it_computed_with_the_files_it_depends_on(
    bench: Bench, tables: tuple[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "model.json"
    declared = ActionIdentity("session", {}, "{}", "{}", "{}", "{}", "{}")
    asked = bench.request("total", pair(tables))
    asked = msgspec.structs.replace(asked, computes=declared, depends={"model.json": str(file)})
    (failed,) = bench.carry_out(asked)
    file.write_text("1")
    (first,) = bench.carry_out(msgspec.structs.replace(asked, attempt=2, token=asked.token + 1))

    assert (failed.ending, failed.identity) == (Ending.FAILED, RunIdentity())
    assert failed.reason.startswith("DependencyError: `depends` names `model.json`")
    assert first.ending is Ending.COMMITTED, first.detail
    assert first.identity.differing(declared.hashes) == ("code", "files")


@pytest.mark.parametrize("by_tasks", [{}, {"by_tasks": "yes"}])
def test_what_could_not_be_decoded_leaves_no_former_result_and_is_told(
    bench: Bench, tables: tuple[str, str], by_tasks: dict[str, str]
) -> None:
    with bench.connect() as connection:
        former = [b"1.5", b"7.5", b"8.5"]
        connection.put_columns(tables[1], [b"r1", b"r2", b"r3"], {b"f:sum": former})

    (ended,) = bench.carry_out(bench.request("copy", pair(tables), **by_tasks))

    assert ended.ending is Ending.COMMITTED, ended.detail
    assert rows(bench, tables[1]) == {b"r1": b"1.5"}
    if not by_tasks:
        assert (ended.undecoded, ended.undecodable) == (
            1,
            "row r3, column f:a: b'no number' is no double in codec number",
        )
        assert ended.undecodable in Path(ended.log).read_text()
    else:
        assert "row r3, column f:a: b'no number'" in bench.worker.log.read_text()


@pytest.mark.parametrize("by_tasks", [{}, {"by_tasks": "yes"}])
def test_a_value_that_does_not_decode_can_fail_the_step(
    bench: Bench, tables: tuple[str, str], by_tasks: dict[str, str]
) -> None:
    asked = bench.request("copy", pair(tables), **by_tasks)
    strict = msgspec.structs.replace(asked, on_undecodable={"input": OnUndecodable.FAIL})

    (ended,) = bench.carry_out(strict)

    assert ended.ending is Ending.FAILED
    assert "row r3, column f:a: b'no number' is no double" in ended.detail
    assert b"r3" not in rows(bench, tables[1])  # another task may have written before it


def test_an_empty_family_is_read_with_the_columns_named_beside_it(
    bench: Bench, tables: tuple[str, str]
) -> None:
    whole = container("output", tables[1], "f:", "f:sum", "f:mean")

    (ended,) = bench.carry_out(bench.request("family", (whole,)))

    assert ended.ending is Ending.COMMITTED, ended.detail
    assert Path(ended.log).read_text() == "['row', 'sum', 'mean'] 0\n"


REPAIRED = """
from repaired_formula import FACTOR

def step(run):
    values = run.spark.range(2).rdd.map(in_a_task).collect()
    if values[0] * FACTOR < 0:
        raise ValueError("negative")
    print(values, FACTOR)

def in_a_task(_):
    from repaired_late import VALUE
    return VALUE
"""


def test_the_attempt_after_a_failure_takes_the_code_as_it_is_then(bench: Bench) -> None:
    at = bench.directory
    (at / "repaired_steps.py").write_text(REPAIRED)
    (at / "repaired_formula.py").write_text("FACTOR = 1\n")
    (at / "repaired_late.py").write_text("VALUE = -1\n")
    first = bench.request("nothing")
    first = msgspec.structs.replace(first, action="repaired", entry="repaired_steps:step")
    (failed,) = bench.carry_out(first)
    assert (failed.ending, failed.reason) == (Ending.FAILED, "ValueError: negative")
    (at / "repaired_steps.py").write_text(REPAIRED.replace("range(2)", "range(3)"))
    (at / "repaired_formula.py").write_text("FACTOR = 2\n")
    (at / "repaired_late.py").write_text("VALUE = 5\n")

    again = msgspec.structs.replace(first, attempt=2, token=first.token + 1)
    (ended,) = bench.carry_out(again)

    assert ended.ending is Ending.COMMITTED, ended.detail
    assert Path(ended.log).read_text() == "[5, 5, 5] 2\n"
    assert failed.code
    assert ended.code not in ("", failed.code)


def test_a_committed_run_stands_in_the_ledger(bench: Bench) -> None:
    request = bench.request("nothing", word="a")

    (ended,) = bench.carry_out(request)

    with bench.connect() as connection:
        state = RunLedger(connection, bench.ledger).state(request.key)
    assert isinstance(state, Committed)
    assert (ended.ending, state.attempt, state.token) == (
        Ending.COMMITTED,
        request.attempt,
        request.token,
    )


def test_what_a_step_prints_goes_to_the_log_of_its_run(bench: Bench) -> None:
    ended = bench.carry_out(bench.request("nothing", word="x"), bench.request("nothing", word="y"))

    for end in ended:
        printed = Path(end.log).read_text()
        assert printed.startswith(f"printed by {end.run}")
        assert len(printed.splitlines()) == 1


def test_a_step_that_raises_reports_its_traceback_and_commits_nothing(bench: Bench) -> None:
    request = bench.request("stubborn")

    (ended,) = bench.carry_out(request)

    assert (ended.ending, ended.reason) == (Ending.FAILED, "RuntimeError: this step")
    assert "steps_of_tests.py" in ended.detail
    assert "never works" in Path(ended.log).read_text()
    with bench.connect() as connection:
        state = RunLedger(connection, bench.ledger).state(request.key)
    assert not isinstance(state, Committed)


def test_a_step_that_does_not_exist_is_named(bench: Bench) -> None:
    (ended,) = bench.carry_out(bench.request("missing"))

    assert ended.ending is Ending.FAILED
    assert "has no function 'missing'" in ended.reason


def test_an_overtaken_attempt_cannot_commit(bench: Bench) -> None:
    (ended,) = bench.carry_out(bench.request("overtaken"))

    assert ended.ending is Ending.LOST_CLAIM
    assert "attempt 2 claimed it" in ended.reason


def test_a_stale_token_does_not_even_start(bench: Bench) -> None:
    request = bench.request("nothing", word="never")
    with bench.connect() as connection:
        RunLedger(connection, bench.ledger).claim(request.key, 2, request.token + 1, "newer")

    (ended,) = bench.carry_out(request)

    assert ended.ending is Ending.LOST_CLAIM
    assert "printed" not in Path(ended.log).read_text()


def test_two_steps_run_at_the_same_time(bench: Bench) -> None:
    one, two = str(bench.directory / "one"), str(bench.directory / "two")

    ended = bench.carry_out(
        bench.request("meet", mine=one, other=two), bench.request("meet", mine=two, other=one)
    )

    assert [end.ending for end in ended] == [Ending.COMMITTED] * 2, ended


def test_a_cancelled_step_ends_soon_and_commits_nothing(bench: Bench) -> None:
    started = bench.directory / "slow"
    request = bench.request("slow", started=str(started))
    bench.worker.submit(request)
    assert isinstance(bench.replies.get(timeout=WAIT), StepStarted)
    wait_until(started.exists)

    bench.worker.cancel(request.run, request.attempt)

    ended = bench.replies.get(timeout=50)
    assert isinstance(ended, StepEnded)
    assert ended.ending is Ending.CANCELLED


def test_changes_are_the_newest_values_between_two_cuts(
    bench: Bench, tables: tuple[str, str]
) -> None:
    source, _ = tables
    put, gone = UpdateKind.PUT, UpdateKind.DELETE_COLUMN
    since = publish(bench, source, update(source, 0, [(put, b"r0", b"f:a", b"1")]))
    first = update(source, 1, [(put, b"r1", b"f:a", b"10"), (put, b"r1", b"g:a", b"7")])
    cut = publish(
        bench,
        source,
        first,
        update(source, 2, [(put, b"r1", b"f:a", b"11"), (gone, b"r2", b"f:a", None)]),
        first,
        update(source, 3, [(put, b"r3", b"f:b", None)]),
        update(source, 4, [(put, b"r2", b"f:b", b"9")], Outcome.UNKNOWN),
    )
    publish(bench, source, update(source, 5, [(put, b"r9", b"f:a", b"1")]))

    (ended,) = bench.carry_out(bench.request("changed", pair(tables), since=since, cut=cut))

    assert ended.ending is Ending.COMMITTED, ended.detail
    assert Path(ended.log).read_text().splitlines() == [
        "r1 a 11.0 False",
        "r2 a None True",
        "r2 b 3.0 False",  # the table's own value, since the update's is not certain
        "r3 b 4.0 False",
    ]


@pytest.mark.parametrize("step", ["changed", "changed_by_tasks"])
def test_what_no_run_has_seen_is_the_whole_container(
    bench: Bench, tables: tuple[str, str], step: str
) -> None:
    source, _ = tables
    cut = publish(bench, source, update(source, 0, [(UpdateKind.PUT, b"r3", b"f:b", b"4")]))
    since = Cut({topic: tuple(GONE for _ in positions) for topic, positions in cut.offsets.items()})

    (ended,) = bench.carry_out(bench.request(step, pair(tables), since=since, cut=cut))

    assert ended.ending is Ending.COMMITTED, ended.detail
    printed = Path(ended.log).read_text().splitlines()
    assert [line for line in printed if not line.startswith("row ")] == [
        "r1 a 1.5 False",
        "r1 b 2.0 False",
        "r2 b 3.0 False",
        "r3 a None False",  # it is there, and no number
        "r3 b 4.0 False",
    ]


@pytest.mark.parametrize("step", ["changed", "changed_by_tasks"])
def test_after_a_loss_the_whole_container_is_shown_and_what_is_told_to_be_deleted(
    bench: Bench, tables: tuple[str, str], step: str
) -> None:
    source, _ = tables
    gone = UpdateKind.DELETE_COLUMN
    before = publish(bench, source, update(source, 0, [(gone, b"r8", b"f:a", None)]))
    cut = publish(
        bench,
        source,
        update(source, 1, [(UpdateKind.PUT, b"r7", b"f:a", b"1")]),
        update(source, 2, [(gone, b"r7", b"f:a", None), (gone, b"r2", b"f:b", None)]),
    )
    positions = {t: tuple(map(lost_after, each)) for t, each in before.offsets.items()}
    request = bench.request(step, pair(tables), since=Cut(positions), cut=cut)
    (ended,) = bench.carry_out(request)

    assert ended.ending is Ending.COMMITTED, ended.detail
    printed = Path(ended.log).read_text().splitlines()
    assert sorted(line for line in printed if not line.startswith("row ")) == [
        "r1 a 1.5 False",
        "r1 b 2.0 False",
        "r2 b 3.0 False",  # it was written again, which the next run is told
        "r3 a None False",
        "r3 b 4.0 False",
        "r7 a None True",
    ]


def test_a_table_that_is_written_twice_with_the_same_frame_is_as_after_once(
    bench: Bench, tables: tuple[str, str]
) -> None:
    bench.carry_out(bench.request("total", pair(tables)))
    once = rows(bench, tables[1])
    bench.carry_out(bench.request("total", pair(tables)))

    assert rows(bench, tables[1]) == once


ADOPTED = """
import os

def step(run):
    shuffles = run.spark.conf.get("spark.sql.shuffle.partitions")
    print(shuffles, os.getcwd(), *run.spark.range(1).rdd.map(in_a_task).collect())

def in_a_task(_):
    import adopted_late
    return adopted_late.VALUE
"""


@pytest.mark.soak  # the short tests have a takeover with a spare
def test_a_spare_session_becomes_that_of_a_dataflow(bench: Bench, tmp_path: Path) -> None:
    code, directory = tmp_path / "code", tmp_path / "flow"
    code.mkdir()
    (code / "adopted_steps.py").write_text(ADOPTED)
    (code / "adopted_late.py").write_text("VALUE = 7\n")
    early: queue.Queue[WorkerReply | int] = queue.Queue()
    late: queue.Queue[WorkerReply | int] = queue.Queue()
    worker = SessionWorker(
        StartSession({"spark.master": "local[1]"}),
        tmp_path / "spare",
        on_reply=early.put,
        on_exit=early.put,
    )
    try:
        assert isinstance(early.get(timeout=WAIT), WorkerReady)
        conf = {"spark.sql.shuffle.partitions": "5"}
        adopted = AdoptSession(str(directory), conf, (str(code),))
        worker.adopt(adopted, on_reply=late.put, on_exit=late.put)
        assert isinstance(late.get(timeout=WAIT), WorkerReady)
        asked = bench.request("nothing")
        asked = msgspec.structs.replace(asked, entry="adopted_steps:step", python_path=(str(code),))
        worker.submit(asked)
        assert isinstance(late.get(timeout=WAIT), StepStarted)
        ended = late.get(timeout=WAIT)
    finally:
        worker.stop()

    assert isinstance(ended, StepEnded)
    assert ended.ending is Ending.COMMITTED, ended.detail
    assert Path(ended.log).is_relative_to(directory)
    assert Path(ended.log).read_text() == f"5 {directory} 7\n"
    assert late.get(timeout=WAIT) == 0
    assert early.empty()


def test_the_key_of_a_run_names_dataflow_action_and_run(bench: Bench) -> None:
    request = bench.request("nothing", word="a")
    bench.carry_out(request)

    with bench.connect() as connection:
        found = connection.get(bench.ledger, RunKey("flow", "nothing", request.run).row)
        listed = [row for row, _ in connection.scan(bench.ledger, ScanRange(b"run/flow/nothing/"))]
    assert found
    assert f"run/flow/nothing/{request.run}".encode() in listed
