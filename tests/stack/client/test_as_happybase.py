"""What a program meets with the drop-in is what it meets with happybase."""

from __future__ import annotations

import json

import pytest

from headgate.events import Outcome

pytestmark = pytest.mark.stack

PROGRAM = """
import json, os, socket, sys, threading
import happybase

there = {"host": os.environ["THRIFT1_HOST"], "port": int(os.environ["THRIFT1_PORT"])}
said = []

def attempt(name, call):
    try:
        said.append([name, "returned", repr(call())])
    except Exception as error:
        kinds = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
        text = getattr(error, "message", None) or str(error)
        if isinstance(text, bytes):
            text = text.decode()
        # HBase's stack traces have object numbers in them.
        said.append([name, "raised", kinds, text.split("\\n")[0].split("@")[0][:80]])

connection = happybase.Connection(**there, timeout=20000)
table = connection.table(sys.argv[1])

def batch_that_fails(transaction):
    with table.batch(transaction=transaction) as batch:
        batch.put(b"fails-%d" % transaction, {b"f:a": b"1"})
        raise KeyError("the program's own")

def batch_of_both():
    with table.batch(timestamp=77, batch_size=2) as batch:
        for number in range(5):
            batch.put(b"both-%d" % number, {b"f:a": b"1"})
        batch.delete(b"both-0", [b"f:a"])

def exhausted():
    pool = happybase.ConnectionPool(1, **there)
    with pool.connection() as first:
        with pool.connection() as again:
            assert first is again
        found = []
        def other():
            try:
                with pool.connection(timeout=0.05):
                    found.append("got one")
            except happybase.NoConnectionsAvailable as error:
                found.append(str(error))
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return found

def replaced():
    # After a failure of the transport the pool's connection is another one.
    pool = happybase.ConnectionPool(1, **there)
    with pool.connection() as connection:
        before = connection.client
    try:
        with pool.connection() as connection:
            raise socket.error("broken")
    except socket.error:
        pass
    with pool.connection() as connection:
        connection.table(sys.argv[1]).put(b"pool", {b"f:a": b"1"})
        return connection.client is before

def prefixed():
    other = happybase.Connection(**there, table_prefix=sys.argv[1].split("_")[0])
    other.table(sys.argv[1].split("_")[1]).put(b"prefixed", {b"f:a": b"1"})
    return other.table(sys.argv[1].split("_")[1]).row(b"prefixed")

def later():
    other = happybase.Connection(**there, autoconnect=False)
    try:
        other.table(sys.argv[1]).row(b"early")
    except Exception as error:
        kind = type(error).__qualname__
    other = happybase.Connection(**there, autoconnect=False)
    other.open()
    other.table(sys.argv[1]).put(b"late", {b"f:a": b"1"})
    other.close()
    other.close()
    return kind

attempt("no such table", lambda: connection.table("nowhere").put(b"r", {b"f:a": b"1"}))
attempt("no such family", lambda: table.put(b"r", {b"g:a": b"1"}))
attempt("not bytes", lambda: table.put(b"r", {b"f:a": 5}))
attempt("counter of no number", lambda: [table.put(b"n", {b"f:n": b"x"}),
                                         table.counter_inc(b"n", b"f:n")])
attempt("counter", lambda: [table.counter_inc(b"m", b"f:n", 3), table.counter_dec(b"m", b"f:n"),
                            table.counter_set(b"m", b"f:n", 9), table.counter_get(b"m", b"f:n")])
attempt("batch with timestamp and transaction",
        lambda: table.batch(timestamp=1, transaction=True, batch_size=2))
attempt("batch fails", lambda: batch_that_fails(False))
attempt("transaction fails", lambda: batch_that_fails(True))
attempt("batch of both", batch_of_both)
attempt("pool of none", lambda: happybase.ConnectionPool(0, **there))
attempt("pool exhausted", exhausted)
attempt("pool replaces", replaced)
attempt("prefix", prefixed)
attempt("opened later", later)
attempt("nobody listens", lambda: happybase.Connection("127.0.0.1", 9, timeout=2000))
attempt("compact at a binary server", lambda: happybase.Connection(
    **there, protocol="compact", timeout=300).tables())
attempt("rows", lambda: sorted(table.scan()))
print(json.dumps(said))
"""

EXEC = ("-m", "headgate.cli", "exec")


def test_results_and_exceptions_are_happybases_own(stack, programs) -> None:
    tables = [stack.table("same") for _ in range(2)]
    programs.watch(*tables)
    said = []
    for table, through in zip(tables, ((), EXEC), strict=True):
        ended = programs.run(PROGRAM, table, through=through)
        assert ended.returncode == 0, ended.stderr
        said.append(json.loads(ended.stdout.replace(table, "TABLE")))
    plain, swapped = said
    assert len(plain) == 17
    for one, other in zip(plain, swapped, strict=True):
        assert one == other
    assert programs.messages(tables[0]) == []
    told = [
        (cell[0], part.outcome)
        for batch in programs.batches(tables[1])
        for part, cells in _by_request(batch)
        for cell in cells
    ]
    assert {row for row, outcome in told if outcome is Outcome.APPLIED} == {
        b"fails-0",
        *(b"both-%d" % number for number in range(5)),
        b"late",
        b"m",
        b"n",
        b"pool",
        b"prefixed",
    }
    assert b"fails-1" not in {row for row, _ in told}


def _by_request(batch):
    cells = iter(zip(batch.rows, batch.columns, batch.timestamps, batch.values, strict=True))
    for part in batch.requests:
        yield part, [next(cells) for _ in range(part.cells)]
