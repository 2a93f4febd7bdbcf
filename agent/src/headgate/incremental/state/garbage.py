"""Garbage: files that nobody needs any more. Only the decision; who removes them is elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.incremental.state.manifest import Manifest


def unneeded(
    listing: Iterable[str],
    kept_manifests: Mapping[str, Manifest],
    living_prefixes: Iterable[str],
) -> list[str]:
    """Return the names of files that can be removed, in the order of the listing.

    The listing has to be the oldest of the three: taken first, then the attempts that live, then
    the manifests. Otherwise an attempt may begin and commit in between, and what it wrote would be
    taken for garbage.

    Args:
        listing: names of files, of one stage or of several.
        kept_manifests: by name, those that a cursor, a commit or a person may still ask for.
        living_prefixes: of the names that attempts may still be writing (``Writer.prefix``).
    """
    needed = set(kept_manifests).union(*(one.names for one in kept_manifests.values()))
    living = tuple(living_prefixes)
    return [name for name in listing if name not in needed and not name.startswith(living)]
