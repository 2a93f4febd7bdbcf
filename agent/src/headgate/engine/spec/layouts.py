"""Numbers of a fixed width in bytes, as HBase's ``Bytes.toBytes`` and Phoenix write them."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Order(StrEnum):
    """Relation between the order of the bytes and the order of the numbers."""

    PLAIN = "plain"
    """No relation: the number's own bits, big-endian (``Bytes.toBytes``)."""
    SORTED = "sorted"
    """The same order (Phoenix).

    An integer's sign bit is flipped. Of a floating-point number the sign bit is flipped where it
    is not negative and all bits are where it is, and then 1 is added.
    """


class Layout(Struct, frozen=True):
    """The bytes of one number."""

    kind: str
    """The letter of its type in ``struct``: ``b h i q`` integers, ``f d`` floats, ``?`` boolean."""
    order: Order = Order.PLAIN
    true: int = 1
    """The byte of a true boolean that is written. Any byte except 0 is read as true."""

    @property
    def width(self) -> int:
        """The number of bytes."""
        return struct.calcsize(">" + self.kind)

    @property
    def whole(self) -> bool:
        """True if the numbers are integers or booleans."""
        return self.kind not in _FLOATS

    @property
    def boolean(self) -> bool:
        """True if the numbers are booleans: 0 is false, 1 is true."""
        return self.kind == "?"

    @property
    def overflow(self) -> float:
        """The least positive number that is rounded to infinity; infinity for doubles."""
        return _OVERFLOWS_FLOAT if self.kind == "f" else math.inf

    def reader(self) -> Callable[[bytes], float]:
        """Return the function from bytes to their number; it raises ``struct.error`` at others."""
        if self.boolean:
            return lambda value: int(_BYTE.unpack(value)[0] != 0)
        plain = struct.Struct(">" + self.kind).unpack
        if self.order is Order.PLAIN:
            return lambda value: plain(value)[0]
        bits = struct.Struct(">" + _UNSIGNED[self.width].upper())
        sign = 1 << 8 * self.width - 1
        if self.whole:
            return lambda value: int(bits.unpack(value)[0]) - sign
        every = 2 * sign - 1

        def read(value: bytes) -> float:
            found = (int(bits.unpack(value)[0]) - 1) & every
            found ^= sign if found & sign else every
            return float(plain(bits.pack(found))[0])

        return read

    def column(self, values: Sequence[bytes]) -> NDArray[Any] | None:
        """Return the numbers in a native type; None where one has another width."""
        if set(map(len, values)) - {self.width}:
            return None
        # A quarter of the start of a command that knows codecs, as they all do, and reads none.
        import numpy as np

        joined = b"".join(values)
        numbers: NDArray[Any]
        if self.boolean:
            numbers = (np.frombuffer(joined, np.uint8) != 0).astype(np.int8)
            return numbers
        if self.order is Order.PLAIN:
            return _native(np.frombuffer(joined, ">" + _NUMPY[self.kind]))
        bits = _native(np.frombuffer(joined, f">u{self.width}"))
        sign = bits.dtype.type(1 << 8 * self.width - 1)
        if self.whole:
            numbers = (bits ^ sign).view(_NUMPY[self.kind])
        else:
            bits = bits - bits.dtype.type(1)
            numbers = np.where(bits & sign, bits ^ sign, ~bits).view(_NUMPY[self.kind])
        return numbers

    def limits(self) -> tuple[int, int]:
        """Return the least and the greatest of the integers."""
        if self.boolean:
            return 0, 1
        half = 1 << 8 * self.width - 1
        return -half, half - 1

    def pack(self, numbers: NDArray[Any]) -> list[bytes]:
        """Return the bytes of numbers that are within the type."""
        import numpy as np

        if self.boolean:
            bits = np.where(numbers != 0, self.true, 0).astype(np.uint8)
        else:
            bits = numbers.astype(_NUMPY[self.kind]).view(f"u{self.width}")
            sign = bits.dtype.type(1 << 8 * self.width - 1)
            if self.order is Order.SORTED and self.whole:
                bits = bits ^ sign
            elif self.order is Order.SORTED:
                bits = np.where(bits & sign, ~bits, bits ^ sign) + bits.dtype.type(1)
        width = self.width
        written = bits.astype(f">u{width}").tobytes()
        return [written[at : at + width] for at in range(0, len(written), width)]


def _native(numbers: NDArray[Any]) -> NDArray[Any]:
    return numbers.astype(numbers.dtype.newbyteorder("="))


_OVERFLOWS_FLOAT: Final = float((1 << 25) - 1 << 103)  # half a step above the greatest float
_BYTE: Final = struct.Struct("B")
_FLOATS: Final = frozenset("fd")
_NUMPY: Final = {"b": "i1", "h": "i2", "i": "i4", "q": "i8", "f": "f4", "d": "f8"}
_UNSIGNED: Final = {1: "b", 2: "h", 4: "i", 8: "q"}
