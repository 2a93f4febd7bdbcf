"""``headgate demo linear-road``: learned triggers, from their training to what they have saved."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from headgate.agent import TrainingReport
from headgate.cli.demo.comparison import Cells, difference, read_example
from headgate.cli.demo.dataflows import AgentDataflows, Explained
from headgate.cli.demo.hbase import FreshTables, create_tables_of, put_rows
from headgate.cli.demo.narration import HomeOption, JsonOption, Narrator, example_file, outcome
from headgate.cli.demo.services import DemoServices
from headgate.cli.flow.train import summary as training_words
from headgate.engine import ActionRole
from headgate.flows import parse_dataflow

if TYPE_CHECKING:
    from linear_road.all_waves import Waves
    from linear_road.records import Minute

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
    home: HomeOption = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave tables and logs behind.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Learn which steps of an expressway's tolling can be skipped, and skip them; measure both.

    The exit status is 3 where nothing was learned: too few waves, or no threshold holds.
    """
    console = Console(stderr=as_json)
    file = example_file("linear_road").with_name("learned.yaml")
    from linear_road.traffic import CYCLE, generate, stretch

    began = time.monotonic()
    morning = waves + _FILLING
    every = list(stretch(generate(CYCLE + morning, seed), *_STRETCH))
    minutes = every[:morning] + every[CYCLE:]
    tree = read_example(file, lambda tree: _bound(tree, error, confidence))
    with outcome(console), Narrator(console, len(minutes)) as narrator:
        narrator.say(
            _BOUNDS.format(error=error, confidence=confidence, horizon=_HORIZON, audit=_AUDIT)
        )
        with DemoServices(home, keep=keep, on_progress=narrator.progress) as services:
            road = _Road(tree, minutes, services, narrator)
            try:
                learning = road.begin(file.parent, waves)
                serving = road.send(morning) if learning.models else []
                stands = road.dataflows.explained(road.name)
            finally:
                road.dataflows.close()
        if keep:
            narrator.say(f"kept: {services.folder}")
    found = Found(
        tuple(road.steps),
        tuple(road.outputs),
        error / 100,
        serving,
        _audits(stands),
        learning,
        road.synchronous,
    )
    if as_json:
        typer.echo(json.dumps(found.summary() | {"apart": road.apart}, indent=1))
    else:
        _print(console, found, road.apart, confidence)
        console.print(
            f"{time.monotonic() - began:.0f} s in all; everything that was started has ended."
        )
    if not learning.models:
        raise typer.Exit(_NO_MODEL)


def _bound(tree: dict[str, Any], error: float, confidence: float) -> None:
    """Let a dataflow's learned triggers go by what so few waves can show, and take less time."""
    for step in _SYNCHRONOUS:
        del tree["actions"][step]
    tree["spark"] |= _SMALL
    learned = tree["learned"]
    bound = {"error": f"{error:g}%", "confidence": f"{confidence:g}%"}
    learned["outputs"] = {output: dict(bound) for output in learned["outputs"]}
    learned["audit"] = f"{_AUDIT:g}%"
    learned["horizon"] = _HORIZON


class SeenWave(Struct, frozen=True):
    """What was seen of a wave after it had settled."""

    label: str
    ran: frozenset[str]
    """Steps."""
    errors: dict[str, float]
    """By bounded output, ε against the synchronous dataflow, 0 to 1."""
    made: frozenset[str]
    """The bounded outputs whose step has run."""
    seconds: float
    """From its first row until it had settled."""


class Found(Struct, frozen=True):
    """What the waves with learned triggers have saved and cost."""

    steps: tuple[str, ...]
    outputs: tuple[str, ...]
    bound: float
    """Of ε, of each output."""
    waves: Sequence[SeenWave]
    audits: Mapping[str, dict[str, Any]]
    """By output, what its trigger reports of audits."""
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
        """Of a wave with what was learned, on average."""
        return _mean([wave.seconds for wave in self.waves])

    @property
    def seconds_synchronous(self) -> float:
        """Of a wave in which every step ran, on average."""
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


