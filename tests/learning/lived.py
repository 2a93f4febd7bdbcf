"""A dataflow with a join, in arrays for all waves and step by step through an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Codec,
    CodecName,
    Consult,
    Consulted,
    DataflowSpec,
    EngineTester,
    MetricAnswer,
    MetricQuestion,
    WatchedContainer,
    launched,
    with_triggers,
)
from headgate.events import Container, ContainerId, Item
from headgate.learning import (
    ContainerHistory,
    Learned,
    LearnedSettings,
    Measure,
    Measured,
    Models,
    Question,
    decided_on,
    decode_question,
    encode_answer,
    learned,
    trigger_of,
)

Array = npt.NDArray[np.float64]
Where = npt.NDArray[np.bool_]
Made = Mapping[str, Array]

READS = {
    "combine": ("sensors",),
    "spot": ("sensors",),
    "index": ("areas", "peaks"),
    "draw": ("areas",),
}
WRITES = {"combine": "areas", "spot": "peaks", "index": "level", "draw": "map"}
CONTAINERS = ("sensors", *WRITES.values())
CELLS, START, HOUR = 30, 1_700_438_400.0, 3_600.0


def made_by(step: str, read: Made) -> Array:
    """Return what a step makes of what it reads, (..., cells)."""
    if step == "combine":
        return read["sensors"].reshape(*read["sensors"].shape[:-1], 6, 5).mean(-1)
    if step == "spot":
        x = read["sensors"]
        return np.where(x > 60.0, x, 0.0).reshape(*x.shape[:-1], 3, 10).max(-1)
    if step == "index":
        return read["areas"].max(-1, keepdims=True) + 0.2 * read["peaks"].sum(-1, keepdims=True)
    return np.where(read["areas"] > 52.0, read["areas"], 0.0)


class AllWaves:
    """The synchronous states of all containers, by seed."""

    def __init__(self, seed: int, waves: int) -> None:
        random = np.random.default_rng(seed)
        self.waves = waves
        self.times: Array = START + HOUR * np.arange(waves, dtype=np.float64)
        sensors = np.empty((waves, CELLS))
        self.reported = np.empty((waves, CELLS), bool)
        level, own = 0.0, np.zeros(CELLS)
        for wave in range(waves):
            level = 0.95 * level + random.standard_normal()
            own = 0.9 * own + 2.0 * random.standard_normal(CELLS)
            there = 50.0 + 8.0 * np.sin(2.0 * np.pi * wave / 24.0) + level + own
            self.reported[wave] = wave == 0 or random.random(CELLS) < random.uniform(0.1, 1.0)
            before = sensors[wave - 1] if wave else there
            sensors[wave] = np.where(self.reported[wave], np.round(there, 2), before)
        self.values: dict[str, Array] = {"sensors": sensors}
        for step, container in WRITES.items():
            self.values[container] = made_by(step, self.values)

    def history(self, container: str) -> ContainerHistory:
        """Return a container's states; what steps write is not counted."""
        values = self.values[container]
        counted = self.reported.sum(1) if container == "sensors" else np.zeros(self.waves, int)
        return ContainerHistory(
            values, np.full(self.waves, values.shape[1]), counted.astype(np.int64), self.times
        )


def dataflow(settings: LearnedSettings) -> DataflowSpec:
    """Return the dataflow; its steps have learned triggers where they lead to an output."""
    actions = [ActionSpec("feed", ActionRole.INPUT, writes=(ContainerId("sensors"),))]
    actions += [
        ActionSpec(
            step,
            after=("feed",) if reads == ("sensors",) else tuple(
                s for s in WRITES if WRITES[s] in reads
            ),
            reads=tuple(map(ContainerId, reads)),
            writes=(ContainerId(WRITES[step]),),
        )
        for step, reads in READS.items()
    ]  # fmt: skip
    decided = decided_on(actions, tuple(settings.outputs))
    trigger = trigger_of(settings)
    numbers = Codec(CodecName.UTF8)
    return DataflowSpec(
        "lived",
        tuple(
            WatchedContainer(Container(ContainerId(c), (Item(c),)), numbers) for c in CONTAINERS
        ),
        tuple(
            ActionSpec(
                a.name, a.role, a.after, a.reads, a.writes,
                trigger=trigger if a.name in decided else None,
            )
            for a in actions
        ),
    )  # fmt: skip


