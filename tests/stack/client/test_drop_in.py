"""The drop-in for happybase, in programs that write to HBase's own Thrift server."""

from __future__ import annotations

import os
import signal
import time

import pytest

from headgate.events import Notify, Outcome, Watch, WatchList

pytestmark = pytest.mark.stack

CONNECT = """
import os, sys
from headgate import client as happybase
def connect():
    port = int(os.environ["THRIFT1_PORT"])
    return happybase.Connection(os.environ["THRIFT1_HOST"], port, timeout=30000)
"""

EVERY_MUTATOR = """
connection, name = connect(), sys.argv[1].encode()
client = connection.client
from Hbase_thrift import BatchMutation, Mutation, TAppend, TIncrement
puts = [Mutation(column=b"f:a", value=b"1")]
batch = [BatchMutation(row=b"rows", mutations=puts)]
client.mutateRow(name, b"row", puts, {})
client.mutateRowTs(name, b"rowTs", puts, 5, {})
client.mutateRows(name, batch, {})
client.mutateRowsTs(name, batch, 5, {})
assert client.atomicIncrement(name, b"n", b"f:n", 2) == 2
client.increment(TIncrement(table=name, row=b"n", column=b"f:n", ammount=1))
client.incrementRows([TIncrement(table=name, row=b"n", column=b"f:n", ammount=1)])
client.append(TAppend(table=name, row=b"app", columns=[b"f:a"], values=[b"x"]))
assert client.checkAndPut(name, b"c", b"f:a", None, puts[0], {})
assert not client.checkAndPut(name, b"c", b"f:a", b"other", puts[0], {})
client.deleteAll(name, b"row", b"f:a", {})
client.deleteAllTs(name, b"rowTs", b"f:a", 9, {})
client.deleteAllRow(name, b"rows", {})
client.deleteAllRowTs(name, b"rows", 9, {})
"""


def test_every_mutator_of_thrift1_becomes_an_event(stack, programs) -> None:
    table = stack.table("client")
    programs.watch(table)
    ended = programs.run(CONNECT + EVERY_MUTATOR, table)
    assert ended.returncode == 0, ended.stderr
    found = sorted((p.method, p.outcome.value) for b in programs.batches(table) for p in b.requests)
    unknown = {"increment", "incrementRows"}
    methods = [
        "append",
        "atomicIncrement",
        "checkAndPut",
        "deleteAll",
        "deleteAllRow",
        "deleteAllRowTs",
        "deleteAllTs",
        "increment",
        "incrementRows",
        "mutateRow",
        "mutateRowTs",
        "mutateRows",
        "mutateRowsTs",
    ]
    assert found == [(m, "unknown" if m in unknown else "applied") for m in methods]


def test_rows_get_the_notify_cells_that_a_watch_asks_for(stack, subscriber, programs) -> None:
    table = stack.table("client", families=("f", "hg"))
    columns = (Notify(), Notify("flow", ("flow",)))
    watches = tuple(Watch(table, notify=column) for column in columns)
    subscriber.send(WatchList(1, "tests", int(time.time()), watches))
    ended = programs.run(CONNECT + EVERY_MUTATOR, table, HEADGATE_CLIENT_ORIGIN_DATAFLOW="flow")
    assert ended.returncode == 0, ended.stderr
    found = {
        row: {column for column in cells if column.startswith(b"hg:")}
        for row, cells in stack.happybase().table(table).scan()
    }
    own = {b"hg:all", b"hg:flow"}
    # Neither counters and appends nor the one column of a checkAndPut have room for a put.
    none: set[bytes] = set()
    assert found == {b"row": own, b"rowTs": own, b"n": none, b"app": none, b"c": none}
    assert {column for batch in programs.batches(table) for column in batch.columns} == {
        b"f:a",
        b"f:n",
        b"",
    }


def test_a_table_that_nobody_watches_makes_no_events(stack, programs) -> None:
    table = stack.table("client")
    programs.watch()
    program = CONNECT + "connect().table(sys.argv[1]).put(b'r', {b'f:a': b'1'})"
    assert programs.run(program, table).returncode == 0
    assert programs.messages(table) == []
    assert dict(stack.happybase().table(table).scan()) == {b"r": {b"f:a": b"1"}}


def test_a_clean_end_leaves_nothing_in_the_journal(stack, programs) -> None:
    table = stack.table("client")
    programs.watch(table)
    program = (
        CONNECT
        + """
pool = happybase.ConnectionPool(2, host=os.environ["THRIFT1_HOST"],
                                port=int(os.environ["THRIFT1_PORT"]))
with pool.connection() as connection, connection.table(sys.argv[1]).batch() as batch:
    for i in range(1000):
        batch.put(b"%04d" % i, {b"f:a": b"1"})
"""
    )
    assert programs.run(program, table).returncode == 0
    assert len(programs.cells(table)) == 1000
    left = sorted(path.name for path in (programs.journal / "0").iterdir())
    assert left == ["epoch", "lock"]


WRITE_UNTIL_KILLED = """
table = connect().table(sys.argv[1])
i = 0
while True:
    row = b"%s-%06d" % (sys.argv[2].encode(), i)
    table.put(row, {b"f:a": b"1"})
    print(row.decode(), flush=True)
    i += 1
"""


