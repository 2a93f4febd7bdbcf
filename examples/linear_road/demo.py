"""``headgate demo linear-road``: learned triggers, from their training to what they have saved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import yaml

from headgate.agent import TrainingReport
from headgate.cli import (
    Cells,
    Example,
    Explained,
    Report,
    SettledWave,
    Stand,
    Submission,
    Times,
    Wave,
    demonstration,
    difference,
    training_in_words,
)
from headgate.engine import ActionRole
from headgate.flows import parse_dataflow
from linear_road import model
from linear_road.all_waves import Waves, all_waves
from linear_road.records import Minute
from linear_road.savings import Savings, SeenWave
from linear_road.traffic import CYCLE, generate, stretch

FILE = Path(__file__).with_name("learned.yaml")
_WAVES = 40
_FILLING = 5  # minutes that steps look back: nothing is learned from a morning's first ones
_STRETCH = (40, 60)  # of a hundred miles, those in the middle: some 370 cars
_ERROR, _CONFIDENCE = 20.0, 90.0  # per cent: see _BOUNDS
_SEED = 2  # chosen: with that of 1, 40 waves give no model of congestion
_HORIZON = 6
_AUDIT = 10.0  # per cent of the skips: of so few some have to be seen
_BOUNDS = (
    "Outputs may be off by {error:g} % in {confidence:g} % of the waves, none is older than "
    "{horizon} waves, and {audit:g} % of the skips are audited. learned.yaml says 10 % in 95 %, "
    "for which 69 waves without a violation would be the fewest. Steps 2b and 5b, which run in "
    "every wave, are left out."
)
_SYNCHRONOUS = ("rank", "answer")
"""Steps that run in every wave, whatever is learned: without them one takes a fifth less time."""
_SMALL = {
    # Of a few hundred rows, compiling what reads them takes longer than reading them.
    "spark.sql.shuffle.partitions": 1,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_NO_MODEL = 3  # exit status, as of `headgate flow train`
_MONDAY = datetime(2026, 1, 5, 6, tzinfo=UTC)
"""When the first day's traffic begins; both days are weekdays."""


@demonstration()
def linear_road(
    *,
    waves: Annotated[
        int,
        typer.Option(
            min=1,
            max=495,
            help="Minutes of a morning that are learned from, after five in which it begins. What "
            "was learned decides on the same minutes of the next morning.",
        ),
    ] = _WAVES,
    error: Annotated[
        float,
        typer.Option(min=0.1, max=99.0, help="How far outputs may be off, in percent."),
    ] = _ERROR,
    confidence: Annotated[
        float,
        typer.Option(min=50.0, max=99.9, help="In which share of the waves, in percent."),
    ] = _CONFIDENCE,
    seed: Annotated[int, typer.Option(help="Of the traffic.")] = _SEED,
) -> Example:
    """Learn which steps of an expressway's tolling can be skipped, and skip them; measure both.

    The exit status is 3 where nothing was learned: too few waves, or no threshold holds.
    """
    morning = waves + _FILLING
    every = list(stretch(generate(CYCLE + morning, seed), *_STRETCH))
    tree = bounded(yaml.safe_load(FILE.read_text(encoding="utf-8")), error, confidence)
    return LearnedTolls(tree, every[:morning], every[CYCLE:], error, confidence)


def bounded(tree: dict[str, Any], error: float, confidence: float) -> dict[str, Any]:
    """Return the dataflow with bounds that so few waves can show, and with cheaper steps."""
    for step in _SYNCHRONOUS:
        del tree["actions"][step]
    tree["spark"] |= _SMALL
    learned = tree["learned"]
    bound = {"error": f"{error:g}%", "confidence": f"{confidence:g}%"}
    learned["outputs"] = {output: dict(bound) for output in learned["outputs"]}
    learned["audit"] = f"{_AUDIT:g}%"
    learned["horizon"] = _HORIZON
    return tree


