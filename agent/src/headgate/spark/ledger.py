"""The run ledger: which attempt of a run may commit, settled by compare-and-set in HBase.

A run's row holds one cell that only ever moves forward: absent, claimed under rising fencing
tokens, committed. Every move is one compare-and-set against the value read before, so that of any
number of claimers one gets each token, and of any number of attempts one commits. A commit may name
a result, which that one cell then decides too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from headgate.client import Columns, ConnectionFailed
from headgate.events import Origin, agent_origin

LEDGER_FAMILY: Final = "run"
"""The column family of the ledger's cells; the table must have it."""

RESULT_CHARACTERS: Final = 8_192
"""Of a run's result at most: it is a name, which is in every checkpoint of its dataflow."""

_STATE: Final = b"run:state"
_RESULT: Final = b"run:result-"
"""The column of what an attempt has named; its token follows."""

_PAUSES: Final = (0.5, 1.0, 2.0)
"""Seconds between tries where no reply came: an observer restarts in less."""

T = TypeVar("T")


class RunKey(Struct, frozen=True):
    """A run: one launch of one action, whatever the number of its attempts."""

    dataflow: str
    action: str
    run: str

    @property
    def row(self) -> bytes:
        """The ledger's row: the parts quoted, so that no two runs meet."""
        return self._row_of("run")

    @property
    def result_row(self) -> bytes:
        """The row of what programs have named that do not commit themselves."""
        return self._row_of("result")

    def _row_of(self, kind: str) -> bytes:
        parts = (quote(part, safe="") for part in (self.dataflow, self.action, self.run))
        return "/".join((kind, *parts)).encode()


class Free(Struct, frozen=True, tag="free"):
    """No attempt has claimed the run."""


class Claimed(Struct, frozen=True, tag="claimed"):
    """An attempt may be under way. ``holder`` tells two claimers with one token apart."""

    attempt: int
    token: int
    holder: str


class Committed(Struct, frozen=True, tag="committed"):
    """The run is over: this attempt's writes are what it leaves."""

    attempt: int
    token: int
    holder: str
    result: str = ""
    """What the attempt's step named; empty where it named nothing."""


RunState = Free | Claimed | Committed


class LedgerError(Exception):
    """A row of the ledger table that cannot be the ledger's."""


class ResultError(ValueError):
    """What no commit can name: no text, more of it than allowed, or not to be encoded."""


def checked_result(result: object) -> str:
    """Return a result that a commit can name.

    Raises:
        ResultError: it is none.
    """
    if not isinstance(result, str):
        flaw = f"this is a value of type {type(result).__name__}"
    elif len(result) > RESULT_CHARACTERS:
        flaw = f"this one has {len(result):,}"
    elif any("\ud800" <= character <= "\udfff" for character in result):
        flaw = "this one holds half of a surrogate pair"
    else:
        return result
    message = (
        f"the result of a run is text of at most {RESULT_CHARACTERS:,} characters, and {flaw}; "
        "write what is longer to a file and name that"
    )
    raise ResultError(message)


def until_answered(step: Callable[[], T]) -> T:
    """Return what a step returns that may be repeated: it is, some times, while no reply comes.

    Raises:
        ConnectionFailed: no reply came to the last time either.
    """
    for pause in _PAUSES:
        try:
            return step()
        except ConnectionFailed:
            time.sleep(pause)
    return step()


class LostClaim(Exception):
    """Another attempt holds or has committed the run; this one has no say any more.

    Attributes:
        state: what the ledger says instead.
    """

    def __init__(self, key: RunKey, attempt: int, token: int, state: RunState) -> None:
        super().__init__(
            f"run {key.run} of {key.dataflow}/{key.action}: attempt {attempt} with token {token} "
            f"cannot go on, the ledger says {_words(state)}"
        )
        self.state = state


def _words(state: RunState) -> str:
    match state:
        case Free():
            return "nobody has claimed it"
        case Claimed(attempt=attempt, token=token):
            return f"attempt {attempt} claimed it with token {token}"
        case Committed(attempt=attempt, token=token):
            return f"attempt {attempt} committed it with token {token}"


class LedgerTable(Protocol):
    """What the ledger needs of a connection; ``Thrift2Connection`` has it."""

    def get(self, table: str, row: bytes, columns: Iterable[bytes] = ()) -> dict[bytes, bytes]:
        """Return a row's newest values."""

    def check_and_put(
        self,
        table: str,
        row: bytes,
        column: bytes,
        expected: bytes | None,
        put: Columns,
        *,
        origin: Origin | None = None,
    ) -> bool:
        """Put if the column has the expected value (None: is absent); return whether it had."""


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Claimed | Committed] = msgspec.json.Decoder(Claimed | Committed)


