"""Pairs of waves, where some waves have ended while a run was under way."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from headgate.learning.impact import Counts


class Spacing(Struct, frozen=True, eq=False):
    """Pairs of some waves, and how far apart their waves are."""

    numbers: Counts
    """Numbers of the waves, rising, shape (T,)."""
    reach: int
    """How many waves the two of a pair are apart at most: the horizon of the dataflow."""

    @property
    def horizon(self) -> int:
        """H: how many of these waves lie back, at most, within the reach of any of them."""
        if not len(self.numbers) or self.numbers[-1] - self.numbers[0] == len(self.numbers) - 1:
            return self.reach
        oldest = np.searchsorted(self.numbers, self.numbers - self.reach)
        return int((np.arange(len(self.numbers)) - oldest).max())

    @property
    def gap(self) -> float:
        """Waves from one of these to the next, on average; 1 where they follow one another."""
        if len(self.numbers) < 2:
            return 1.0
        return float(self.numbers[-1] - self.numbers[0]) / (len(self.numbers) - 1)

    def until(self, waves: int) -> Spacing:
        """Return the spacing of the first waves, with their horizon."""
        return replace(self, numbers=self.numbers[:waves])

    def apart(self, horizon: int) -> Counts:
        """Return how many waves lie between those of each pair, by wave and age, (T, H+1)."""
        waves, ages = np.ogrid[: len(self.numbers), : horizon + 1]
        apart: Counts = self.numbers[:, None] - self.numbers[np.maximum(0, waves - ages)]
        return apart

    def there(self, horizon: int) -> npt.NDArray[np.bool_]:
        """Return whether there is such a pair, by wave and age, shape (T, H+1)."""
        waves, ages = np.ogrid[: len(self.numbers), : horizon + 1]
        there: npt.NDArray[np.bool_] = (ages <= waves) & (self.apart(horizon) <= self.reach)
        return there