_AUDITED = ("audits", "audited_rate", "rate_from", "rate_to")


class _Road:
    """The dataflow on running services, and what each wave shows.

    Attributes:
        name: of the dataflow.
        steps: all of them, predecessors first.
        outputs: the bounded ones.
        dataflows: the agent's; whoever made this closes it.
        learning: the training; None before it.
        synchronous: seconds of each wave of the training.
        apart: the largest ε of an output that was made in a wave: Spark against the formulas.
    """

    def __init__(
        self,
        tree: dict[str, Any],
        minutes: Sequence[Minute],
        services: DemoServices,
        narrator: Narrator,
    ) -> None:
        from linear_road.all_waves import all_waves

        self._text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)
        self._spec = parse_dataflow(self._text, "learned.yaml").spec
        self._minutes = list(enumerate(minutes))
        self._expected = expected_cells(all_waves(minutes))
        self._services = services
        self._narrator = narrator
        self._hbase = FreshTables(*services.thrift1)
        self._newest = -1
        self._sent = 0
        self.name = self._spec.name
        self.steps = [a.name for a in self._spec.actions if a.role is not ActionRole.INPUT]
        self.learning: TrainingReport | None = None
        self.outputs = list(tree["learned"]["outputs"])
        self.dataflows = AgentDataflows(services.api)
        self.apart = 0.0
        self.synchronous: list[float] = []

    def begin(self, directory: Path, waves: int) -> TrainingReport:
        """Submit the dataflow, send the waves in which every step runs, and train on them.

        Raises:
            DemoError: the dataflow is stuck, or the training is.
        """
        say = self._narrator.say
        say("tables: creating")
        create_tables_of(*self._services.thrift1, [self._spec])
        say(f"dataflow: submitting {self.name}")
        self.dataflows.submit(self._text, directory, "learned.yaml")
        say("Spark: starting a session")
        self.dataflows.wait_warm([self.name])
        self.synchronous = [wave.seconds for wave in self.send(waves + _FILLING)[_FILLING:]]
        say(f"training on {waves} waves")
        self.learning = report = self.dataflows.train(self.name, waves)
        for line in training_words(self.name, report):
            say(line)
        for step in report.test.steps if report.test else ():
            found = step.blocked
            say(
                f"  {step.output} seen from {step.container}: {found.violations} of "
                f"{found.examples} simulated skips were violations, accuracy {found.accuracy:.2f}, "
                f"recall {_share(found.recall)}, ROC area {_share(found.roc_area)}"
            )
        if not report.models:
            say("nothing was learned, so every step goes on running; the demonstration ends here")
        return report

    def send(self, count: int) -> list[SeenWave]:
        """Send so many waves more; return what each has shown.

        Raises:
            DemoError: the dataflow is stuck.
        """
        found = []
        for at, minute in islice(self._minutes, self._sent, self._sent + count):
            began = time.monotonic()
            put_rows(self._hbase, "lr-input", minute.puts())
            self.dataflows.end_wave([self.name], time_of(minute).timestamp())
            runs = self.dataflows.committed(self.name, self._newest)
            self._newest = max((self._newest, *(run.number for run in runs)))
            self._sent = at + 1
            self._narrator.done(self._sent)
            ran = {run.action: run.cause for run in runs}
            seconds = time.monotonic() - began
            seen = self._seen(at, minute, frozenset(ran), seconds)
            self._report(seen, ran)
            found.append(seen)
        return found

    def _seen(self, at: int, minute: Minute, ran: frozenset[str], seconds: float) -> SeenWave:
        errors, made = {}, set()
        for output, waves in self._expected.items():
            writer = next(a for a in self._spec.actions if output in a.writes)
            errors[output] = difference(waves[at], self._shown(output), numbers=True)
            if writer.name in ran:
                made.add(output)
                self.apart = max(self.apart, errors[output])
        label = f"{time_of(minute):%A %H:%M}"
        return SeenWave(label, ran, errors, frozenset(made), seconds)

    def _shown(self, output: str) -> Cells:
        watched = next(w for w in self._spec.containers if w.id == output)
        return {
            (row, name): value
            for item in watched.container.items
            for row, cells in self._hbase.table(item.table).scan(columns=[item.column])
            for name, value in cells.items()
        }

    def _report(self, seen: SeenWave, causes: Mapping[str, str]) -> None:
        left = [step for step in self.steps if step not in seen.ran]
        say = self._narrator.say
        if not left:
            say(f"{seen.label}: every step ran; {seen.seconds:.1f} s")
        else:
            off = ", ".join(f"{output} {error:.1%}" for output, error in seen.errors.items())
            say(
                f"{seen.label}: ran {', '.join(s for s in self.steps if s in seen.ran)}; left out "
                f"{', '.join(left)}; off by: {off}; {seen.seconds:.1f} s"
            )
        if self.learning is None:
            return
        why = self._why(seen.ran, causes)
        for cause in dict.fromkeys(why.values()):
            steps, words = ", ".join(step for step in why if why[step] == cause), cause
            for reason in self.learning.reasons.values():  # it was said once, and is long
                words = words.replace(reason, "it has no model")
            say(f"    {steps}: {words}")

    def _why(self, ran: frozenset[str], causes: Mapping[str, str]) -> dict[str, str]:
        """Return by learned step why it ran, or was asked about and did not.

        The first step is left out: it runs in every wave. A step is asked about when all before it
        have run.
        """
        after = {a.name: [p for p in a.after if p in self.steps] for a in self._spec.actions}
        decided = [a.name for a in self._spec.actions if a.trigger is not None and after[a.name]]
        why = {step: causes[step] for step in decided if step in ran}
        left = [step for step in decided if step not in ran and ran.issuperset(after[step])]
        if left:
            stands = self.dataflows.explained(self.name)
            why |= {step: _says(stands[step]) for step in left}
        return why


