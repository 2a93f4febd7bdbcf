"""How violations are told from what is within the bound: figures 7 and 8, and classifiers compared.

Examples are those of the paper: one a wave, against a simulated last run that restarts where ε
passes the bound (SmartFlux, section 3).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from evaluation.learned.applications import Application
from headgate.learning import (
    FEATURES,
    ErrorMetric,
    MeasuredPairs,
    errors,
    extra_trees,
    features,
    log_ratio,
)
from headgate.learning.fitting.quality import Quality, quality, simulated_runs
from headgate.learning.fitting.training import TENFOLD, TRAINED_AGES, pairs_of
from headgate.learning.pairs import FeatureTable

FIGURE_7_BOUND: Final = 0.2
"""Of the paper's figure 7."""
TREES: Final = 100
"""Of the paper's forest: the default of both WEKA and scikit-learn."""
_FIRST = 50
"""Waves of the smallest training set of figure 8, and the step to the next."""
_RELATIVE_IMPACT = FEATURES.index("relative_impact")
_DIGITS = 5

Table = npt.NDArray[np.float64]
Labels = npt.NDArray[np.bool_]


class CurvePoint(Struct, frozen=True):
    """A model of so many waves, tested on those after training (figure 8)."""

    step: str
    bound: float
    waves: int
    way: str
    """``learned``: ours before calibration, λ = 0; ``paper``: a forest on ι."""
    quality: Quality


class RocArea(Struct, frozen=True):
    """How well a classifier ranks violations of a step above the rest."""

    classifier: str
    inputs: str
    """``ι`` or ``features``."""
    step: str
    bound: float
    tenfold: float
    """In the paper's cross-validation, ten parts drawn at random of the training waves."""
    later: float | None
    """Fitted to all of them, on the waves after; None where those are of one class."""


class Classification(Struct, frozen=True):
    """What figures 7 and 8 and the table of classifiers are drawn from."""

    points: dict[str, list[tuple[float, float]]]
    """By step, ι and ε of each example at ε 20 %."""
    curve: list[CurvePoint]
    areas: list[RocArea]


def mean_impacts(tables: Sequence[FeatureTable]) -> Table:
    """Return ι (2) of a step by wave and age: the geometric mean of its containers'."""
    impacts = np.stack([table[..., _RELATIVE_IMPACT] for table in tables], -1).astype(np.float64)
    with np.errstate(divide="ignore"):
        found: Table = np.exp(np.log(impacts).mean(-1))
    return found


def paper_forest(inputs: Table, violated: Labels) -> Callable[[Table], Table]:
    """Return what predicts violations from inputs, (n, k) to (n,), as the paper does.

    Args:
        inputs: of the training set, shape (n, k).
        violated: whether they are out of bounds, shape (n,).
    """
    if violated.all() or not violated.any():
        return lambda rows: np.full(len(rows), float(violated.all()))
    forest = RandomForestClassifier(TREES, random_state=0).fit(inputs, violated)
    return lambda rows: forest.predict_proba(rows)[:, 1]