def _kill_after(process, rows: int) -> set[bytes]:
    """Return the rows that were acknowledged to a program that is killed in the middle."""
    acknowledged = [process.stdout.readline() for _ in range(rows)]
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    return {
        line.strip().encode()
        for line in (*acknowledged, *rest.splitlines(keepends=True))
        if line.endswith("\n")
    }


def test_what_a_killed_program_wrote_is_told_at_its_next_start(stack, programs) -> None:
    table = stack.table("client")
    programs.watch(table)
    acknowledged = _kill_after(programs.start(CONNECT + WRITE_UNTIL_KILLED, table, "killed"), 150)
    programs.run(CONNECT + "connect().table(sys.argv[1]).put(b'next', {b'f:a': b'1'})", table)
    told = {row for row, *_ in programs.cells(table)}
    assert len(acknowledged) >= 150
    assert acknowledged <= told
    outcomes = {p.outcome for b in programs.batches(table) if b.recovered for p in b.requests}
    assert outcomes <= {Outcome.UNKNOWN}


def test_a_sibling_publishes_what_a_killed_process_left(stack, programs) -> None:
    table = stack.table("client")
    programs.watch(table)
    waiting = CONNECT + "connect(); print('there', flush=True); sys.stdin.readline()"
    sibling = programs.start(waiting)
    assert sibling.stdout.readline() == "there\n"
    acknowledged = _kill_after(programs.start(CONNECT + WRITE_UNTIL_KILLED, table, "killed"), 50)
    programs.await_rows(table, acknowledged)
    out, error = sibling.communicate("\n", timeout=30)
    assert (sibling.returncode, out) == (0, "")
    assert "Traceback" not in error
    assert {b.observer[-2:] for b in programs.batches(table)} == {".1"}


FORKS = """
import multiprocessing
table = connect().table(sys.argv[1])
table.put(b"parent", {b"f:a": b"1"})
def write(number):
    connect().table(sys.argv[1]).put(b"child-%d" % number, {b"f:a": b"1"})
context = multiprocessing.get_context("fork")
children = [context.Process(target=write, args=(number,)) for number in range(2)]
for child in children:
    child.start()
for child in children:
    child.join()
    assert child.exitcode == 0
if os.fork() == 0:
    connect().table(sys.argv[1]).put(b"forked", {b"f:a": b"1"})
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 3
# The child has closed the connection that both had, as with happybase itself.
connect().table(sys.argv[1]).put(b"parent-again", {b"f:a": b"1"})
"""


def test_forked_children_have_observers_of_their_own(stack, programs) -> None:
    table = stack.table("client")
    programs.watch(table)
    ended = programs.run(CONNECT + FORKS, table)
    assert ended.returncode == 0, ended.stderr
    by_row = {row: b.observer for b in programs.batches(table) for row in b.rows}
    assert set(by_row) == {b"parent", b"child-0", b"child-1", b"forked", b"parent-again"}
    assert by_row[b"parent"] == by_row[b"parent-again"]
    assert len({by_row[row] for row in (b"parent", b"child-0", b"child-1")}) == 3
    assert by_row[b"forked"] != by_row[b"parent"]
    assert not list(programs.journal.glob("*/*.segment"))


def test_writes_go_on_while_kafka_is_not_there_and_are_told_later(stack, programs) -> None:
    table = stack.table("client")
    programs.watch(table)
    write = CONNECT + "connect().table(sys.argv[1]).put(sys.argv[2].encode(), {b'f:a': b'1'})"
    ended = programs.run(
        write,
        table,
        "early",
        HEADGATE_CLIENT_KAFKA_BOOTSTRAP="127.0.0.1:9",
        HEADGATE_CLIENT_START_SECONDS="0.5",
        HEADGATE_CLIENT_SHUTDOWN_SECONDS="1",
    )
    assert ended.returncode == 0
    assert "every table is treated as watched" in ended.stderr
    assert programs.run(write, table, "later").returncode == 0
    assert {row for row, *_ in programs.cells(table)} == {b"early", b"later"}


def test_a_mark_stands_behind_what_the_program_wrote(stack, subscriber, programs) -> None:
    table = stack.table("client")
    programs.watch(table)
    program = (
        CONNECT
        + """
table = connect().table(sys.argv[1])
for i in range(100):
    table.put(b"%03d" % i, {b"f:a": b"1"})
print("written", flush=True)
sys.stdin.readline()
"""
    )
    process = programs.start(program, table)
    assert process.stdout.readline() == "written\n"
    marked = subscriber.read(table, subscriber.barrier(table))
    assert sum(len(m.rows) for part in marked for m in part if hasattr(m, "rows")) == 100
    process.communicate("\n", timeout=30)
    assert process.returncode == 0


def test_a_missing_configuration_is_told_with_its_cure(programs) -> None:
    program = CONNECT + "connect()"
    variables = {k: v for k, v in os.environ.items() if not k.startswith("HEADGATE_CLIENT_")}
    del programs.variables["HEADGATE_CLIENT_KAFKA_BOOTSTRAP"]
    ended = programs.run(program, **variables)
    assert ended.returncode == 1
    assert "HEADGATE_CLIENT_CONFIG names a TOML file" in ended.stderr
