"""Savings of learned triggers on the expressway, and the errors that they cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from rich.console import RenderableType
from rich.table import Table

from headgate.agent import TrainingReport

_AUDITED = ("audits", "audited_rate", "rate_from", "rate_to")
"""Keys of a trigger's report on audits."""


class SeenWave(Struct, frozen=True):
    """A wave after it had settled."""

    label: str
    ran: frozenset[str]
    """Steps that ran."""
    errors: dict[str, float]
    """Error ε of each bounded output against the synchronous dataflow, 0 to 1."""
    made: frozenset[str]
    """Bounded outputs whose step has run."""
    seconds: float
    """Time from its first row until it had settled."""


class Savings(Struct, frozen=True):
    """Savings and costs of the waves with learned triggers."""

    steps: tuple[str, ...]
    outputs: tuple[str, ...]
    bound: float
    """Largest ε that each output may have."""
    waves: Sequence[SeenWave]
    audits: Mapping[str, dict[str, Any]]
    """Report of the trigger on audits, by output."""
    learning: TrainingReport
    synchronous: Sequence[float] = ()
    """Seconds of each wave of the training, in which every step ran."""

    def runs(self, step: str) -> int:
        """Return in how many waves a step has run."""
        return sum(step in wave.ran for wave in self.waves)

    def skipped(self, output: str) -> list[float]:
        """Return ε in the waves in which an output was not made."""
        return [wave.errors[output] for wave in self.waves if output not in wave.made]

    def violations(self, output: str) -> int:
        """Return in how many waves an output was out of its bound."""
        return sum(wave.errors[output] > self.bound for wave in self.waves)

    @property
    def seconds(self) -> float:
        """Return the mean time of a wave with learned triggers."""
        return _mean([wave.seconds for wave in self.waves])

    @property
    def seconds_synchronous(self) -> float:
        """Return the mean time of a wave in which every step ran."""
        return _mean(self.synchronous)

    def summary(self) -> dict[str, Any]:
        """Return all figures for programs."""
        count = len(self.waves)
        return {
            "waves": count,
            "wave_seconds_synchronous": self.seconds_synchronous,
            "wave_seconds": self.seconds,
            "steps": {
                step: {"runs_synchronous": count, "runs": self.runs(step)} for step in self.steps
            },
            "outputs": {
                output: {
                    "model": self.learning.models.get(output),
                    "reason": self.learning.reasons.get(output, self.learning.failure),
                    "bound": self.bound,
                    "skipped": len(self.skipped(output)),
                    "mean_error": _mean(self.skipped(output)),
                    "max_error": max(self.skipped(output), default=0.0),
                    "violations": self.violations(output),
                    **{key: self.audits.get(output, {}).get(key) for key in _AUDITED},
                }
                for output in self.outputs
            },
        }

    def shown(self, apart: float, confidence: float) -> Iterator[RenderableType]:
        """Yield the same for people.

        Args:
            apart: the largest ε of an output that was made in its wave.
            confidence: in which share of the waves bounds should hold, in percent.
        """
        count = len(self.waves)
        if count:
            title = f"{count} waves with what was learned"
            steps = Table("step", title=title, title_justify="left")
            for head in ("runs\nsync.", "runs\nlearned", "saved"):
                steps.add_column(head, justify="right")
            for step in self.steps:
                runs = self.runs(step)
                steps.add_row(step, str(count), str(runs), f"{1 - runs / count:.0%}")
            yield steps
            outputs = Table("output")
            for head in ("skipped\nwaves", "mean ε\nof skips", "max ε\nof skips", "violations"):
                outputs.add_column(head, justify="right")
            outputs.add_column("audits")
            for output in self.outputs:
                outputs.add_row(output, *_output_cells(self, output))
            yield outputs
            yield (
                "ε = Σ|x−x′| / Σmax(|x|, |x′|) of what is shown after a wave, against what is "
                f"shown if every step runs; a violation is above {self.bound:.0%}, as "
                f"{100 - confidence:g} % of the waves may be. Audits are skips that ran all the "
                "same."
            )
            yield (
                f"A wave in which every step ran took {self.seconds_synchronous:.1f} s, one with "
                f"what was learned {self.seconds:.1f} s, on average."
            )
        yield (
            f"Outputs that were made in their wave differ from the formulas by {apart:.1g} at most."
        )


def _output_cells(found: Savings, output: str) -> Iterable[str]:
    skipped, violations = found.skipped(output), found.violations(output)
    known = found.audits.get(output, {})
    yield str(len(skipped))
    yield f"{_mean(skipped):.2%}" if skipped else "-"
    yield f"{max(skipped):.2%}" if skipped else "-"
    yield f"{violations} of {len(found.waves)} ({violations / len(found.waves):.1%})"
    if output not in found.learning.models:
        yield "no model; the training says why"
    elif not known.get("audits"):
        yield "none was drawn yet"
    else:
        yield (
            f"{known['audits']}, {known['audited_rate']:.0%} violated (of all skips "
            f"{known['rate_from']:.0%} to {known['rate_to']:.0%})"
        )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
