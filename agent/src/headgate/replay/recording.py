"""What is known of a dataflow's past: decisions of their topic, and its runs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from statistics import median

import msgspec
from msgspec import Struct

from headgate.engine import Decision, DecisionKind
from headgate.events import Cut


class RecordedDecision(Decision, frozen=True):
    """One line of the decisions topic: a decision, and what a replay needs besides."""

    cut: Cut = Cut()
    """What the engine had taken in at this moment; of the kinds in ``PLACED`` only."""
    wave: int = 0
    wave_time: float | None = None
    """The wave's own time, in Unix seconds."""
    inputs: tuple[str, ...] = ()
    """Input actions whose wave ended."""
    container: str = ""
    table: str = ""
    cells: int = 0
    """How many a scan of the container's part in the table found."""
    start: bytes = b""
    stop: bytes | None = None
    """In which rows: from ``start`` to before ``stop``, or to the end."""
    ttls: dict[str, int] = msgspec.field(default_factory=dict)
    """Milliseconds after which cells of the table expire, by family (as the text of a key)."""
    source: str = ""
    """The dataflow file that holds from here on."""
    profile: str | None = None


PLACED = frozenset(
    {
        DecisionKind.SUBMITTED,
        DecisionKind.WAVE_ENDED,
        DecisionKind.SCANNED,
        DecisionKind.LAUNCHED,
        DecisionKind.RETRIED,
        DecisionKind.FINISHED,
        DecisionKind.QUARANTINED,
        DecisionKind.PAUSED,
        DecisionKind.RESUMED,
        DecisionKind.SPECIFICATION_CHANGED,
        DecisionKind.ADOPTED,
        DecisionKind.RESTARTED,
    }
)
"""Decisions whose place among the updates is recorded: those that a replay does again."""


class JudgedResult(Struct, frozen=True):
    """What a replay reads of the result by which a trigger decided."""

    data: dict[str, float | str | None] = {}


class ReplayedDecision(Struct, frozen=True):
    """What a replay reads of a ``RecordedDecision``."""

    time: float
    kind: str
    words: str
    action: str = ""
    run: str = ""
    moment: str = ""
    cut: Cut = Cut()
    wave: int = 0
    """0 where the recording is from before waves had numbers."""
    wave_time: float | None = None
    """None where the recording is from before waves had times of their own."""
    inputs: tuple[str, ...] = ()
    container: str = ""
    table: str = ""
    cells: int = 0
    start: bytes = b""
    stop: bytes | None = None
    ttls: dict[str, int] = {}
    """Empty where the recording is from before decisions had it."""
    source: str = ""
    profile: str | None = None
    versions: dict[str, str] = {}
    """Empty where the recording is from before decisions had the versions of models."""
    result: JudgedResult | None = None


class RecordingError(Exception):
    """What was recorded does not allow a replay; the message says why and what to do."""


class NothingRecorded(RecordingError):
    """Nothing is known of a dataflow of that name."""


class RetentionPassed(RecordingError):
    """Kafka has deleted what the replay needs."""


class NotRecorded(RecordingError):
    """Events leave out what the replay needs."""


class RecordedRun(Struct, frozen=True):
    """A run that took place. ``launched`` and ``ended`` are positions among the decisions."""

    action: str
    run: str
    launched: int
    time: float
    cut: Cut
    ended: int | None
    seconds: float | None
    """From launch to commit; None where the end is not known."""
    wave: int
    """How many waves had ended when it was launched."""
    on: int = 0
    """Number of the wave that it was on, by its trigger; 0 where that is not recorded."""


