"""Dataflows whose runs take from a tenth of a wave to five, over data that is as hostile as real.

Rows come and go, values have both signs, outputs become empty, outputs are looked at from several
containers in a wave, and units may change in the middle. A step reads what is there when its run
begins, and writes when it ends.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from sklearn.ensemble import ExtraTreesRegressor

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Codec,
    CodecName,
    Consult,
    Consulted,
    DataflowSpec,
    Engine,
    EngineTester,
    Launch,
    WatchedContainer,
    with_triggers,
)
from headgate.events import Container, ContainerId, Item
from headgate.learning import (
    ContainerHistory,
    ContainerModel,
    ErrorMetric,
    Graph,
    Learned,
    LearnedSettings,
    Model,
    Models,
    OutputSettings,
    Predicted,
    Question,
    Residuals,
    Step,
    decided_on,
    decode_question,
    encode_answer,
    encode_model,
    errors,
    feature_names,
    features,
    forest_of,
    learned,
    levels_of,
    log_ratio,
    measured_pairs,
    trigger_of,
)

Values = npt.NDArray[np.float64]
"""Values of the elements of a container; NaN where one is missing."""

HOUR, START = 3_600.0, 1_700_438_400.0
SENSORS, GROUPS = 24, 4

SHAPES: Mapping[str, Mapping[str, tuple[tuple[str, ...], str]]] = {
    "one": {"sum": (("sensors",), "level")},
    "chain": {"combine": (("sensors",), "areas"), "top": (("areas",), "level")},
    "long chain": {
        "combine": (("sensors",), "areas"),
        "thin": (("areas",), "peaks"),
        "top": (("peaks",), "level"),
    },
    "join": {
        "combine": (("sensors",), "areas"),
        "spot": (("sensors",), "peaks"),
        "both": (("areas", "peaks"), "level"),
    },
    "fork": {
        "combine": (("sensors",), "areas"),
        "top": (("areas",), "level"),
        "draw": (("areas",), "map"),
    },
    "short cut": {"combine": (("sensors",), "areas"), "mix": (("areas", "sensors"), "level")},
}
"""Steps of each kind of dataflow, with what they read and what they write."""
OUTPUTS = ("level", "map")


def made_by(step: str, read: Mapping[str, Values]) -> Values:
    """Return what a step makes of what it reads, as plain arithmetic says."""
    if step in ("combine", "sum"):
        groups = read["sensors"].reshape(GROUPS, -1)
        there = ~np.isnan(groups)
        counts = there.sum(1)
        means = np.where(there, groups, 0.0).sum(1) / np.maximum(1, counts)
        means[counts == 0] = np.nan
        return means if step == "combine" else _total(means)
    if step == "spot":
        groups = read["sensors"].reshape(GROUPS, -1)
        high = np.where(groups > 6.0, groups, -np.inf).max(1)
        return np.where(np.isfinite(high), high, np.nan)
    if step in ("thin", "draw"):
        return np.where(np.abs(read["areas"]) > 1.0, read["areas"], np.nan)
    if step == "mix":
        return _total(np.append(read["areas"], read["sensors"][:3]))
    return _total(np.concatenate([read[name] for name in sorted(read)]))


def _total(values: Values) -> Values:
    known = values[~np.isnan(values)]
    return np.array([known.sum() if len(known) else np.nan])


class Truth:
    """Contents of all containers at the end of each wave if every step took no time.

    Args:
        shape: the kind of dataflow, a key of ``SHAPES``.
        seed: the seed of its data.
        waves: how many waves there are.
        change: the wave from which on the sensors report in another unit; 0 for none.
    """

    def __init__(self, shape: str, seed: int, waves: int, change: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.steps = SHAPES[shape]
        self.waves = waves
        self.times: Values = START + HOUR * np.arange(waves, dtype=np.float64)
        sensors = np.full((waves, SENSORS), np.nan)
        there = random.random(SENSORS) < 0.7
        values = random.normal(0.0, 4.0, SENSORS)
        level = 0.0
        for wave in range(waves):
            level = 0.9 * level + random.normal(0.0, 0.8)
            values = 0.95 * values + random.normal(0.0, 0.7, SENSORS)
            flips = random.random(SENSORS) < 0.05
            there = there ^ flips
            if random.random() < 0.01:
                there[:] = False  # an output may become empty
            unit = 1_000.0 if change and wave >= change else 1.0
            report = random.random(SENSORS) < 0.7
            now = np.where(there, np.round(unit * (level + values), 2), np.nan)
            before = sensors[wave - 1] if wave else now
            stays = there & ~report & ~np.isnan(before)
            sensors[wave] = np.where(stays, before, now)
        self.values: dict[str, Values] = {"sensors": sensors}
        for step, (reads, writes) in self.steps.items():
            rows = [made_by(step, {c: self.values[c][w] for c in reads}) for w in range(waves)]
            self.values[writes] = np.array(rows)
        same = (sensors[1:] == sensors[:-1]) | (np.isnan(sensors[1:]) & np.isnan(sensors[:-1]))
        self.counted = np.concatenate(([int((~np.isnan(sensors[0])).sum())], (~same).sum(1)))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The bounded ones."""
        return tuple(w for _, w in self.steps.values() if w in OUTPUTS)

    def history(self, container: str, last: int) -> ContainerHistory:
        """Return the first states of a container, as trainings take them."""
        values = self.values[container][:last]
        there = ~np.isnan(values)
        counted = self.counted[:last] if container == "sensors" else np.zeros(last, np.int64)
        return ContainerHistory(
            np.where(there, values, 0.0), there.sum(1), counted.astype(np.int64), self.times[:last]
        )


