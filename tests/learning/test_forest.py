"""Forests of arrays say what scikit-learn says, and nothing that is not whole is taken."""

from __future__ import annotations

import base64
import hashlib
import zlib

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from headgate.learning.envelope import UnusableModel
from headgate.learning.forest import (
    VERSION,
    Forest,
    Predicted,
    decode_forest,
    encode_forest,
    forest_of,
)

NAMES = ("one", "two", "three", "four")
LABELS = ("index", "map")


def examples(count: int = 120) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    rows = random.normal(size=(count, len(NAMES))).astype(np.float32)
    labels = (rows[:, :2].cumsum(1) + 0.5 * random.normal(size=(count, 2)) > 0).astype(int)
    return rows, labels


def fitted(kind: type = RandomForestClassifier, trees: int = 7) -> tuple[object, Forest]:
    model = kind(trees, min_samples_leaf=2, random_state=1).fit(*examples())
    return model, forest_of([tree.tree_ for tree in model.estimators_], NAMES, LABELS)


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_it_predicts_what_was_fitted(kind: type) -> None:
    model, forest = fitted(kind)
    rows = np.concatenate([examples()[0], 3 * examples()[0], np.zeros((1, 4), np.float32)])
    expected = np.stack([each[:, 1] for each in model.predict_proba(rows)], 1)  # type: ignore[attr-defined]
    np.testing.assert_allclose(forest.predict(rows), expected, rtol=0, atol=1e-12)


def test_a_value_on_a_threshold_goes_where_it_went_in_training() -> None:
    """Thresholds are of float64, and values are compared as float32."""
    model, forest = fitted()
    rows = np.repeat(examples()[0][:1], forest.threshold.size, 0)
    rows[np.arange(len(rows)), forest.feature.ravel()] = forest.threshold.ravel()
    expected = np.stack([each[:, 1] for each in model.predict_proba(rows)], 1)  # type: ignore[attr-defined]
    np.testing.assert_allclose(forest.predict(rows), expected, rtol=0, atol=1e-12)


def test_one_label_is_a_forest_too() -> None:
    rows, labels = examples()
    model = RandomForestClassifier(3, random_state=1).fit(rows, labels[:, 0])
    forest = forest_of([tree.tree_ for tree in model.estimators_], NAMES, ("index",))
    np.testing.assert_allclose(forest.predict(rows)[:, 0], model.predict_proba(rows)[:, 1])


def test_trees_that_never_saw_a_violation_are_refused() -> None:
    rows, labels = examples()
    model = RandomForestClassifier(3, random_state=1).fit(rows, np.zeros_like(labels))
    with pytest.raises(ValueError, match="fit it to examples of both classes"):
        forest_of([tree.tree_ for tree in model.estimators_], NAMES, LABELS)
    with pytest.raises(ValueError, match="a tree at least"):
        forest_of([], NAMES, LABELS)


@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesRegressor])
@pytest.mark.parametrize("labels", [("index",), LABELS])
def test_it_predicts_numbers_that_were_fitted(kind: type, labels: tuple[str, ...]) -> None:
    rows = examples()[0]
    targets = np.log(np.abs(rows[:, : len(labels)]) + 1e-3)
    model = kind(7, min_samples_leaf=2, random_state=1).fit(rows, np.squeeze(targets))
    trees = [tree.tree_ for tree in model.estimators_]
    forest = forest_of(trees, NAMES, labels, Predicted.LOG_ERROR)
    asked = np.concatenate([rows, 3 * rows, np.zeros((1, 4), np.float32)])
    expected = model.predict(asked).reshape(len(asked), -1)
    assert expected.min() < -1.0
    for each in (forest, decode_forest(encode_forest(forest))):
        assert each.predicted is Predicted.LOG_ERROR
        np.testing.assert_allclose(each.predict(asked), expected, rtol=0, atol=1e-12)


def test_classes_are_not_taken_for_numbers() -> None:
    model = RandomForestClassifier(3, random_state=1).fit(*examples())
    with pytest.raises(ValueError, match="fit a regressor to one column for each label"):
        forest_of([tree.tree_ for tree in model.estimators_], NAMES, LABELS, Predicted.LOG_ERROR)


WRITTEN_BY_VERSION_1 = base64.b64decode(
    "lKZmb3Jlc3QBxCDE2tbaHOuGct1mbxZky6YadCjaDFzwYBsNvtQjAF7eLMR8lpKjb25lo3R3b5GjbWFwAgcCxGh4nGNg"
    "wA0YoRiZjy7HhEMfExQzAzErFLNBxXDpY4Gqh+ljQ9IHBDfuX51mj8e5uECC96nHIH0Puv782o9FvuFm8Vcc5j5BE/9A"
    "pP0P7D0nqQDRTXuYvrIkdSC6BuW/gIvD1AMAHtYblw=="
)
"""Two trees that predict a violation of ``map`` from ``one`` and ``two``."""