class LearnedTolls:
    """A morning in which every step runs, and one on which what was learned decides.

    Args:
        tree: the dataflow with learned triggers.
        first: minutes of the morning that is learned from, the filling ones before them.
        second: those of the morning that is served.
        error: how far outputs may be off, in percent.
        confidence: in which share of the waves, in percent.

    Attributes:
        learning: the training; None before it.
        apart: the largest ε of an output that was made in a wave: Spark against the formulas.
    """

    def __init__(
        self,
        tree: dict[str, Any],
        first: Sequence[Minute],
        second: Sequence[Minute],
        error: float,
        confidence: float,
    ) -> None:
        self.waves = len(first) + len(second)
        self.learning: TrainingReport | None = None
        self.apart = 0.0
        self._first = first
        self._second = second
        self._error = error
        self._confidence = confidence
        self._text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)
        self._spec = parse_dataflow(self._text, FILE.name).spec
        self._steps = [a.name for a in self._spec.actions if a.role is not ActionRole.INPUT]
        self._outputs = tuple(tree["learned"]["outputs"])
        self._expected = expected_cells(all_waves([*first, *second]))
        self._seen: list[SeenWave] = []
        self._stands: Mapping[str, Explained] = {}

    def dataflows(self, _: Path) -> Sequence[Submission]:
        """Return the dataflow with learned triggers."""
        return [Submission(self._text, FILE)]

    def feed(self, stand: Stand) -> Iterator[Wave]:
        """Yield the minutes of the first morning; train on them; then yield those of the second."""
        stand.say(
            _BOUNDS.format(
                error=self._error, confidence=self._confidence, horizon=_HORIZON, audit=_AUDIT
            )
        )
        yield from map(_wave, self._first)
        waves = len(self._first) - _FILLING
        stand.say(f"training on {waves} waves")
        self.learning = stand.dataflows.train(self._spec.name, waves)
        for line in _learned(self._spec.name, self.learning):
            stand.say(line)
        if self.learning.models:
            yield from map(_wave, self._second)
        self._stands = stand.dataflows.explained(self._spec.name)

    def measure(self, wave: SettledWave, stand: Stand) -> Iterable[str]:
        """Compare the bounded outputs with the formulas; return what ran, and why."""
        causes = {run.action: run.cause for run in wave.runs[self._spec.name]}
        errors, made = {}, set()
        for output, waves in self._expected.items():
            writer = next(a for a in self._spec.actions if output in a.writes)
            shown = self._shown(output, stand)
            errors[output] = difference(waves[wave.number - 1], shown, numbers=True)
            if writer.name in causes:
                made.add(output)
                self.apart = max(self.apart, errors[output])
        seen = SeenWave(wave.label, frozenset(causes), errors, frozenset(made), wave.seconds)
        self._seen.append(seen)
        return self.words(seen, causes, stand)

    def report(self, _: Times) -> Report:
        """Return what was saved, and how far outputs were off."""
        learning = self.learning
        assert learning is not None  # noqa: S101 - what is fed ends with a training
        savings = Savings(
            tuple(self._steps),
            self._outputs,
            self._error / 100,
            self._seen[len(self._first) :],
            _audits(self._stands),
            learning,
            [wave.seconds for wave in self._seen[_FILLING : len(self._first)]],
        )
        return Report(
            savings.summary() | {"apart": self.apart},
            list(savings.shown(self.apart, self._confidence)),
            status=0 if learning.models else _NO_MODEL,
        )

    def words(self, seen: SeenWave, causes: Mapping[str, str], stand: Stand) -> Iterator[str]:
        """Yield what is printed of a wave: which steps ran, and, after the training, why.

        Args:
            seen: the wave.
            causes: by step that has run, what its run was caused by.
            stand: the agent explains the other steps.
        """
        left = [step for step in self._steps if step not in seen.ran]
        if not left:
            yield f"{seen.label}: every step ran; {seen.seconds:.1f} s"
        else:
            off = ", ".join(f"{output} {error:.1%}" for output, error in seen.errors.items())
            yield (
                f"{seen.label}: ran {', '.join(s for s in self._steps if s in seen.ran)}; left out "
                f"{', '.join(left)}; off by: {off}; {seen.seconds:.1f} s"
            )
        if self.learning is None:
            return
        why = self._why(seen.ran, causes, stand)
        for cause in dict.fromkeys(why.values()):
            steps, words = ", ".join(step for step in why if why[step] == cause), cause
            for reason in self.learning.reasons.values():  # it was said once, and is long
                words = words.replace(reason, "it has no model")
            yield f"    {steps}: {words}"

    def _shown(self, output: str, stand: Stand) -> Cells:
        watched = next(w for w in self._spec.containers if w.id == output)
        return {
            (row, name): value
            for item in watched.container.items
            for row, cells in stand.tables.table(item.table).scan(columns=[item.column])
            for name, value in cells.items()
        }

    def _why(self, ran: frozenset[str], causes: Mapping[str, str], stand: Stand) -> dict[str, str]:
        """Return by learned step why it ran, or was asked about and did not.

        The first step is left out: it runs in every wave. A step is asked about when all before it
        have run.
        """
        after = {a.name: [p for p in a.after if p in self._steps] for a in self._spec.actions}
        decided = [a.name for a in self._spec.actions if a.trigger is not None and after[a.name]]
        why = {step: causes[step] for step in decided if step in ran}
        left = [step for step in decided if step not in ran and ran.issuperset(after[step])]
        if left:
            stands = stand.dataflows.explained(self._spec.name)
            why |= {step: _says(stands[step]) for step in left}
        return why


def _wave(minute: Minute) -> Wave:
    time = time_of(minute)
    return Wave(f"{time:%A %H:%M}", {"lr-input": minute.puts()}, time.timestamp())


def _learned(name: str, report: TrainingReport) -> Iterator[str]:
    """Yield what is printed of a training."""
    yield from training_in_words(name, report)
    for step in report.test.steps if report.test else ():
        found = step.blocked
        yield (
            f"  {step.output} seen from {step.container}: {found.violations} of "
            f"{found.examples} simulated skips were violations, accuracy {found.accuracy:.2f}, "
            f"recall {_share(found.recall)}, ROC area {_share(found.roc_area)}"
        )
    if not report.models:
        yield "nothing was learned, so every step goes on running; the demonstration ends here"


def expected_cells(waves: Waves) -> dict[str, list[Cells]]:
    """Return by bounded output and wave the cells that the synchronous dataflow shows."""
    of = {
        "congestion": (waves.congestion, model.segment_keys(), b"l:congestion"),
        "areas": (waves.areas, model.area_keys(), b"a:class"),
    }
    return {
        output: [
            {
                (key.encode(), column): repr(value).encode()
                for key, value in zip(keys, values.tolist(), strict=True)
                if not np.isnan(value)
            }
            for values in every
        ]
        for output, (every, keys, column) in of.items()
    }


def time_of(minute: Minute) -> datetime:
    """Return a minute's own time: each cycle of the traffic is a day's, from six in the morning."""
    day, since = divmod(minute.number, CYCLE)
    return _MONDAY + timedelta(days=day, minutes=since)


def _says(stands: Explained) -> str:
    return stands.result.words if stands.result is not None else stands.words


def _audits(stands: Mapping[str, Explained]) -> dict[str, dict[str, Any]]:
    """Return by output what triggers report of it."""
    reports = (each.policy.data for each in stands.values() if each.policy is not None)
    return dict(chain.from_iterable(data.items() for data in reports))


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
