"""Values of users' metrics since an action's last cut, as far as they have been answered."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import structs

from headgate.engine.spec.dataflow import Bound
from headgate.engine.spec.metrics.user import UserMetric
from headgate.engine.triggers.bounds.questions import (
    MetricAnswer,
    MetricQuestion,
    MetricQuestions,
    changed_values,
    decode_metric_answers,
    encode_metrics,
    version_of,
)
from headgate.engine.triggers.policy import Part


class AskedMetrics:
    """The users' metrics of one action.

    An answer holds for the state it was asked of. Where updates have come meanwhile it counts once,
    when it arrives: or else a container that never rests would never be found to have moved.

    Args:
        bounds: of the action.
    """

    def __init__(self, bounds: Iterable[Bound]) -> None:
        self._entries = {
            bound.name: bound.value.metric.entry
            for bound in bounds
            if bound.value is not None and isinstance(bound.value.metric, UserMetric)
        }
        self._asked: dict[str, tuple[float, ...]] = {}
        """By bound, the version of its container that was asked about last."""
        self._answers: dict[str, MetricAnswer] = {}
        self._open: frozenset[str] = frozenset()
        """Those of which an answer is awaited."""
        self._arrived: frozenset[str] = frozenset()
        """Those whose answers have not been counted yet."""

    @property
    def names(self) -> Iterable[str]:
        """The bounds with a user's metric."""
        return self._entries.keys()

    def last(self, bound: str) -> MetricAnswer | None:
        """Return what was answered last since the cut; None where nothing was."""
        return self._answers.get(bound)

    def current(self, bound: str, parts: Sequence[Part]) -> MetricAnswer | None:
        """Return the answer that holds now; None where there is none."""
        if not any(pending.changed for _, pending in parts):
            return MetricAnswer(bound, (), 0.0)
        if bound in self._arrived or self._asked.get(bound) == version_of(parts):
            return self._answers.get(bound)
        return None

    def question(self, parts: Mapping[str, Sequence[Part]]) -> bytes | None:
        """Return what is to be asked of the bounds without an answer; None where all have one.

        Args:
            parts: by bound, its container table by table.
        """
        questions = []
        for name, entry in self._entries.items():
            if self.current(name, parts[name]) is None:
                version = self._asked[name] = version_of(parts[name])
                elements = sum(cells.columns.size for cells, _ in parts[name])
                changed = [changed_values(pending) for _, pending in parts[name]]
                questions.append(MetricQuestion(name, version, entry, changed, elements))
        self._open = frozenset(one.bound for one in questions)
        return encode_metrics(MetricQuestions(questions)) if questions else None

    def take(self, answer: bytes | None, reason: str) -> None:
        """Take answers; a bound without one counts as reached, for the reason."""
        found: dict[str, MetricAnswer] = {}
        if answer is not None:
            try:
                answers = decode_metric_answers(answer).answers
            except msgspec.MsgspecError as error:
                reason = f"its answer can't be read: {error}"
            else:
                found = {a.bound: a for a in answers if self._asked.get(a.bound) == a.version}
                if not found:
                    return  # of before an edit: what is asked now is still to be answered
                reason = "it was not answered"
        for name in self._open:
            answered = found.get(name) or MetricAnswer(name, (), None, reason)
            self._answers[name] = _checked(answered)
        self._arrived, self._open = self._open, frozenset()

    def settle(self) -> None:
        """Have answers that have just arrived counted: from now on they hold for their state."""
        self._arrived = frozenset()

    def forget(self) -> None:
        """Begin anew from another cut."""
        self._asked.clear()
        self._answers.clear()
        self._open = self._arrived = frozenset()


def _checked(answer: MetricAnswer) -> MetricAnswer:
    if answer.amount is not None and math.isnan(answer.amount):
        return structs.replace(answer, amount=None, failure="it gave NaN")
    return answer
