"""Dataflows that share a Spark session: what has to be the same for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from headgate.flows.dataflow import Dataflow
from headgate.flows.launchers import SessionLauncher


class PoolMember(Struct, frozen=True):
    """A dataflow as its pool sees it."""

    dataflow: str
    pool: str
    spark: dict[str, str]
    roots: tuple[str, ...]
    """Directories of its steps' code, whole paths."""


def session_roots(dataflow: Dataflow, directory: str) -> tuple[str, ...]:
    """Return the directories of the code of a dataflow's steps in warm sessions, each once.

    Args:
        dataflow: as it was read.
        directory: the dataflow file's, from which they start.
    """
    launchers = (one for one in dataflow.launchers.values() if isinstance(one, SessionLauncher))
    parts = (part for one in launchers for part in one.python_path)
    return tuple(dict.fromkeys(str(Path(directory) / Path(part).expanduser()) for part in parts))


def pool_member(dataflow: Dataflow, directory: str) -> PoolMember | None:
    """Return a dataflow as its pool sees it; None where it has none, or nothing to run there."""
    roots = session_roots(dataflow, directory)
    if not dataflow.spark_pool or not roots:
        return None
    return PoolMember(dataflow.name, dataflow.spark_pool, dataflow.spark, roots)


def pool_conflict(member: PoolMember, others: Iterable[PoolMember]) -> str | None:
    """Return which key keeps a dataflow out of its pool, and whose it differs from; None if none.

    A dataflow never differs from its own former self.
    """
    for other in others:
        if (other.pool, other.dataflow == member.dataflow) != (member.pool, False):
            continue
        for key in sorted({*member.spark, *other.spark}):
            mine, theirs = member.spark.get(key), other.spark.get(key)
            if mine != theirs:
                return _words(member, other, f"setting {key!r} of spark", mine, theirs)
        if member.roots != other.roots:
            mine, theirs = ", ".join(member.roots), ", ".join(other.roots)
            return _words(member, other, "python_path", mine, theirs)
    return None


def _words(
    member: PoolMember, other: PoolMember, key: str, mine: str | None, theirs: str | None
) -> str:
    return (
        f"{key} is {_shown(mine)} in {member.dataflow} and {_shown(theirs)} in {other.dataflow}, "
        f"which is in pool {member.pool!r} too: dataflows of a pool share one Spark session; make "
        "them equal, or give this one another spark_pool"
    )


def _shown(value: str | None) -> str:
    return "not set" if value is None else repr(value)
