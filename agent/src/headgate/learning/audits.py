"""Audits: skips that run all the same, so that how often skips violate is seen without bias.

Which ones do is drawn from a hash, so that a replay audits what was audited. The rate is believed
as far as an interval says that holds at all waves at once, however often it is looked at.
"""

from __future__ import annotations

import hashlib
import math
from typing import Final

import msgspec
from msgspec import Struct

SURE_OF_RATE: Final = 0.95
"""Probability with which the interval holds the rate, at all waves of a model together."""
_PRIOR = 0.5
"""Of both parameters of the beta mixture (Jeffreys): narrow for rates near 0, as they should be."""
_EDGE = 1e-12
"""Rates from here to 1 less it are tried."""
_LEAST = 0.25
"""Part of the odds of an audit that is left where a skip is farthest from the threshold."""


def audit_draw(dataflow: str, wave: int) -> float:
    """Return a number in [0, 1) that looks drawn at random: a would-be skip below p is audited.

    It depends on nothing but its arguments (BLAKE2b of both). All outputs of a dataflow have the
    same: audits in one wave share the steps that run for them.
    """
    key = msgspec.msgpack.encode((dataflow, wave))
    digest = hashlib.blake2b(key, digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2.0**53


def audit_probability(share: float, below: float) -> float:
    """Return the probability with which a skip is audited, by how near it is to a run.

    One that is nearly a run costs least to audit, since it would have been one of the next waves,
    and shows most, since violations are there if anywhere. Weighted by 1/p a rate is as unbiased as
    of audits that are drawn evenly.

    Args:
        share: of the skips that are just not runs, from 0 to below 1.
        below: how far the predicted violation is below the threshold, in standard deviations of
            training's residuals; 0 or more.
    """
    odds = share * max(_LEAST, math.exp(-below))
    return odds / (odds + 1.0 - share)


class Interval(Struct, frozen=True):
    """The rates that are not ruled out."""

    low: float
    high: float


class AuditedRate(Struct, frozen=True):
    """How often skips would violate, of all waves; an audit with probability p counts 1/p."""

    waves: int = 0
    """Decided on with audits on: runs, skips and audits."""
    audits: int = 0
    violations: int = 0
    """Found by audits."""
    weight: float = 0.0
    """Σ 1/p of them."""
    least: float = 1.0
    """The smallest p with which a wave was decided on."""

    def unaudited(self, probability: float) -> AuditedRate:
        """Return the rate after a wave that ran as predicted, or was skipped.

        Args:
            probability: p, of auditing a skip in this wave; waves without audits do not count.
        """
        if not probability:
            return self
        return msgspec.structs.replace(
            self, waves=self.waves + 1, least=min(self.least, probability)
        )

    def audited(self, probability: float, *, violated: bool) -> AuditedRate:
        """Return the rate after an audit.

        Raises:
            ValueError: the probability is not in (0, 1], so that there can have been no audit.
        """
        if not 0.0 < probability <= 1.0:
            message = f"an audit is drawn with a probability above 0 up to 1, not {probability}"
            raise ValueError(message)
        return AuditedRate(
            self.waves + 1,
            self.audits + 1,
            self.violations + violated,
            self.weight + violated / probability,
            min(self.least, probability),
        )

    @property
    def rate(self) -> float:
        """Unbiased share of the waves in which a skip would have violated; may pass 1 by chance."""
        return self.weight / self.waves if self.waves else 0.0

    def interval(self, sure: float = SURE_OF_RATE) -> Interval:
        """Return the interval of the mean rate that holds at all waves at once.

        Each wave gives a number in [0, 1] whose mean is the rate times the smallest p. A mixture of
        betting strategies against a supposed mean m has won B(½+k, ½+n-k) / (B(½, ½) mᵏ(1-m)ⁿ⁻ᵏ);
        a mean against which it ever has won 1 / (1 - sure) is ruled out (Ville). That holds for
        numbers in between and for means that move, too (Howard and others, "Time-uniform,
        nonparametric, nonasymptotic confidence sequences", 2021).
        """
        from scipy.optimize import brentq  # loading it takes longer than most commands
        from scipy.special import betaln

        n, k = float(self.waves), min(self.weight * self.least, float(self.waves))
        mixture = float(betaln(_PRIOR + k, _PRIOR + n - k) - betaln(_PRIOR, _PRIOR))
        enough = -math.log1p(-sure)

        def won(mean: float) -> float:
            return mixture - k * math.log(mean) - (n - k) * math.log1p(-mean) - enough

        seen = min(max(k / n if n else 0.5, _EDGE), 1.0 - _EDGE)
        low = 0.0 if won(_EDGE) <= 0.0 else float(brentq(won, _EDGE, seen))
        high = 1.0 if won(1.0 - _EDGE) <= 0.0 else float(brentq(won, seen, 1.0 - _EDGE))
        return Interval(min(1.0, low / self.least), min(1.0, high / self.least))
