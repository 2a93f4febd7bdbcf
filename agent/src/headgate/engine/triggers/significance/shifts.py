"""Whether what is measured run by run has shifted: a cumulative sum of what is out of tolerance."""

from __future__ import annotations

import math

from msgspec import Struct

_SLACK = 1.0
"""Standard deviations by which a run may be out beyond the tolerance and say nothing: half of the
least shift that is to be noticed soon."""
_SHARE = 0.5
"""Of what it takes, that one run may say at most: one alone may be chance, however far out."""
_LEAST_SCALE = 0.5
"""Of the tolerance, that counts as a standard deviation where runs hardly differ."""
_FEWEST = 3
"""Runs without which nothing is known of chance."""
_KEPT = 24
"""Runs by which the mean and the chance are known."""
_FLOOR = 1e-9
"""Of the mean: what stands for no change in logarithms."""


class Shifts(Struct):
    """A two-sided CUSUM (Page 1954), which starts by itself (Hawkins 1987).

    What runs are compared with is the mean of those before them, and their own spread: neither has
    to be known beforehand. Runs are compared as logarithms, as changes that are sums of many have
    few that are large. Those since a sum was last zero are under suspicion, and are not counted
    among what they are compared with.
    """

    calm: list[float] = []
    """The last changes that were not under suspicion."""
    suspected: list[float] = []
    """Those since."""
    sums: tuple[float, float] = (0.0, 0.0)
    """What speaks for more and for less, in standard deviations."""
    runs: tuple[int, int] = (0, 0)
    """Since when each is above zero."""

    def note(self, change: float, least: float, tolerance: float, enough: float) -> int:
        """Take the change of a run; return how many runs ago it has shifted, 0 if it has not.

        Args:
            change: what the run has changed; ratios and sums of one sign.
            least: the tolerance is a share of this, or of the mean where that is more.
            tolerance: share by which the mean may differ.
            enough: standard deviations that runs must be out together.
        """
        mean = math.fsum(self.calm) / max(1, len(self.calm))
        if len(self.calm) >= _FEWEST and mean > 0:
            chance = _log_deviation(self.calm, mean)
            band = math.log1p(tolerance * max(1.0, least / mean))
            scale = max(chance, _LEAST_SCALE * band)
            out = math.log(max(change / mean, _FLOOR)) + chance**2 / 2
            self._add(out, band, scale, enough)
            # Nor may one alone move what later ones are compared with.
            farthest = math.exp(band + (_SLACK + _SHARE * enough) * scale)
            change = min(max(change, mean / farthest), mean * farthest)
        else:
            self.sums, self.runs = (0.0, 0.0), (0, 0)
        self.suspected.append(change)
        calm = len(self.suspected) - max(self.runs)
        self.calm = [*self.calm, *self.suspected[:calm]][-_KEPT:]
        del self.suspected[:calm]
        side = 0 if self.sums[0] >= self.sums[1] else 1
        return self.runs[side] if self.sums[side] >= enough else 0

    def _add(self, out: float, band: float, scale: float, enough: float) -> None:
        sums, runs = [], []
        for sign, total, number in zip((1, -1), self.sums, self.runs, strict=True):
            said = min((sign * out - band) / scale - _SLACK, _SHARE * enough)
            sums.append(max(0.0, total + said))
            runs.append(number + 1 if sums[-1] > 0 else 0)
        self.sums, self.runs = (sums[0], sums[1]), (runs[0], runs[1])


def _log_deviation(changes: list[float], mean: float) -> float:
    """Return the standard deviation of the logarithm, of a run that is compared with these.

    More than theirs, for neither their mean nor their spread is known exactly.
    """
    number = len(changes)
    variance = math.fsum((c - mean) ** 2 for c in changes) / (number - 1) / mean**2
    inexact = math.sqrt(1 + 1 / number) * (1 + 4 / (number - 1))
    return math.sqrt(math.log1p(variance * inexact**2))
