"""Types of columns of files and topics, by Arrow's names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headgate.flows.grammar.kinds import MapOf, Single
from headgate.flows.grammar.problems import Findings
from headgate.flows.grammar.tree import Mapping, Scalar, Tree

_WITH_PARTS: Final = (
    r"timestamp\[(?:s|ms|us|ns), ?tz=[A-Za-z0-9_+:/\-]{1,64}\]"
    r"|decimal\((?:[1-9]|[12][0-9]|3[0-8]), ?[0-9]{1,2}\)"
)
"""Pattern of types that have a time zone, or digits before and after the point."""
_DECIMAL: Final = re.compile(r"decimal\((\d+), ?(\d+)\)")
_ZONED: Final = re.compile(r"timestamp\[\w+, ?tz=(.+)\]")
_OFFSET: Final = re.compile(r"[+-](?:[01]\d|2[0-3]):[0-5]\d")


def columns_kind(words: tuple[str, ...], name: str) -> MapOf:
    """Return the kind of a mapping from columns to types.

    Args:
        words: types without parts.
        name: pattern of the columns' names.
    """
    listed = (*words, "timestamp[us, tz=UTC]", "decimal(20, 2)")
    return MapOf(
        Single(
            "the name of a type",
            pattern=_WITH_PARTS,
            words=words,
            rule=f"types are Arrow's: {', '.join(listed)}",
        ),
        "types by column",
        name,
        "column",
        at_least=1,
    )


def read_columns(tree: Tree | None, findings: Findings) -> dict[str, str]:
    """Return the types by column that a matched tree describes, and note what cannot be."""
    entries = tree.entries.items() if isinstance(tree, Mapping) else ()
    columns = {name: one.value for name, one in entries if isinstance(one.value, Scalar)}
    _check(columns.values(), findings)
    return {name: written.text for name, written in columns.items()}


def _check(written: Iterable[Scalar], findings: Findings) -> None:
    for one in written:
        if (zoned := _ZONED.fullmatch(one.text)) and not _is_zone(zoned[1]):
            findings.error(
                one.at,
                f"there is no time zone `{zoned[1]}`",
                "write a zone such as `UTC` or `Europe/Lisbon`, or an offset such as `+09:00`",
            )
        digits = _DECIMAL.fullmatch(one.text)
        if digits and int(digits[2]) > int(digits[1]):
            findings.error(
                one.at,
                f"`{one.text}` has more digits after the point than in all",
                "write all digits first, then those after the point: `decimal(20, 2)`",
            )


def _is_zone(name: str) -> bool:
    if _OFFSET.fullmatch(name):
        return True
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # what leads out of the zones, too
        return False
    return True
