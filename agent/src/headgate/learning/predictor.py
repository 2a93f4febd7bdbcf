"""Models of bounded outputs: what predicts from a container above one that a skip would violate.

A model is made of plain numbers, is stored under a checksum, and says in words how far it is to be
believed. Where it is asked about something unlike all that it was trained on, the step runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Final, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct

from headgate.learning.envelope import UnusableModel, seal, unseal
from headgate.learning.features import FEATURES, LEVELS, Row, columns_of, own_metric
from headgate.learning.forest import Forest, Predicted, decode_forest, encode_forest
from headgate.learning.impact import Changes, OutputMetric, Values
from headgate.learning.looks import Persistence

MODEL_VERSION: Final = 3
_KIND: Final = "output model"
WIDEST: Final = 0.25
"""Of ln(ε / bound): errors farther from the bound are alike, for what counts is the side on which
they are. Fitted: forests of the whole logarithm saved a quarter less."""
_MARGIN: Final = 0.1
"""Of a feature's range in training, by which it may be passed: waves to come pass a range of two
weeks somewhere nearly always. Fitted."""


def log_ratio(errors: npt.NDArray[np.float64], bound: float) -> npt.NDArray[np.float64]:
    """Return ln(ε / bound), cut off on both sides, in the shape of the errors: what forests learn.

    It is 0 at the bound, in units of any metric. An error that is not known is a large one.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(np.nan_to_num(errors / bound, nan=math.inf, posinf=math.inf))
    cut: npt.NDArray[np.float64] = np.clip(logs, -WIDEST, WIDEST)
    return cut


FOLLOWED: Final = 0.9
"""The quantile of measured minus predicted ln ε that feedback follows."""


class Predictor(Protocol):
    """Whatever says of a container, at one moment, how near to a violation a skip would be."""

    def score(self, row: Row) -> float:
        """Return the predicted violation, shape of the row (k,); infinity where it is not known.

        What is above the output's threshold runs. Units are the predictor's own.
        """


class Residuals(Struct, frozen=True):
    """How far ln ε was from what was predicted of it, out of fold, where training would run."""

    upper: float
    """The quantile ``FOLLOWED`` of measured minus predicted."""
    spread: float
    """Standard deviation, above 0: the unit of feedback's steps."""


class Influence(Struct, frozen=True):
    """One feature's part in a prediction."""

    feature: str
    value: float
    lowest: float
    """In training."""
    highest: float
    contribution: float
    """To predicted ln(ε / bound); 0 where there is no prediction."""


