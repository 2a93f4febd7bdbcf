"""The run ledger: which attempt of a run may commit, settled by compare-and-set in HBase.

A run's row holds one cell that only ever moves forward: absent, claimed under rising fencing
tokens, committed. Every move is one compare-and-set against the value read before, so that of any
number of claimers one gets each token, and of any number of attempts one commits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol
from urllib.parse import quote

import msgspec
from msgspec import Struct

from headgate.client import Columns
from headgate.events import Origin, agent_origin

LEDGER_FAMILY: Final = "run"
"""The column family of the ledger's cells; the table must have it."""

_STATE: Final = b"run:state"


class RunKey(Struct, frozen=True):
    """A run: one launch of one action, whatever the number of its attempts."""

    dataflow: str
    action: str
    run: str

    @property
    def row(self) -> bytes:
        """The ledger's row: the parts quoted, so that no two runs meet."""
        parts = (quote(part, safe="") for part in (self.dataflow, self.action, self.run))
        return ("run/" + "/".join(parts)).encode()


class Free(Struct, frozen=True, tag="free"):
    """No attempt has claimed the run."""


class Claimed(Struct, frozen=True, tag="claimed"):
    """An attempt may be under way. ``holder`` tells two claimers with one token apart."""

    attempt: int
    token: int
    holder: str


class Committed(Struct, frozen=True, tag="committed"):
    """The run is over: this attempt's writes are the run's result."""

    attempt: int
    token: int
    holder: str


RunState = Free | Claimed | Committed


class LedgerError(Exception):
    """A row of the ledger table that cannot be the ledger's."""


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

    def commit(self, key: RunKey, claim: Claimed) -> Committed:
        """Commit the run by the attempt that holds the claim; all later claims fail.

        Raises:
            LostClaim: the claim is not the run's current one.
        """
        done = Committed(claim.attempt, claim.token, claim.holder)
        if self._move(key, _encoder.encode(claim), done):
            return done
        state = self.state(key)
        if state == done:
            return done
        raise LostClaim(key, claim.attempt, claim.token, state)