def expected_cells(waves: Waves) -> dict[str, list[Cells]]:
    """Return by bounded output and wave the cells that the synchronous dataflow shows."""
    import numpy as np
    from linear_road import model

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
    from linear_road.traffic import CYCLE

    day, since = divmod(minute.number, CYCLE)
    return _MONDAY + timedelta(days=day, minutes=since)


def _says(stands: Explained) -> str:
    return stands.result.words if stands.result is not None else stands.words


def _audits(stands: Mapping[str, Explained]) -> dict[str, dict[str, Any]]:
    """Return by output what triggers report of it."""
    reports = (each.policy.data for each in stands.values() if each.policy is not None)
    return dict(chain.from_iterable(data.items() for data in reports))


def _print(console: Console, found: Found, apart: float, confidence: float) -> None:
    """Print what was saved and how far outputs were off."""
    count = len(found.waves)
    if count:
        steps = Table("step", title=f"{count} waves with what was learned", title_justify="left")
        for title in ("runs\nsync.", "runs\nlearned", "saved"):
            steps.add_column(title, justify="right")
        for step in found.steps:
            runs = found.runs(step)
            steps.add_row(step, str(count), str(runs), f"{1 - runs / count:.0%}")
        console.print(steps)
        outputs = Table("output")
        for title in ("skipped\nwaves", "mean ε\nof skips", "max ε\nof skips", "violations"):
            outputs.add_column(title, justify="right")
        outputs.add_column("audits")
        for output in found.outputs:
            outputs.add_row(output, *_output_cells(found, output))
        console.print(outputs)
        console.print(
            f"ε = Σ|x−x′| / Σmax(|x|, |x′|) of what is shown after a wave, against what is shown "
            f"if every step runs; a violation is above {found.bound:.0%}, as {100 - confidence:g} "
            "% of the waves may be. Audits are skips that ran all the same."
        )
        console.print(
            f"A wave in which every step ran took {found.seconds_synchronous:.1f} s, one with what "
            f"was learned {found.seconds:.1f} s, on average."
        )
    console.print(
        f"Outputs that were made in their wave differ from the formulas by {apart:.1g} at most."
    )


def _output_cells(found: Found, output: str) -> Iterable[str]:
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


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