class ContainerModel(Struct, frozen=True, eq=False):
    """What predicts an output's error from one container above it: a ``Predictor``."""

    forest: Forest
    lowest: Row
    """Smallest of each feature in training, shape (k,)."""
    highest: Row
    levels: Values
    """Deciles of the container's values in training, shape (9,)."""
    residuals: Residuals
    """Of adjusted predictions."""
    adjustment: float = 0.0
    """Added to predicted ln(ε / bound), so that a score is of the same risk from each container at
    the output's threshold."""
    persistence: Mapping[str, float] = {}
    """By container that is made of this one, see ``Persistence``."""

    @property
    def own(self) -> str:
        """The user's metric that gives its last feature; empty where none does."""
        return own_metric(self.forest.features) or ""

    def shown(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return of rows (..., k) the features that it was fitted to: a version before had fewer.

        Raises:
            ValueError: they have other features.
        """
        names = self.forest.features
        if rows.shape[-1] == len(names):
            return rows
        if rows.shape[-1] != len(FEATURES) + bool(self.own):
            message = f"rows of shape {rows.shape} are not of {len(names)} features"
            raise ValueError(message)
        return rows[..., columns_of(names)]

    def score(self, row: Row) -> float:
        """Return adjusted ln(ε / bound); infinity where a feature is outside training's range.

        Raises:
            ValueError: the row has another number of features.
        """
        return float(self.scores(row[None])[0])

    def scores(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Return the scores of many rows, shape (n, k), as (n,)."""
        known = self.shown(rows)
        return np.where(self.within(known), self.adjusted(known), math.inf)

    def adjusted(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        """Return the scores of many rows, shape (n, k), as (n,), were all within the ranges."""
        return self.forest.predict(self.shown(rows))[:, 0] + self.adjustment

    def within(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
        """Return of which rows, shape (n, k), all features are about in training's range, (n,)."""
        inside: npt.NDArray[np.bool_] = np.all(self._known(self.shown(rows)), axis=1)
        return inside

    def _known(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
        margin = _MARGIN * (self.highest - self.lowest)
        known: npt.NDArray[np.bool_] = (rows >= self.lowest - margin) & (
            rows <= self.highest + margin
        )
        return known

    def influences(self, row: Row, most: int) -> tuple[Influence, ...]:
        """Return the features that a score came of, the strongest first, ``most`` at most.

        Where the score is infinity those are the ones outside training's range, the farthest first;
        otherwise those that contributed most to the prediction, in either direction.

        Raises:
            ValueError: the row has another number of features.
        """
        row = self.shown(row)
        contributions = self.forest.contributions(row)[:, 0]
        unknown = ~self._known(row[None])[0]
        if unknown.any():
            contributions = np.zeros_like(contributions)
            beyond = np.maximum(self.lowest - row, row - self.highest).astype(np.float64)
            width = (self.highest - self.lowest).astype(np.float64)
            constant = width == 0.0
            strength = np.where(constant, math.inf, beyond / np.where(constant, 1.0, width))
            strength = np.where(unknown, strength, 0.0)
        else:
            strength = np.abs(contributions)
        strongest = np.argsort(-strength, kind="stable")[:most]
        return tuple(
            Influence(
                self.forest.features[at],
                float(row[at]),
                float(self.lowest[at]),
                float(self.highest[at]),
                float(contributions[at]),
            )
            for at in strongest.tolist()
            if strength[at] > 0.0
        )


class Model(Struct, frozen=True, eq=False):
    """What decides on one bounded output."""

    output: str
    """The container."""
    metric: OutputMetric
    bound: float
    """Of ε by the metric."""
    confidence: float
    """Share of the waves that shall be within the bound."""
    threshold: float
    """λ: what scores above it runs."""
    containers: Mapping[str, ContainerModel]
    """By container above the output."""
    horizon: int
    """Waves after which the step runs whatever is predicted."""
    waves: int
    """Trained on, synchronous."""
    first_time: float
    """Of the first of them, in Unix seconds."""
    last_time: float
    upper: float
    """Bound of the rate of violations in training, at the threshold."""
    calibration: str
    """The result in words."""
    changes: Changes = Changes.CANCEL

    @property
    def persistence(self) -> Persistence:
        """By container above another one, and that one."""
        each = self.containers.items()
        return {name: known.persistence for name, known in each if known.persistence}

    def score(self, container: str, row: Row) -> float:
        """Return the predicted violation as seen from a container.

        Raises:
            ValueError: the model knows no such container, or the row has other features.
        """
        known = self.containers.get(container)
        if known is None:
            message = (
                f"the model of {self.output} predicts from {', '.join(self.containers)}, not from "
                f"{container}; train the dataflow again, as it has changed"
            )
            raise ValueError(message)
        return known.score(row)


_Share = Annotated[float, Meta(gt=0.0, lt=1.0)]


class _Container(Struct, frozen=True, array_like=True):
    name: str
    forest: bytes
    """Sealed by itself."""
    lowest: tuple[float, ...]
    highest: tuple[float, ...]
    levels: tuple[float, ...]
    upper: float
    spread: Annotated[float, Meta(gt=0.0)]
    adjustment: float = 0.0
    """Version 1 has none."""
    persistence: dict[str, Annotated[float, Meta(ge=0.0, le=1.0)]] = {}
    """Version 2 has none."""


class _Body(Struct, frozen=True, array_like=True):
    output: str
    metric: OutputMetric
    bound: Annotated[float, Meta(gt=0.0)]
    confidence: _Share
    threshold: float
    containers: Annotated[tuple[_Container, ...], Meta(min_length=1)]
    horizon: Annotated[int, Meta(ge=1)]
    waves: Annotated[int, Meta(ge=1)]
    first_time: float
    last_time: float
    upper: Annotated[float, Meta(ge=0.0, le=1.0)]
    calibration: str
    changes: Changes = Changes.CANCEL


def encode_model(model: Model) -> bytes:
    """Return a model as bytes that say what they are and whether they are whole."""
    containers = tuple(
        _Container(
            name,
            encode_forest(each.forest),
            tuple(each.lowest.tolist()),
            tuple(each.highest.tolist()),
            tuple(each.levels.tolist()),
            each.residuals.upper,
            each.residuals.spread,
            each.adjustment,
            dict(each.persistence),
        )
        for name, each in model.containers.items()
    )
    body = _Body(
        model.output,
        model.metric,
        model.bound,
        model.confidence,
        model.threshold,
        containers,
        model.horizon,
        model.waves,
        model.first_time,
        model.last_time,
        model.upper,
        model.calibration,
        model.changes,
    )
    return seal(_KIND, MODEL_VERSION, msgspec.msgpack.encode(body))


def decode_model(data: bytes) -> Model:
    """Return a model from its bytes.

    Raises:
        UnusableModel: they are no model of an output, are damaged, were written by a newer program,
            or were trained on other features than this one computes.
    """
    try:
        body = msgspec.msgpack.decode(unseal(data, _KIND, MODEL_VERSION), type=_Body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        message = f"the model is not what it says ({error}); train the dataflow again"
        raise UnusableModel(message) from error
    numbers = body.bound, body.threshold, body.first_time, body.last_time
    if not all(map(math.isfinite, numbers)):
        message = f"the model of {body.output} has numbers that are none; train the dataflow again"
        raise UnusableModel(message)
    return Model(
        body.output,
        body.metric,
        body.bound,
        body.confidence,
        body.threshold,
        {each.name: _container_model(body.output, each) for each in body.containers},
        body.horizon,
        body.waves,
        body.first_time,
        body.last_time,
        body.upper,
        body.calibration,
        body.changes,
    )


def _container_model(output: str, saved: _Container) -> ContainerModel:
    forest = decode_forest(saved.forest)
    if (
        own_metric(forest.features) is None
        or forest.labels != (output,)
        or forest.predicted is not Predicted.LOG_ERROR
    ):
        message = (
            f"what predicts {output} from {saved.name} was trained on {len(forest.features)} "
            f"features to give {forest.predicted} of {', '.join(forest.labels)}, and this program "
            f"computes {len(FEATURES)}; train the dataflow again"
        )
        raise UnusableModel(message)
    if (
        not len(saved.lowest) == len(saved.highest) == len(forest.features)
        or len(saved.levels) != LEVELS
        or not np.isfinite((*saved.lowest, *saved.highest, *saved.levels)).all()
        or not math.isfinite(saved.upper)
        or not math.isfinite(saved.spread)
        or not math.isfinite(saved.adjustment)
    ):
        message = (
            f"what predicts {output} from {saved.name} has no range of every feature; train the "
            "dataflow again"
        )
        raise UnusableModel(message)
    return ContainerModel(
        forest,
        np.array(saved.lowest, np.float32),
        np.array(saved.highest, np.float32),
        np.array(saved.levels),
        Residuals(saved.upper, saved.spread),
        saved.adjustment,
        saved.persistence,
    )
