"""Content that HBase shows for a cell after all changes that events report.

HBase orders versions and delete markers by timestamp. For a write at the server's time only the
observer's time is known, and the two clocks may differ by ``CLOCKS_APART``. So the order of two
changes is known if both have the server's time, if both have explicit timestamps, or if they are
far enough apart. The content is a guess if the order matters and is unknown, or if a request's
outcome or order is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from headgate.events import CLOCKS_APART


class Moment(Struct, frozen=True):
    """When HBase dates something, in Unix milliseconds, and its place among all that was done."""

    time: int
    """The timestamp; when the request was received, where the server chose one."""
    given: bool
    """True if the client has given the timestamp."""
    place: int
    sure: bool = True
    """True if the change is known to have been made, and in this order."""

    def is_above(self, other: Moment) -> bool | None:
        """Return whether this is dated after the other; None where nobody knows."""
        if self.given == other.given:
            if self.given and self.time != other.time:
                return self.time > other.time
            return self.place > other.place
        if abs(self.time - other.time) <= CLOCKS_APART:
            return None
        return self.time > other.time

    def reaches(self, other: Moment) -> bool | None:
        """Return whether a delete up to this hides the other, which may come later too."""
        if self.given and other.given:
            return self.time >= other.time
        return self.is_above(other)


class Marker(Struct, frozen=True):
    """A delete marker of a row: of all columns that begin so."""

    moment: Moment
    prefix: bytes
    """``family:qualifier``, ``family:``, or empty for all."""
    whole: bool
    """True if the prefix is one column's whole name."""
    exact: bool
    """True if the marker hides one timestamp only."""

    def hides(self, column: bytes, version: Moment) -> bool | None:
        """Return whether it hides a version of a column; None where nobody knows."""
        matches = column == self.prefix if self.whole else column.startswith(self.prefix)
        if not matches:
            return False
        if self.exact:
            same = version.given and version.time == self.moment.time
            near = not version.given and abs(version.time - self.moment.time) <= CLOCKS_APART
            found: bool | None = True if same else None if near else False
        else:
            found = self.moment.reaches(version)
        return None if found and not self.moment.sure else found


class Version(Struct, frozen=True):
    """A version of a cell, and what it holds."""

    moment: Moment
    value: bytes


class Shown(Struct, frozen=True):
    """Version of a cell that HBase shows, if any; ``sure`` is True if this is known."""

    version: Version | None
    sure: bool


def hides(column: bytes, markers: list[Marker], version: Version) -> bool | None:
    """Return whether one of its row's markers hides a version; None where nobody knows."""
    found = [marker.hides(column, version.moment) for marker in markers]
    return True if True in found else None if None in found else False


def shown(column: bytes, versions: list[Version], markers: list[Marker]) -> Shown:
    """Return what HBase shows of a column, by all of its versions and its row's markers."""
    best: Version | None = None
    sure = True
    for version in versions:
        hidden = hides(column, markers, version)
        if hidden:
            continue
        if hidden is None or not version.moment.sure:
            sure = False
        if best is not None:
            above = version.moment.is_above(best.moment)
            sure = sure and above is not None
            if not (above or (above is None and version.moment.time >= best.moment.time)):
                continue
        # Of one that may be hidden or undone the other is shown, if it is there.
        best = version
    return Shown(best, sure)


def unsure(version: Version) -> Version:
    """Return a version of which nobody knows whether it is there."""
    return replace(version, moment=replace(version.moment, sure=False))


def not_below(versions: Iterable[Version], moment: Moment) -> list[Version]:
    """Return the versions that are not certainly dated before a moment."""
    return [one for one in versions if moment.is_above(one.moment) is not True]


def relevant_versions(versions: list[Version], newest: Version) -> list[Version]:
    """Return what may still be shown when one more version was put."""
    if not newest.moment.sure:
        return [*versions, newest]
    return [*not_below(versions, newest.moment), newest]


def relevant_markers(markers: list[Marker], newest: Marker) -> list[Marker]:
    """Return the markers that hide anything when one more was left."""
    if newest.exact or not newest.moment.sure:
        return [*markers, newest]

    def adds(one: Marker) -> bool:
        inside = one.prefix.startswith(newest.prefix) and not (newest.whole and not one.whole)
        same_clock = newest.moment.given == one.moment.given
        return not (inside and same_clock and newest.moment.is_above(one.moment))

    return [*filter(adds, markers), newest]