class Lived:
    """Waves that come one after the other; each step makes its output of what the tables hold."""

    def __init__(
        self,
        truth: AllWaves,
        settings: LearnedSettings,
        check: Callable[..., None] | None = None,
        world: type[EngineTester] = EngineTester,
    ) -> None:
        self.truth = truth
        made = partial(world, dataflow(settings), policies=with_triggers({"learned": learned}))
        self.tester = made() if check is None else made(check=check)
        self.shown: dict[str, Array] = {}
        """Of every container, what its table holds."""
        self.metrics: Callable[[MetricQuestion], MetricAnswer | None] = lambda _: None
        """Answers what users' metrics are asked; None where nobody does."""
        self.measured: list[MetricQuestion] = []
        """What they were asked."""
        self.wave = -1
        self._fed = 0
        self._asked = 0
        self._seen = 0

    def use(self, models: Mapping[str, bytes]) -> None:
        """Have models decide."""
        for output, model in models.items():
            self.answer(output, encode_answer(Models({output: model})))

    def answer(self, output: str, answer: bytes | None, reason: str = "") -> None:
        """Answer what the step has asked that writes an output."""
        step = next(step for step, container in WRITES.items() if container == output)
        self.tester.handle(Consulted(self.tester.now, step, "learned", answer, reason))

    def questions(self) -> list[Question]:
        """Return what was asked since the last call."""
        asked = [i for i in self.tester.instructions if isinstance(i, Consult)]
        new, self._asked = asked[self._asked :], len(asked)
        return [decode_question(one.question) for one in new]

    def compute(self) -> list[str]:
        """Have users' metrics answer what they were asked; return the steps launched for it."""
        begun = []
        while self._seen < len(self.tester.instructions):
            consult = self.tester.instructions[self._seen]
            self._seen += 1
            asked = decode_question(consult.question) if isinstance(consult, Consult) else None
            if not isinstance(consult, Consult) or not isinstance(asked, Measure):
                continue
            self.measured += asked.questions
            answers = [self.metrics(question) for question in asked.questions]
            known = [answer for answer in answers if answer is not None]
            if known:
                said = encode_answer(Measured(known))
                now, step = self.tester.now, consult.action
                begun += launched(self.tester.handle(Consulted(now, step, "learned", said, "")))
        return begun

    def policy(self, step: str) -> Learned:
        """Return a step's trigger."""
        policy = self.tester.engine.actions[step].policy
        assert isinstance(policy, Learned)
        return policy

    def write(
        self, container: str, values: Array, where: npt.NDArray[np.bool_], by: str | None
    ) -> None:
        rows = {
            b"%03d" % i: {b"f:x": repr(float(values[i])).encode()} for i in np.flatnonzero(where)
        }
        if rows:
            self.tester.write(container, rows, by=by)
        self.shown[container] = np.where(where, values, self.shown.get(container, values))

    def pass_wave(
        self, *, early: bool = False, between: Callable[[], None] = lambda: None
    ) -> set[str]:
        """Have the next wave come; return the steps that ran.

        Args:
            early: whether the input of the wave after it comes before any step has ended.
            between: called before each end of a step.
        """
        self.wave += 1
        tester, wave = self.tester, self.wave
        self._feed(wave)
        tester.now += HOUR
        waiting = list(
            launched(tester.wave("feed", number=wave + 1, time=float(self.truth.times[wave])))
        )
        if early and wave + 1 < self.truth.waves:
            self._feed(wave + 1)
        waiting += self.compute()
        ran: list[str] = []
        while waiting:
            step = waiting.pop(0)
            ran.append(step)
            between()
            read = {
                c: self.truth.values[c][wave] if c == "sensors" else self.shown[c]
                for c in READS[step]
            }
            values = made_by(step, read)
            self.write(WRITES[step], values, np.ones(len(values), bool), step)
            waiting += launched(tester.finish(step))
            waiting += self.compute()
        assert len(ran) == len(set(ran)), ran
        assert tester.engine.busy == ()
        return set(ran)

    def _feed(self, wave: int) -> None:
        if wave >= self._fed:
            self._fed = wave + 1
            values = self.truth.values["sensors"][wave]
            self.write("sensors", values, self.truth.reported[wave], None)