def specification(shape: str, settings: LearnedSettings, name: str) -> DataflowSpec:
    """Return the dataflow."""
    steps = SHAPES[shape]
    makers = {writes: step for step, (_, writes) in steps.items()}
    actions = [ActionSpec("feed", ActionRole.INPUT, writes=(ContainerId("sensors"),))]
    for step, (reads, writes) in steps.items():
        before = [makers[c] for c in reads if c in makers]
        before += ["feed"] if "sensors" in reads else []
        actions.append(
            ActionSpec(
                step,
                after=tuple(before),
                reads=tuple(map(ContainerId, reads)),
                writes=(ContainerId(writes),),
            )
        )
    decided = decided_on(actions, tuple(settings.outputs))
    trigger = trigger_of(settings)
    return DataflowSpec(
        name,
        tuple(
            WatchedContainer(Container(ContainerId(c), (Item(c),)), Codec(CodecName.UTF8))
            for c in ("sensors", *makers)
        ),
        tuple(
            ActionSpec(
                a.name, a.role, a.after, a.reads, a.writes,
                trigger=trigger if a.name in decided else None,
            )
            for a in actions
        ),
    )  # fmt: skip


def graph_of_shape(shape: str) -> Graph:
    """Return the steps as learning knows them."""
    return Graph([Step(name, reads, (w,)) for name, (reads, w) in SHAPES[shape].items()])


def settings_for(
    outputs: Mapping[str, float],
    audit: float,
    horizon: int,
    waves: int = 10_000,
    confidence: float = 0.95,
) -> LearnedSettings:
    """Return bounds of the error of each output, relative to what it would be."""
    bounded = {o: OutputSettings(b, confidence=confidence) for o, b in outputs.items()}
    return LearnedSettings(bounded, audit, waves, horizon, refit=0)


def models_of(
    truth: Truth,
    shape: str,
    bounds: Mapping[str, float],
    horizon: int,
    last: int,
    thresholds: Mapping[str, float],
    nearer: Mapping[str, float] = {},
    beyond: float = 1e6,
) -> dict[str, bytes]:
    """Return models that were fitted to the first waves, whose thresholds are given.

    Args:
        truth: what happens.
        shape: of the dataflow.
        bounds: of the error, by output.
        horizon: in waves.
        last: the wave before which training ends.
        thresholds: by output.
        nearer: by container, what is added to its scores.
        beyond: by how much features may pass the ranges of training.
    """
    graph, found = graph_of_shape(shape), {}
    unmoved = Residuals(50.0, 0.3)  # so that only audits move a threshold
    for output, bound in bounds.items():
        made = measured_pairs(truth.history(output, last), horizon)
        known = errors(made, ErrorMetric.RELATIVE)
        containers = {}
        for container in graph.above(output):
            states = truth.history(container, last)
            levels = levels_of(states.values)
            pairs = measured_pairs(states, horizon, levels)
            table, names = features(pairs, made.means), feature_names(pairs)
            there = [(t, a) for t in range(last) for a in range(1, min(t, horizon) + 1)]
            rows = np.array([table[pair] for pair in there])
            logs = log_ratio(np.array([known[pair] for pair in there]), bound)
            fitted = ExtraTreesRegressor(5, min_samples_leaf=3, random_state=1).fit(rows, logs)
            trees = [one.tree_ for one in fitted.estimators_]
            containers[container] = ContainerModel(
                forest_of(trees, names, (output,), Predicted.LOG_ERROR),
                rows.min(0) - beyond,
                rows.max(0) + beyond,
                levels,
                unmoved,
                nearer.get(container, 0.0),
            )
        model = Model(
            output, ErrorMetric.RELATIVE, bound, 0.95, thresholds[output], containers, horizon,
            last, 0.0, 1.0, 0.05, "",
        )  # fmt: skip
        found[output] = encode_model(model)
    return found


class Made(Struct, frozen=True):
    """A run of a step: the wave that it was launched on, and when."""

    step: str
    wave: int
    begun: float
    ended: float


