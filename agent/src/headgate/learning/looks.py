"""What an output looked like from nearer in waves before, which in part still holds.

What a prediction from far above an output is off by changes slowly. Where it has a step run, from
whose output a skip then looks harmless, the next wave looks as bad from afar, and the step would
run again, and again. So the difference between the two is kept, and what is left of it is added to
the next prediction from afar.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

Persistence = Mapping[str, Mapping[str, float]]
"""By container and by one that is made of it, nearer to the output: which part of the difference
between what is predicted from both is left a wave later, from 0 to 1."""


class Look(Struct, frozen=True):
    """What is predicted from a container in a wave."""

    predicted: float
    """By the model, of this wave alone."""
    carried: float = 0.0
    """That was seen from nearer in a wave before, and is left of it."""

    @property
    def score(self) -> float:
        """What decides."""
        return self.predicted + self.carried


class Difference(Struct, frozen=True):
    """By how much an output looked worse from nearer than from a container, in a wave."""

    wave: int
    nearer: str
    """The container from which it looked so."""
    amount: float


class Looks(Struct, frozen=True):
    """What was seen of one version of an output; nothing of it holds for the next one."""

    version: int = 0
    """The wave in which the output was made."""
    wave: int = 0
    looks: dict[str, Look] = {}
    """Of that wave, by container."""
    differences: dict[str, Difference] = {}
    """The latest, by container."""

    def looked(
        self, version: int, wave: int, predicted: Mapping[str, float], persistence: Persistence
    ) -> Looks:
        """Return what is known after a look from containers that are of a wave.

        Looking once more in the same wave changes nothing.

        Args:
            version: the wave in which the output was made last.
            wave: of the containers, after it.
            predicted: violations, by container; infinite or NaN where they are not known.
            persistence: of all containers.
        """
        before = self if version == self.version else Looks(version)
        looks = dict(before.looks) if wave == before.wave else {}
        for container, score in predicted.items():
            carried = (
                looks[container].carried
                if container in looks
                else _left_of(before.differences.get(container), wave, persistence.get(container))
            )
            looks[container] = Look(score, carried)
        differences = dict(before.differences)
        for container, look in looks.items():
            seen = [nearer for nearer in persistence.get(container, ()) if nearer in looks]
            # What was seen from still nearer says more.
            last = [c for c in seen if not any(n in persistence.get(c, ()) for n in seen)]
            if last:
                nearer = max(last, key=lambda each: looks[each].score)
                amount = looks[nearer].score - look.predicted
                if math.isfinite(amount):
                    differences[container] = Difference(wave, nearer, amount)
        return Looks(version, wave, looks, differences)


def _left_of(found: Difference | None, wave: int, persistence: Mapping[str, float] | None) -> float:
    """Return what is left in a wave of a difference, by the persistence of its container."""
    if found is None or persistence is None:
        return 0.0
    left: float = persistence.get(found.nearer, 0.0) ** (wave - found.wave)
    return left * found.amount