class RunLedger:
    """The ledger in one HBase table, through one connection.

    Every method may be repeated after a ``ConnectionFailed``, by a ledger on a new connection with
    the same arguments: a step that was already taken is found taken.

    Args:
        connection: to an observer, or to HBase.
        table: the ledger's.
        proof: an agent's, that it is one who writes to the run's row; empty where nobody asks.
    """

    def __init__(self, connection: LedgerTable, table: str, proof: bytes = b"") -> None:
        self._connection = connection
        self._table = table
        self._origin = agent_origin(proof) if proof else None

    def state(self, key: RunKey) -> RunState:
        """Return where the run stands.

        Raises:
            LedgerError: the row was not written by a ledger.
        """
        return self._read(key)[1]

    def _read(self, key: RunKey) -> tuple[bytes | None, RunState]:
        value = self._connection.get(self._table, key.row, (_STATE,)).get(_STATE)
        if value is None:
            return None, Free()
        try:
            return value, _decoder.decode(value)
        except msgspec.MsgspecError as error:
            message = (
                f"row {key.row!r} of table {self._table} holds {value!r}, which no run ledger "
                f"wrote; delete the row, or give headgate a table of its own: {error}"
            )
            raise LedgerError(message) from error

    def _move(self, key: RunKey, before: bytes | None, after: Claimed | Committed) -> bool:
        return self._connection.check_and_put(
            self._table,
            key.row,
            _STATE,
            before,
            {_STATE: _encoder.encode(after)},
            origin=self._origin,
        )

    def claim(self, key: RunKey, attempt: int, token: int, holder: str) -> Claimed:
        """Claim the run for an attempt, whose token must be above that of every earlier attempt.

        ``holder`` is the claimer's own (a random name): a second claimer with the same token loses.

        Raises:
            LostClaim: the run is committed, or claimed under this token or a higher one.
        """
        wanted = Claimed(attempt, token, holder)
        while True:
            # Each turn that does not return finds a higher token or a commit, so this ends.
            value, state = self._read(key)
            if state == wanted:
                return wanted
            if isinstance(state, Committed) or (
                isinstance(state, Claimed) and state.token >= token
            ):
                raise LostClaim(key, attempt, token, state)
            if self._move(key, value, wanted):
                return wanted

    def commit(self, key: RunKey, claim: Claimed, result: str = "") -> Committed:
        """Commit the run by the attempt that holds the claim; all later claims fail.

        Args:
            key: the run.
            claim: the attempt's.
            result: what its step named; a repeated commit must name the same.

        Raises:
            LostClaim: the claim is not the run's current one.
        """
        done = Committed(claim.attempt, claim.token, claim.holder, result)
        if self._move(key, _encoder.encode(claim), done):
            return done
        state = self.state(key)
        if state == done:
            return done
        raise LostClaim(key, claim.attempt, claim.token, state)


class ResultTable(Protocol):
    """What ``NamedResults`` needs of a connection; ``Thrift2Connection`` has it."""

    def get(self, table: str, row: bytes, columns: Iterable[bytes] = ()) -> dict[bytes, bytes]:
        """Return a row's newest values."""

    def put(
        self,
        table: str,
        rows: Iterable[tuple[bytes, Columns]],
        *,
        origin: Origin | None = None,
    ) -> int:
        """Write rows."""


class NamedResults:
    """What programs have named that do not commit themselves: whoever waits for them does.

    Each attempt has a column of its own, so that one that goes on after the next has begun changes
    nothing of what that one names.

    Args:
        connection: to an observer, or to HBase.
        table: the ledger's.
        proof: an agent's, that lets write to the run's row of results; empty where nobody asks.
    """

    def __init__(self, connection: ResultTable, table: str, proof: bytes = b"") -> None:
        self._connection = connection
        self._table = table
        self._origin = agent_origin(proof) if proof else None

    def name(self, key: RunKey, token: int, result: str) -> None:
        """Keep what the attempt with a token names; in place of what it has named before."""
        cells = {_RESULT + b"%d" % token: result.encode()}
        self._connection.put(self._table, [(key.result_row, cells)], origin=self._origin)

    def named(self, key: RunKey, token: int) -> str:
        """Return what the attempt with a token has named last; empty where it has not.

        Raises:
            LedgerError: something else has written there.
        """
        column = _RESULT + b"%d" % token
        value = self._connection.get(self._table, key.result_row, (column,)).get(column, b"")
        try:
            return checked_result(value.decode())
        except ValueError as error:
            message = (
                f"row {key.result_row!r} of table {self._table} holds what no run has named; "
                f"delete it: {error}"
            )
            raise LedgerError(message) from error
