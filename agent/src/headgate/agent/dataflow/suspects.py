"""Records on which a dataflow fails: found by taking them one by one, and then left out."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.agent.supervision import describe
from headgate.engine import RecordArrived

Place = tuple[str, int, int]
"""Topic, partition and offset."""
_REMEMBERED = 1000
"""Records that are known to be bad: one is needed again only after a restart from before it."""


class Suspects:
    """What is suspected of having ended the thread of one dataflow; it outlives the thread.

    The state of an engine that has raised is not to be trusted, so the dataflow goes on from its
    last checkpoint. Records of which one was to blame are then taken one by one, and the one on
    which the dataflow fails alone is left out from there on. Belongs to one thread at a time.
    """

    def __init__(self) -> None:
        self._suspected: set[Place] = set()
        self._guilty: dict[Place, str] = {}

    def alone(self, place: Place) -> bool:
        """Return whether a record is to be taken by itself."""
        return place in self._suspected

    def reason(self, place: Place) -> str | None:
        """Return why a record is to be left out; None where it is not."""
        return self._guilty.get(place)

    def cleared(self, place: Place) -> None:
        """Note that a record was taken."""
        self._suspected.discard(place)

    def blame(self, records: Sequence[RecordArrived], error: BaseException) -> None:
        """Note that taking these records together has failed."""
        places = [(one.topic, one.partition, one.offset) for one in records]
        if len(places) > 1:
            self._suspected.update(places)
            return
        for place in places:
            self._suspected.discard(place)
            self._guilty[place] = describe(error)
        while len(self._guilty) > _REMEMBERED:
            del self._guilty[next(iter(self._guilty))]
