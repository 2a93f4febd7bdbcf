"""Numbers with more digits than a float64 holds: a float64, and beside it what it leaves out.

``complex(number, rest)`` stands for number + rest. Python and NumPy compare both parts, so that
unequal numbers are unequal however close they are, and differences of integers of 64 bits are
exact. A number that a float64 holds has no rest, and needs no more room than before.
"""

from __future__ import annotations

import struct
import zlib
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WHOLE: Final = float(1 << 53)
"""Up to here a float64 holds each integer."""
DIGITS: Final = 15
"""Up to so many digits two unequal decimals are never the same float64."""
_TINY: Final = 1e-290  # below, a float64 holds fewer digits
_CONTEXT: Final = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
_MARK: Final = (1 << 24) - 1
"""The last bits of a rest that cannot be exact: a checksum of all digits stands in them."""


class WrittenNumber(float):
    """A float64 with the text that it was read from, where that has many digits."""

    __slots__ = ("text",)

    def __new__(cls, text: str) -> WrittenNumber:
        """Return the number that a text says."""
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


def number_of_text(text: str) -> float:
    """Return the float64 of a decimal; it keeps its text where others may be the same float64."""
    number = float(text)
    exponent = "e" in text or "E" in text
    return WrittenNumber(text) if is_close(number, len(text), exponent=exponent) else number


def is_close(number: float, length: int, *, exponent: bool) -> bool:
    """Return whether other decimals may be the same float64.

    Args:
        number: the float64, finite.
        length: of the text.
        exponent: whether the text has one.
    """
    if length > DIGITS or not -WHOLE < number < WHOLE:
        return True
    return exponent and -_TINY < number < _TINY


def with_rest_of_whole(number: float, exact: int) -> float | complex:
    """Return an integer whose float64 is ``number``."""
    rest = exact - int(number)
    return complex(number, _rest(float(rest), rest, b"%d" % exact)) if rest else number


def with_rest_of_text(number: float, text: str) -> float | complex:
    """Return the decimal of a text whose float64 is ``number``: finite, with digits and no ``_``.

    A decimal that is not whole has no rest where it is the shortest of its float64.
    """
    if text == repr(number) and abs(number) < WHOLE:
        return number
    try:
        exact = Decimal(text.strip())
        if not exact:
            return number
        if exact == exact.to_integral_value():
            return with_rest_of_whole(number, int(exact))
        rest = _CONTEXT.subtract(exact, Decimal(repr(number)))
    except InvalidOperation:  # an exponent that not even a Decimal has
        return complex(number, _marked(0.0, text.strip().encode()))
    if not rest:
        return number
    _, digits, exponent = exact.as_tuple()
    written = bytes(digits).rstrip(b"\0")
    place = int(exponent) + len(digits) - len(written)
    return complex(number, _rest(float(rest), rest, written + b"e%d" % place))


def _rest(rest: float, exact: int | Decimal, written: bytes) -> float:
    return rest if rest == exact else _marked(rest, written)


def _marked(rest: float, written: bytes) -> float:
    (bits,) = struct.unpack("<q", struct.pack("<d", rest))
    mark = zlib.crc32(written) & _MARK or 1
    (marked,) = struct.unpack("<d", struct.pack("<q", bits & ~_MARK | mark))
    return float(marked)


def wholes_with_rest(exact: NDArray[np.int64]) -> NDArray[Any]:
    """Return integers as float64 where all are ones, else as complex numbers, shape (n,)."""
    numbers: NDArray[Any] = exact.astype("f8")
    if not (abs(numbers) >= WHOLE).any():
        return numbers
    high, low = (exact >> 32).astype("f8") * 2.0**32, (exact & 0xFFFFFFFF).astype("f8")
    rest = low - (numbers - high)  # exact (Dekker, "A floating-point technique", 1971: Fast2Sum)
    return numbers + 1j * rest if rest.any() else numbers


def numbers_in(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the float64 of each number without its rest."""
    return values.real


def gap(new: float | complex, old: float | complex) -> float:
    """Return |x−x′|."""
    difference = new - old
    if isinstance(difference, float):
        return abs(difference)
    return abs(difference.real + difference.imag)


def gaps(new: NDArray[Any], old: NDArray[Any]) -> NDArray[np.float64]:
    """Return |x−x′| of each pair."""
    found: NDArray[np.float64]
    if new.dtype.kind != "c" and old.dtype.kind != "c":
        found = abs(new - old)
    else:
        found = abs((new.real - old.real) + (new.imag - old.imag))
    return found
