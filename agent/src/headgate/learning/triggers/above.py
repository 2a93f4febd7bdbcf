"""The containers above one bounded output: what a model is shown of them in a wave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from headgate.engine import Inputs, MetricAnswer, MetricQuestion, Moment, UserMetric, Wave
from headgate.learning.features import Row, WaveContext, row_of
from headgate.learning.predictor import Model
from headgate.learning.triggers.bases import Start
from headgate.learning.triggers.impacts import UserImpacts
from headgate.learning.triggers.metering import (
    Meter,
    Until,
    counted_elements,
    is_known,
    question_on,
    updates_of,
)


class ContainersAbove:
    """Measures the containers from which an output is predicted, since its last run.

    Args:
        output: its name.
        names: of the containers.
        sources: containers that no step writes, with their updates in the last wave; it is kept up
            by whoever hears of waves.
        metrics: by container, the user's metric that gives a further feature.
        until: returns the moment at which a container was as the wave has it that it is of.
    """

    def __init__(
        self,
        output: str,
        names: Sequence[str],
        sources: Mapping[str, int],
        metrics: Mapping[str, str],
        until: Callable[[str, Inputs], Until],
    ) -> None:
        self.names = tuple(names)
        self._output = output
        self._sources = sources
        self._until = until
        self.unbased: set[str] = set()
        """Containers of which nobody knows how they were for the output's last run. Saved."""
        self.elements: dict[str, int] = {}
        """Number of elements when the output's last run began (n), by container, where it is known.
        Saved."""
        self._metrics = metrics
        self._model: Model | None = None
        self._meters: dict[str, Meter] = {}
        self._impacts = UserImpacts()

    def probe(self, container: str) -> str:
        """Return the probe that measures a container since the output's last run."""
        return f"{container} since {self._output}"

    def knows(self, model: Model) -> bool:
        """Return whether the users' metrics that a model was learned with are those of now."""
        asked = {name: known.own for name, known in model.containers.items() if known.own}
        return asked.items() <= self._metrics.items()

    def use(self, model: Model) -> None:
        """Show what this model wants to be shown."""
        self._model = model
        self._meters = {name: Meter(known.levels) for name, known in model.containers.items()}

    def launched(self, inputs: Moment, start: Callable[[str], Start]) -> None:
        """Begin anew, from what each container was for the run.

        Args:
            inputs: in which the probes are.
            start: returns from where a container is to be measured.
        """
        self.unbased.clear()
        for container in self.names:
            probe, found = self.probe(container), start(container)
            since, present = found.since, found.elements
            if since is None:
                present = counted_elements(inputs.probe(probe))
            if not found.known:
                self.unbased.add(container)
            if present is None:
                self.elements.pop(container, None)
            else:
                self.elements[container] = present
            inputs.reset(probe, since)
            if container in self._meters:
                self._meters[container].forget()

    def rows(
        self, containers: Sequence[str], inputs: Inputs, wave: Wave, version: int, shown: float
    ) -> dict[str, Row | None]:
        """Return features by container; None where a part of them is not known.

        Args:
            containers: that the model knows.
            inputs: in which their probes are.
            wave: the one that has ended.
            version: the wave in which the output was made last.
            shown: mean of the output's values.
        """
        moment = (float(wave.number), float(version))
        return {
            container: self._impacts.row(self.probe(container), moment)
            if self._own(container)
            else self._row(container, inputs, wave, version, shown)
            for container in containers
        }

    def questions(
        self, containers: Sequence[str], inputs: Inputs, wave: Wave, version: int, shown: float
    ) -> Iterator[MetricQuestion]:
        """Yield what users' metrics have to be asked for ``rows``; see there."""
        moment = (float(wave.number), float(version))
        for container in containers:
            metric = self._own(container)
            row = self._row(container, inputs, wave, version, shown) if metric else None
            if row is None:
                continue
            probe = self.probe(container)
            until = self._until(container, inputs)
            asked = question_on(inputs.probe(probe), probe, moment, UserMetric(metric), until)
            question = self._impacts.question(probe, moment, row, asked)
            if question is not None:
                yield question

    def take(self, answer: MetricAnswer) -> None:
        """Take what a user's metric has said of a container, if it is one of these."""
        self._impacts.take(answer)

    def give_up(self, reason: str) -> None:
        """Take note that what was asked is not answered."""
        self._impacts.give_up(reason)

    def unknown(self, container: str, wave: Wave, version: int) -> str:
        """Return why a container of which ``rows`` gives nothing has none."""
        if container in self.unbased:
            return f"nobody knows how it was when `{self._output}` was made"
        if not self._own(container):
            return "not all of its values are"
        return self._impacts.failure(self.probe(container), (float(wave.number), float(version)))

    @property
    def failures(self) -> str:
        """What users' metrics failed on when they were asked last."""
        return self._impacts.failures

    def _own(self, container: str) -> str:
        known = None if self._model is None else self._model.containers.get(container)
        return "" if known is None else known.own

    def _row(
        self, container: str, inputs: Inputs, wave: Wave, version: int, shown: float
    ) -> Row | None:
        """Return headgate's own features of a container; None where its values are not known."""
        parts, until = inputs.probe(self.probe(container)), self._until(container, inputs)
        if not is_known(parts) or container in self.unbased:
            return None
        if until.elements is None and not until.is_now:
            return None
        meter, present = self._meters[container], self.elements.get(container)
        if present is None and meter.needs_elements:
            return None
        measured = meter.impact(parts, present, until)
        if measured.unknown:
            return None
        counted = container in self._sources
        context = WaveContext(
            time=wave.time,
            age=wave.number - version,
            updates=updates_of(parts) - until.updates if counted else 0,
            last_updates=self._sources[container] if counted else 0,
            shown=shown,
        )
        return row_of(measured, context)


def wave_probe(container: str) -> str:
    """Return the probe that measures a source since the last wave ended."""
    return f"{container} since the wave"