class Recording:
    """A dataflow's past since it was last submitted anew.

    Args:
        dataflow: its name.
        decisions: from its submission on, each thing once.
    """

    def __init__(self, dataflow: str, decisions: tuple[ReplayedDecision, ...]) -> None:
        self.dataflow = dataflow
        self.decisions = decisions
        self.start = decisions[0].cut
        self.waves = tuple(i for i, m in enumerate(decisions) if m.kind == DecisionKind.WAVE_ENDED)
        """Positions of the ends of waves."""
        self.gaps = sum(m.kind == DecisionKind.GAP for m in decisions)
        self.given_up = tuple(m.action for m in decisions if m.kind == DecisionKind.QUARANTINED)
        self.unversioned = tuple(dict.fromkeys(m.action for m in decisions if _by_unknown_model(m)))
        """Actions that models have launched of which nobody wrote down since when they decided."""
        self.runs = self._find_runs()
        """By action, in the order of their launches."""
        self._launches = {a: [run.launched for run in runs] for a, runs in self.runs.items()}
        self._restless = {
            wave
            for runs in self.runs.values()
            for run in runs
            if run.ended is not None
            for wave in self.waves[run.wave : bisect_left(self.waves, run.ended)]
        }

    def _find_runs(self) -> Mapping[str, tuple[RecordedRun, ...]]:
        ends = {m.run: i for i, m in enumerate(self.decisions) if m.kind == DecisionKind.FINISHED}
        found: dict[str, list[RecordedRun]] = {}
        for i, decision in enumerate(self.decisions):
            if decision.kind != DecisionKind.LAUNCHED:
                continue
            end = ends.get(decision.run)
            seconds = None if end is None else max(0.0, self.decisions[end].time - decision.time)
            run = RecordedRun(
                decision.action,
                decision.run,
                i,
                decision.time,
                decision.cut,
                end,
                seconds,
                bisect_left(self.waves, i),
                _wave_of(decision),
            )
            found.setdefault(decision.action, []).append(run)
        return {action: tuple(runs) for action, runs in found.items()}

    def next_run(self, action: str, moment: int) -> RecordedRun | None:
        """Return the action's first run that was launched at this moment or later."""
        launches = self._launches.get(action, [])
        place = bisect_left(launches, moment)
        return self.runs[action][place] if place < len(launches) else None

    def last_run(self, action: str, moment: int) -> RecordedRun | None:
        """Return the action's last run that was launched before this moment."""
        place = bisect_left(self._launches.get(action, []), moment)
        return self.runs[action][place - 1] if place else None

    def next_wave(self, moment: int) -> int | None:
        """Return the position of the first end of a wave at this moment or later."""
        place = bisect_left(self.waves, moment)
        return self.waves[place] if place < len(self.waves) else None

    def at_rest(self, moment: int) -> bool:
        """Return whether no run was under way at this end of a wave."""
        return moment not in self._restless

    def typical_seconds(self, action: str) -> float:
        """Return the median time that the action's runs took; 0 where it had none."""
        known = [run.seconds for run in self.runs.get(action, ()) if run.seconds is not None]
        return median(known) if known else 0.0

    @property
    def definitions(self) -> dict[int, tuple[str, str | None]]:
        """Dataflow file and profile by the position of the decision from which on they hold."""
        return {
            i: (m.source, m.profile)
            for i, m in enumerate(self.decisions)
            if m.kind in (DecisionKind.SUBMITTED, DecisionKind.SPECIFICATION_CHANGED)
        }


def _wave_of(launch: ReplayedDecision) -> int:
    """Return the wave that a trigger has launched a run on; 0 where it did not say."""
    wave = None if launch.result is None else launch.result.data.get("wave")
    return int(wave) if isinstance(wave, float | int) else 0


def _by_unknown_model(decision: ReplayedDecision) -> bool:
    launched = decision.kind == DecisionKind.LAUNCHED and not decision.versions
    return launched and decision.result is not None and bool(decision.result.data.get("model"))


_decoder = msgspec.json.Decoder(ReplayedDecision)

_KEPT = frozenset(PLACED | {DecisionKind.GAP})


def read_recording(dataflow: str, lines: Iterable[bytes]) -> Recording:
    """Return what the decisions topic says of a dataflow since it was last submitted anew.

    Args:
        dataflow: its name.
        lines: values of the topic's records with the dataflow's key, in their order.

    Raises:
        NothingRecorded: there are none.
        RetentionPassed: the submission is not among them any more.
    """
    decisions: list[ReplayedDecision | None] = []
    submitted = any_line = False
    places: dict[tuple[str, str], int] = {}
    for line in lines:
        any_line = True
        decision = _decoder.decode(line)
        if decision.kind not in _KEPT:
            continue
        if decision.kind == DecisionKind.SUBMITTED:
            decisions, submitted = [], True
            places.clear()
        # Agents that take over say some things again. A wave counts where it was last evaluated,
        # and a run ends where that was last taken: an end that no checkpoint has is taken anew.
        kind, subject = decision.kind, decision.run
        if kind == DecisionKind.WAVE_ENDED and decision.wave:
            subject = str(decision.wave)
        elif kind == DecisionKind.RETRIED:
            kind = DecisionKind.LAUNCHED
            decision = msgspec.structs.replace(decision, result=None)  # judged at the launch
        elif kind not in (DecisionKind.LAUNCHED, DecisionKind.FINISHED):
            decisions.append(decision)
            continue
        known = places.get((kind, subject))
        if known is None or kind in (DecisionKind.WAVE_ENDED, DecisionKind.FINISHED):
            places[kind, subject] = len(decisions)
            decisions.append(msgspec.structs.replace(decision, kind=kind))
            if known is not None:
                decisions[known] = None
    if not any_line:
        raise NothingRecorded(
            f"nothing was recorded of a dataflow {dataflow!r}; see the names with `headgate flow "
            "list`"
        )
    if not submitted:
        raise RetentionPassed(
            f"Kafka has deleted the beginning of what was recorded of {dataflow!r} (or an agent "
            "recorded it that could not be replayed yet); raise retention.ms of topic "
            "headgate.decisions and of its tables' topics, then remove and submit the dataflow"
        )
    return Recording(dataflow, tuple(decision for decision in decisions if decision is not None))
