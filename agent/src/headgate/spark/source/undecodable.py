"""Values that a container's codec cannot read: what becomes of them, and which there were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headgate.engine import Codec, OnUndecodable
from headgate.events import printable_key
from headgate.spark.source.values import ValueType, to_arrow

_PRINTED: Final = 20
"""Values that are printed one by one; of further ones their number is."""

_SHOWN_BYTES: Final = 60
"""Of a value, in messages."""

Cell = tuple[bytes, bytes]
"""A row and a column (``family:qualifier``)."""


class UndecodableValue(ValueError):
    """A value that its codec cannot read, where that is to fail the step."""


class UndecodedValues:
    """Counts the values that could not be decoded, and prints which they were.

    Args:
        say: takes each line for people.

    Attributes:
        count: how many there were.
        first: the first of them in words; empty where there was none.
    """

    def __init__(self, say: Callable[[str], object] = print) -> None:
        self.count = 0
        self.first = ""
        self._say = say

    def decode(
        self,
        values: Sequence[bytes | None],
        codec: Codec,
        kind: ValueType,
        policy: OnUndecodable,
        cell: Callable[[int], Cell],
    ) -> tuple[pa.Array, set[int]]:
        """Return the values as an Arrow array, null where absent or not decodable.

        Args:
            values: one for each place; None where absent.
            codec: how they are written.
            kind: what they become.
            policy: what becomes of a value that does not decode.
            cell: returns where the value of a place stands.

        Returns:
            The array, and the places that the policy leaves out.

        Raises:
            UndecodableValue: a value does not decode and the policy is to fail.
        """
        decoded = to_arrow(values, codec, kind)
        places = _undecoded(values, decoded)
        for place in places:
            self._take(values[place] or b"", codec, kind, policy, *cell(place))
        return decoded, set(places) if policy is OnUndecodable.SKIP else set()

    def _take(
        self,
        value: bytes,
        codec: Codec,
        kind: ValueType,
        policy: OnUndecodable,
        row: bytes,
        column: bytes,
    ) -> None:
        words = (
            f"row {printable_key(row)}, column {printable_key(column)}: {_shown(value)} is no "
            f"{kind.value} in codec {codec.word}"
        )
        if policy is OnUndecodable.FAIL:
            message = (
                f"{words}; correct the cell or the container's codec, or let the step do without "
                "the value: on_undecodable: null, or skip"
            )
            raise UndecodableValue(message)
        self.count += 1
        self.first = self.first or words
        if self.count <= _PRINTED:
            self._say(f"{words}; {_BECAME[policy]}")
        elif self.count == _PRINTED + 1:
            self._say("further values that do not decode are counted, and not printed")


class Decoding(Struct, frozen=True):
    """How the values of a container become those of a frame."""

    codec: Codec
    kind: ValueType
    policy: OnUndecodable

    def decode(
        self,
        values: Sequence[bytes | None],
        undecoded: UndecodedValues,
        cell: Callable[[int], Cell],
    ) -> tuple[pa.Array, set[int]]:
        """Return what ``UndecodedValues.decode`` does."""
        return undecoded.decode(values, self.codec, self.kind, self.policy, cell)


_BECAME: Final = {
    OnUndecodable.NULL: "it is read as null",
    OnUndecodable.SKIP: "it is left out",
}


def _undecoded(values: Sequence[bytes | None], decoded: pa.Array) -> list[int]:
    if decoded.null_count == 0:
        return []
    places = pc.indices_nonzero(decoded.is_null()).to_pylist()
    return [place for place in places if values[place] is not None]


def _shown(value: bytes) -> str:
    if len(value) <= _SHOWN_BYTES:
        return repr(value)
    return f"{value[:_SHOWN_BYTES]!r}… ({len(value)} bytes)"
