"""Models by which learned triggers decided while they were recorded, as replays are given them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from headgate.engine import Consulted, DataflowSpec, DecisionKind
from headgate.learning import (
    LEARNED,
    Lost,
    Model,
    Models,
    Train,
    UnusableModel,
    decode_model,
    decode_question,
    encode_answer,
    settings_of,
    user_metrics,
    version_of_model,
)
from headgate.replay.recording import NotRecorded, Recording, RecordingError, ReplayedDecision


class ModelKey(Struct, frozen=True, order=True):
    """What a model is of, and what it is called."""

    output: str
    """The container."""
    version: str


class UnknownModel(RecordingError):
    """A model that decided while the dataflow was recorded is not at hand."""


def recorded_models(recording: Recording) -> tuple[ModelKey, ...]:
    """Return the models by which a dataflow was decided on, in the order in which they came."""
    found = {
        ModelKey(output, version): None
        for decision in recording.decisions
        if decision.kind == DecisionKind.ADOPTED
        for output, version in decision.versions.items()
        if version
    }
    return tuple(found)


def refuse_metrics_of_users(spec: DataflowSpec) -> None:
    """Refuse a dataflow whose triggers go by what users' metrics say.

    Raises:
        NotRecorded: it is one.
    """
    for metric in user_metrics(spec):
        raise NotRecorded(
            f"`{LEARNED}` measures by {metric.entry!r}, which a replay cannot ask; replay "
            "dataflows whose errors and impacts are headgate's own"
        )


class RecordedModels:
    """The models of a recording, and which of them were given when.

    Args:
        recording: what is known of the dataflow's past.
        stored: their bytes.

    Raises:
        UnknownModel: the record does not say which decided, or one of them is not among those that
            are stored, is damaged, or was written by a newer program.
    """

    kind: Final = LEARNED
    """The kind of triggers that models decide for, in waves alone."""

    def __init__(self, recording: Recording, stored: Mapping[ModelKey, bytes]) -> None:
        self._name = recording.dataflow
        self._stored = stored
        if recording.unversioned:
            raise UnknownModel(
                f"models launched {', '.join(map(repr, recording.unversioned))} of {self._name!r}, "
                "and the agent that recorded it was of a version that did not write down which "
                f"and since when; {self._anew}"
            )
        self._models = {key: self._decoded(key) for key in recorded_models(recording)}
        self._refitted = dict(self._refits(recording))

    def _refits(self, recording: Recording) -> Iterator[tuple[tuple[int, str], str]]:
        """Yield where a model came that was fitted anew, and the one that it was made of.

        Of those trained anew one has other waves or another threshold.
        """
        latest: dict[str, str] = {}
        for place, decision in enumerate(recording.decisions):
            if decision.kind != DecisionKind.ADOPTED:
                continue
            for output, version in decision.versions.items():
                former = latest.get(output, "")
                latest[output] = version
                if version and former and version != former:
                    now, then = (self._models[ModelKey(output, v)] for v in (version, former))
                    if _training_of(now) == _training_of(then):
                        yield (place, output), former

    @property
    def _anew(self) -> str:
        return f"to record anew, remove and submit {self._name}"

    def _decoded(self, key: ModelKey) -> Model:
        what = f"model {key.version}, which decided on `{key.output}` of {self._name!r},"
        data = self._stored.get(key)
        if data is None:
            raise UnknownModel(f"{what} is not at hand; {self._anew}")
        if version_of_model(data) != key.version:
            raise UnknownModel(f"{what} is damaged: its bytes are not those; {self._anew}")
        try:
            return decode_model(data)
        except UnusableModel as error:
            raise UnknownModel(f"{what} cannot be used here: {error}") from error

    @staticmethod
    def trained(question: bytes) -> Sequence[str]:
        """Return the outputs for which a trigger asks models to be trained."""
        asked = decode_question(question)
        return asked.outputs if isinstance(asked, Train) else ()

    def given(
        self, now: float, place: int, decision: ReplayedDecision, spec: DataflowSpec
    ) -> list[Consulted]:
        """Return what triggers of a dataflow hear of what was given to those that were recorded.

        Args:
            now: Unix seconds.
            place: of the decision in the record.
            decision: that something was adopted.
            spec: the dataflow; outputs that it does not bound are left out.
        """
        writers = {str(c): a.name for a in spec.triggered(self.kind) for c in a.writes}
        heard = []
        for output, version in decision.versions.items():
            if output in writers:
                stored = self._stored[ModelKey(output, version)] if version else None
                said = Lost(decision.words) if stored is None else stored
                former = self._refitted.get((place, output))
                instead = {} if former is None else {output: former}
                answer = encode_answer(Models({output: said}, instead))
                heard.append(Consulted(now, writers[output], self.kind, answer))
        return heard

    def misfit(self, spec: DataflowSpec) -> str:
        """Return why models that were recorded say nothing of a dataflow; empty where they do.

        A model predicts on which side of one error an output will be, and its threshold is that of
        one confidence. Other shares of audits and other horizons leave both as they are.
        """
        actions = spec.triggered(self.kind)
        if not actions:
            return ""
        outputs = settings_of(actions).outputs
        for key, model in self._models.items():
            asked = outputs.get(key.output)
            if asked is None:
                continue
            fitted = (model.metric, model.bound, model.confidence)
            if fitted != (asked.metric, asked.bound, asked.confidence):
                return (
                    f"output {key.output!r} is bounded by an error ({asked.metric}) of "
                    f"{asked.bound:g} in {asked.confidence:.4g} of the waves, and model "
                    f"{key.version}, which was recorded, was fitted to {model.metric} "
                    f"{model.bound:g} in {model.confidence:.4g}; a replay fits none, so leave "
                    "error and confidence as they were recorded"
                )
        return ""


def _training_of(model: Model) -> tuple[float, float, int, float, str]:
    """Return what a model that is fitted anew keeps of its training."""
    times = model.first_time, model.last_time
    return *times, model.waves, model.threshold, model.calibration