class StepExamples(Struct, frozen=True, eq=False):
    """A step with the examples of all its waves at one bound."""

    step: str
    bound: float
    training: int
    """Waves."""
    known: Table
    """ε by wave and age."""
    tables: Sequence[FeatureTable]
    """Of each container that the step reads."""
    output: str
    waves: npt.NDArray[np.int64]
    ages: npt.NDArray[np.int64]

    @property
    def where(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Wave and age of each, shape (n,)."""
        return self.waves, self.ages

    @property
    def impacts(self) -> Table:
        """ι (2), shape (n, 1)."""
        return mean_impacts(self.tables)[self.where][:, None]

    @property
    def rows(self) -> Table:
        """Our features of all containers side by side, shape (n, k)."""
        parts = [table[self.where] for table in self.tables]
        return np.concatenate(parts, 1).astype(np.float64)

    @property
    def violated(self) -> Labels:
        """Whether each is out of bounds, shape (n,)."""
        return ~(self.known[self.where] <= self.bound)


def step_examples(
    application: Application, step: str, pairs: Mapping[str, MeasuredPairs], bound: float
) -> StepExamples:
    """Return the examples of a step."""
    output, reads = application.singles[step]
    known = errors(pairs[output], ErrorMetric.RELATIVE)
    tables = [features(pairs[c], pairs[output].means) for c in reads]
    found = simulated_runs(known, bound)
    return StepExamples(
        step, bound, application.training, known, tables, output, found.waves, found.ages
    )


def classification(
    application: Application, pairs: Mapping[str, MeasuredPairs], bounds: Sequence[float]
) -> Classification:
    """Return figures 7 and 8 and the classifiers of all steps of a dataflow."""
    points = {}
    curve: list[CurvePoint] = []
    areas: list[RocArea] = []
    for step in application.singles:
        for bound in bounds:
            examples = step_examples(application, step, pairs, bound)
            curve += learning_curve(examples)
            areas += roc_areas(examples)
        examples = step_examples(application, step, pairs, FIGURE_7_BOUND)
        known = examples.known[examples.where]
        points[step] = [
            (round(float(impact), _DIGITS), round(float(error), _DIGITS))
            for impact, error in zip(examples.impacts[:, 0], known, strict=True)
        ]
    return Classification(points, curve, areas)


def learning_curve(examples: StepExamples) -> Iterator[CurvePoint]:
    """Yield the quality of models of ever more waves on the waves after training."""
    later = examples.waves >= examples.training
    where = examples.waves[later], examples.ages[later]
    violated, impacts = examples.violated, examples.impacts
    for waves in (*range(_FIRST, examples.training, _FIRST), examples.training):
        first = examples.waves < waves
        predict = paper_forest(impacts[first], violated[first])
        found = {"learned": (_scores(examples, waves, where), 0.0)}
        found["paper"] = predict(impacts[later]), 0.5
        for way, (scores, threshold) in found.items():
            one = quality(violated[later], scores, threshold)
            yield CurvePoint(examples.step, examples.bound, waves, way, one)


def _scores(
    examples: StepExamples, waves: int, where: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
) -> Table:
    """Return what forests of the pairs of the first waves predict: the highest of all containers'.

    It is ln(ε / bound), so that 0 is the bound.
    """
    later, ages = pairs_of(waves, examples.known.shape[1] - 1)
    trains = np.isin(ages, TRAINED_AGES)
    pairs = later[trains], ages[trains]
    logs = log_ratio(examples.known[pairs], examples.bound)
    return np.max(
        [
            extra_trees(table[pairs], logs, examples.output).predict(table[where])[:, 0]
            for table in examples.tables
        ],
        0,
    )


def classifiers() -> dict[str, Any]:
    """Return the paper's classifiers by name, not fitted.

    All are scikit-learn's defaults but the tree, whose leaves hold two examples as J48's do, and
    the network, which is small and is fitted by L-BFGS, as that suits some hundred examples.
    """
    return {
        "naive Bayes": GaussianNB(),
        "decision tree": DecisionTreeClassifier(min_samples_leaf=2, random_state=0),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "neural network": make_pipeline(
            StandardScaler(), MLPClassifier((16,), solver="lbfgs", max_iter=200, random_state=0)
        ),
        "random forest": RandomForestClassifier(TREES, random_state=0),
        "SVM": make_pipeline(StandardScaler(), SVC(random_state=0)),
    }


def roc_areas(examples: StepExamples) -> Iterator[RocArea]:
    """Yield the ROC areas of a step; none where a class has fewer examples than there are parts."""
    violated = examples.violated
    first = examples.waves < examples.training
    labels = violated[first]
    if min(labels.sum(), (~labels).sum()) < TENFOLD:
        return
    parts = StratifiedKFold(TENFOLD, shuffle=True, random_state=0)
    for inputs, rows in (("ι", examples.impacts), ("features", examples.rows)):
        for name, classifier in classifiers().items():
            method = (
                "predict_proba" if hasattr(classifier, "predict_proba") else "decision_function"
            )
            with warnings.catch_warnings():
                # A network that has not converged is judged as it is.
                warnings.simplefilter("ignore", ConvergenceWarning)
                scores = cross_val_predict(classifier, rows[first], labels, cv=parts, method=method)
                fitted = classifier.fit(rows[first], labels)
            tenfold = quality(labels, _of_violations(scores), 0.5).roc_area
            after = _of_violations(getattr(fitted, method)(rows[~first]))
            later = quality(violated[~first], after, 0.5).roc_area
            if tenfold is not None:  # as there are examples of both classes
                yield RocArea(name, inputs, examples.step, examples.bound, tenfold, later)


def _of_violations(scores: Table) -> Table:
    """Return the column of the violations, shape (n,), where there is one for each class."""
    column: Table = scores[:, 1] if scores.ndim > 1 else scores
    return column