class SlowWorld:
    """Lives the waves of a truth through an engine; one unit of time is one wave.

    Args:
        truth: what happens.
        spec: the dataflow.
        lasts: how long a run of each step takes, in waves.
        early: whether half of the sensors report in the middle of a wave, before the one before it
            may have been decided on.
        world: in which the engine lives.
    """

    def __init__(
        self,
        truth: Truth,
        spec: DataflowSpec,
        lasts: Callable[[str], float],
        *,
        early: bool = False,
        world: type[EngineTester] = EngineTester,
    ) -> None:
        self.truth = truth
        self.tester = world(spec, check=_unchecked, policies=with_triggers({"learned": learned}))
        self._early = early
        self.shown: dict[str, Values] = {}
        """Values that each container holds."""
        self.of_wave: dict[str, int] = dict.fromkeys(truth.outputs, 0)
        """Wave that each output is of; 0 before the first."""
        self.runs: list[Made] = []
        self.mixed: list[Made] = []
        """Runs whose output is not what the truth says of their wave."""
        self.seen: list[dict[str, int]] = []
        """Wave that each output was of when the next wave came, one entry for each wave."""
        self._lasts = lasts
        self._events: list[tuple[float, int, str, Values, Made]] = []
        self._count = 0
        self._taken = 0
        self.wave = 0
        self._begun = self.tester.now
        self._begun_runs: set[str] = set()

    @property
    def now(self) -> float:
        """Waves since the beginning."""
        return (self.tester.now - self._begun) / HOUR

    def policy(self, step: str) -> Learned:
        """Return a step's trigger."""
        policy = self.tester.engine.actions[step].policy
        assert isinstance(policy, Learned)
        return policy

    def maker(self, output: str) -> str:
        """Return the step that writes an output."""
        return next(step for step, (_, w) in self.truth.steps.items() if w == output)

    def use(self, models: Mapping[str, bytes]) -> None:
        """Have models decide."""
        for output, model in models.items():
            said = encode_answer(Models({output: model}))
            step = self.maker(output)
            self.tester.handle(Consulted(self.tester.now, step, "learned", said, ""))
        self._launched()

    def questions(self) -> Iterator[Question]:
        """Yield what was asked so far."""
        for each in self.tester.instructions:
            if isinstance(each, Consult):
                yield decode_question(each.question)

    def live(self, waves: int) -> None:
        """Have so many waves come, one unit of time each, and runs end when they do."""
        for _ in range(waves):
            end, values = float(self.wave + 1), self.truth.values["sensors"][self.wave]
            if self._early and self.wave:
                self._run_until(end - 0.5)
                self._set(end - 0.5)
                half = np.arange(len(values)) % 2 == 0
                self._write("sensors", np.where(half, values, self.shown["sensors"]), None)
            self._run_until(end)
            self._write("sensors", values, None)
            self._set(end)
            self.seen.append(dict(self.of_wave))
            self.wave += 1
            self.tester.wave("feed", number=self.wave, time=float(self.truth.times[self.wave - 1]))
            self._launched()

    def finish(self) -> None:
        """Have the runs end that are under way, and those that follow; no wave comes any more."""
        self._run_until(self.now + 100.0)

    def _set(self, now: float) -> None:
        self.tester.now = self._begun + HOUR * now

    def _run_until(self, end: float) -> None:
        while self._events and self._events[0][0] < end:
            at, _, step, values, made = heapq.heappop(self._events)
            self._set(at)
            output = self.truth.steps[step][1]
            self._write(output, values, step)
            expected = self.truth.values[output][made.wave - 1]
            if not np.array_equal(values, expected, equal_nan=True):
                self.mixed.append(made)
            if output in self.of_wave:
                self.of_wave[output] = made.wave
            self.runs.append(made)
            self.tester.finish(step)
            self._launched()

    def _launched(self) -> None:
        """Begin the runs that were launched: each reads what its wave's tables hold."""
        new = self.tester.instructions[self._taken :]
        self._taken = len(self.tester.instructions)
        for each in new:
            if not isinstance(each, Launch) or each.run in self._begun_runs:
                continue  # of a run that an agent finds at work after a restart
            self._begun_runs.add(each.run)
            step = each.action
            wave = self.policy(step).state.launched
            read = {
                c: self.truth.values[c][wave - 1] if c == "sensors" else self.shown[c]
                for c in self.truth.steps[step][0]
            }
            lasts = self._lasts(step)
            made = Made(step, wave, self.now, self.now + lasts)
            self._count += 1
            event = (made.ended, self._count, step, made_by(step, read), made)
            heapq.heappush(self._events, event)

    def _write(self, container: str, values: Values, by: str | None) -> None:
        before = self.shown.get(container, np.full(len(values), np.nan))
        same = (values == before) | (np.isnan(values) & np.isnan(before))
        rows = {
            b"%03d" % i: {b"f:x": None if np.isnan(values[i]) else repr(float(values[i])).encode()}
            for i in np.flatnonzero(~same)
        }
        if rows:
            self.tester.write(container, rows, by=by)
        self.shown[container] = values


def _unchecked(_: Engine) -> None:
    """Look at nothing: the invariants take longer than the engine."""


def error_of(now: Values, shown: Values) -> float:
    """Return the relative error of what is shown, as the documentation defines it."""
    x, before = np.nan_to_num(now), np.nan_to_num(shown)
    larger = np.where(x * before < 0, abs(x) + abs(before), np.maximum(abs(x), abs(before)))
    whole = larger.sum()
    return float(min(1.0, np.abs(x - before).sum() / whole)) if whole else 0.0