def test_what_version_1_wrote_is_still_read() -> None:
    forest = decode_forest(WRITTEN_BY_VERSION_1)
    assert (forest.features, forest.labels) == (("one", "two"), ("map",))
    assert forest.predicted is Predicted.PROBABILITY
    found = forest.predict(np.array([[0.5, 0.0], [-0.5, 0.0]], np.float32))
    # 1/2 of 1 and 0; and of 9/26 and 9/26: the leaves where they end
    np.testing.assert_allclose(found[:, 0], [0.5 + 9 / 52, 9 / 52])


def test_contributions_and_the_roots_are_what_is_predicted() -> None:
    rows, target = examples()
    trees = ExtraTreesRegressor(7, random_state=0).fit(rows, target.astype(float)).estimators_
    columns = tuple(map(str, range(rows.shape[1])))
    labels = tuple(map(str, range(target.shape[1])))
    forest = forest_of([tree.tree_ for tree in trees], columns, labels, Predicted.LOG_ERROR)

    roots = forest.values[:, 0].mean(0)
    for row, predicted in zip(rows[:20], forest.predict(rows[:20]), strict=True):
        added = forest.contributions(row)
        assert added.shape == (len(columns), len(labels))
        np.testing.assert_allclose(roots + added.sum(0), predicted, atol=1e-12)


def test_a_feature_that_chooses_no_branch_contributes_nothing() -> None:
    rows = np.random.default_rng(0).random((60, 3)).astype(np.float32)
    rows[:, 1] = 0.5
    fitted = ExtraTreesRegressor(5, random_state=0).fit(rows, 4.0 * rows[:, 2])
    names = ("a", "b", "c")
    trees = [one.tree_ for one in fitted.estimators_]
    forest = forest_of(trees, names, ("y",), Predicted.LOG_ERROR)

    highest = forest.contributions(rows[rows[:, 2].argmax()])[:, 0]
    assert highest[1] == 0.0
    assert highest[2] > 1.0 > abs(highest[0])
    with pytest.raises(ValueError, match="is not of 3 features"):
        forest.contributions(rows[0, :2])


def test_rows_of_other_features_are_refused() -> None:
    with pytest.raises(ValueError, match="not of 4 features"):
        fitted()[1].predict(np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match="not of 4 features"):
        fitted()[1].predict(np.zeros(4, np.float32))


def test_it_is_the_same_after_it_was_stored() -> None:
    forest = fitted()[1]
    again = decode_forest(encode_forest(forest))
    rows = examples()[0]
    assert again.predict(rows).tobytes() == forest.predict(rows).tobytes()
    assert (again.features, again.labels) == (NAMES, LABELS)


STORED = encode_forest(fitted()[1])


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(STORED) - 1), st.integers(1, 255))
def test_a_flipped_byte_never_makes_another_model(at: int, flip: int) -> None:
    damaged = bytearray(STORED)
    damaged[at] ^= flip
    with pytest.raises(UnusableModel, match="train the dataflow again"):
        decode_forest(bytes(damaged))


@pytest.mark.parametrize("length", [0, 1, len(STORED) // 2, len(STORED) - 1])
def test_a_part_of_a_model_is_none(length: int) -> None:
    with pytest.raises(UnusableModel):
        decode_forest(STORED[:length])


def remade(**other: object) -> bytes:
    """A model whose checksum is right, and whose parts are what somebody else wrote."""
    kind, version, _, body = msgspec.msgpack.decode(STORED)
    fields = msgspec.msgpack.decode(body)
    names = ("features", "labels", "trees", "nodes", "depth", "arrays", "predicted")
    fields = [other.get(name, value) for name, value in zip(names, fields, strict=True)]
    body = msgspec.msgpack.encode(fields)
    kind, version = other.get("kind", kind), other.get("version", version)
    digest = hashlib.sha256(f"{kind}/{version}/".encode() + body).digest()
    return msgspec.msgpack.encode([kind, version, digest, body])


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"version": VERSION + 1}, "of version 3 and this program reads 2 at most; upgrade it"),
        ({"kind": "neighbours"}, "of kind 'neighbours', not 'forest'"),
        ({"trees": 8}, "not what it says"),
        ({"trees": 0}, "0 trees"),
        ({"nodes": 10**9}, "1000000000 nodes"),
        ({"labels": ("index",)}, "not what it says"),
        ({"features": ("one",)}, "a node leads out of its tree"),
        ({"arrays": b"no zlib"}, "not what it says"),
        ({"predicted": "neighbours"}, "not what it says"),
    ],
)
def test_a_model_of_somebody_else_is_refused_with_what_it_is(
    other: dict[str, object], words: str
) -> None:
    with pytest.raises(UnusableModel, match=words):
        decode_forest(remade(**other))
    decode_forest(remade())


def test_a_small_model_that_unpacks_to_a_large_one_is_refused() -> None:
    with pytest.raises(UnusableModel, match="not what it says"):
        decode_forest(remade(arrays=zlib.compress(bytes(50_000_000))))
