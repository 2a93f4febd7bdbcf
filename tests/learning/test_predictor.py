"""Models predict what their forests do, run where they know nothing, and are stored whole."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from fitted_models import OUTPUT, SOURCE, container_model, drawn_rows, model
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesRegressor

from headgate.engine import UserMetric
from headgate.learning.envelope import UnusableModel, seal, unseal
from headgate.learning.features import FEATURES, FEATURES_OF_BEFORE
from headgate.learning.forest import Predicted, encode_forest, forest_of
from headgate.learning.predictor import (
    MODEL_VERSION,
    Model,
    decode_model,
    encode_model,
    log_ratio,
)


def test_what_is_predicted_is_0_at_the_bound_and_finite_everywhere() -> None:
    errors = np.array([0.0, 0.01, 0.09, 0.1, 0.11, 5.0, math.inf, math.nan])
    logs = log_ratio(errors, 0.1)
    assert logs[3] == 0.0
    assert logs[2:5].tolist() == [pytest.approx(math.log(x)) for x in (0.9, 1.0, 1.1)]
    assert (logs[:2] == -0.25).all()
    assert (logs[5:] == 0.25).all()


def test_a_score_is_what_the_forest_says() -> None:
    predictor = container_model()
    for row in drawn_rows(count=10):
        assert predictor.score(row) == predictor.forest.predict(row[None])[0, 0]
        assert container_model(adjustment=0.07).score(row) == predictor.score(row) + 0.07


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(FEATURES) - 1), st.booleans())
def test_a_feature_well_outside_trainings_range_is_never_within_a_threshold(
    at: int, above: bool
) -> None:
    predictor = container_model()
    row = drawn_rows()[3]
    edge, away = (predictor.highest, np.inf) if above else (predictor.lowest, -np.inf)
    row[at] = edge[at]
    assert math.isfinite(predictor.score(row))
    margin = np.float32(0.1) * (predictor.highest[at] - predictor.lowest[at])
    row[at] = edge[at] + (1 if above else -1) * np.float32(0.9) * margin
    assert math.isfinite(predictor.score(row))
    row[at] = np.nextafter(edge[at] + (1 if above else -1) * margin, np.float32(away))
    row[at] = np.nextafter(row[at], np.float32(away))
    assert predictor.score(row) == math.inf
    row[at] = math.nan
    assert predictor.score(row) == math.inf


def test_a_container_that_was_not_there_in_training_is_named() -> None:
    row = drawn_rows()[0]
    assert model().score(SOURCE, row) == container_model().score(row)
    with pytest.raises(ValueError, match="predicts from sensors, areas, not from hills; train"):
        model().score("hills", row)


def test_a_prediction_comes_of_the_features_that_contributed_most() -> None:
    known, row = container_model(), drawn_rows()[0]
    first, second, third = known.influences(row, 3)

    strengths = np.abs(known.forest.contributions(row)[:, 0])
    assert first.feature == FEATURES[0]
    assert [abs(one.contribution) for one in (first, second, third)] == sorted(strengths)[:-4:-1]
    assert (first.value, first.lowest, first.highest) == (
        float(row[0]),
        float(known.lowest[0]),
        float(known.highest[0]),
    )


def test_where_nothing_is_predicted_the_features_out_of_range_are_named_farthest_first() -> None:
    known, row = container_model(), drawn_rows()[0]
    row[4], row[7] = 2.0, -9.0
    found = known.influences(row, 3)

    assert known.score(row) == math.inf
    assert [(one.feature, one.value, one.contribution) for one in found] == [
        (FEATURES[7], -9.0, 0.0),
        (FEATURES[4], 2.0, 0.0),
    ]


def test_a_model_is_the_same_after_it_was_stored() -> None:
    known, again = model(), decode_model(encode_model(model()))
    rows = np.concatenate([drawn_rows(), drawn_rows() + np.float32(0.1)])
    for name in (SOURCE, "areas"):
        expected, found = known.containers[name], again.containers[name]
        assert found.scores(rows).tobytes() == expected.scores(rows).tobytes()
        assert (found.levels == expected.levels).all()
        assert found.residuals == expected.residuals
        assert found.persistence == expected.persistence
    for name in set(Model.__struct_fields__) - {"containers"}:
        assert getattr(again, name) == getattr(known, name)


def test_a_model_of_a_metric_of_the_users_is_the_same_after_it_was_stored() -> None:
    own = msgspec.structs.replace(model(), metric=UserMetric("metrics:Worst"), bound=40.0)
    found = decode_model(encode_model(own))
    assert (found.metric, found.bound) == (own.metric, own.bound)
    assert encode_model(found) == encode_model(own)


def test_a_model_of_before_errors_could_accumulate_is_read() -> None:
    fields = msgspec.msgpack.decode(unseal(encode_model(model()), "output model", MODEL_VERSION))
    assert fields.pop() == "cancel"
    older = seal("output model", MODEL_VERSION, msgspec.msgpack.encode(fields))
    assert encode_model(decode_model(older)) == encode_model(model())


STORED = encode_model(model())


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(STORED) - 1), st.integers(1, 255))
def test_a_flipped_byte_never_makes_another_model(at: int, flip: int) -> None:
    damaged = bytearray(STORED)
    damaged[at] ^= flip
    with pytest.raises(UnusableModel, match="train the dataflow again"):
        decode_model(bytes(damaged))


def test_a_forest_alone_or_a_newer_model_is_refused_with_what_it_is() -> None:
    with pytest.raises(UnusableModel, match="of kind 'forest', not 'output model'"):
        decode_model(encode_forest(container_model().forest))
    body = unseal(STORED, "output model", MODEL_VERSION)
    with pytest.raises(UnusableModel, match="of version 4 and this program reads 3 at most"):
        decode_model(seal("output model", MODEL_VERSION + 1, body))


def with_features(*more: str) -> bytes:
    """Return a model whose containers were learned from further features."""
    known = model()
    for name, each in list(known.containers.items()):
        forest = msgspec.structs.replace(each.forest, features=(*FEATURES, *more))
        lowest, highest = (
            np.append(one, np.zeros(len(more), np.float32)) for one in (each.lowest, each.highest)
        )
        known.containers[name] = msgspec.structs.replace(
            each, forest=forest, lowest=lowest, highest=highest
        )
    return encode_model(known)


def test_a_container_may_have_one_feature_more_that_is_named_after_its_metric() -> None:
    found = decode_model(with_features("metrics:Moved"))
    assert {each.own for each in found.containers.values()} == {"metrics:Moved"}
    row = np.append(drawn_rows()[0], np.float32(0.0))
    assert found.score(SOURCE, row) == model().score(SOURCE, drawn_rows()[0])
    assert {each.own for each in model().containers.values()} == {""}
    with pytest.raises(UnusableModel, match="was trained on 44 features"):
        decode_model(with_features("metrics:Moved", "metrics:Other"))


BODY = msgspec.msgpack.decode(unseal(STORED, "output model", MODEL_VERSION))
CONTAINER = BODY[5][0]


def test_a_model_of_version_1_is_read_and_adjusts_nothing() -> None:
    first = [*BODY[:5], [each[:-2] for each in BODY[5]], *BODY[6:]]
    found = decode_model(seal("output model", 1, msgspec.msgpack.encode(first)))
    now = decode_model(STORED)
    row = drawn_rows(1)[0]
    assert found.score(SOURCE, row) == now.score(SOURCE, row)
    assert found.score("areas", row) == pytest.approx(now.score("areas", row) - 0.07)


def test_a_model_of_version_2_is_read_and_looks_at_each_wave_for_itself() -> None:
    second = [*BODY[:5], [each[:-1] for each in BODY[5]], *BODY[6:]]
    found = decode_model(seal("output model", 2, msgspec.msgpack.encode(second)))
    row = drawn_rows(1)[0]
    assert decode_model(STORED).persistence == {SOURCE: {"areas": 0.6}}
    assert found.persistence == {}
    for name in (SOURCE, "areas"):
        assert found.score(name, row) == decode_model(STORED).score(name, row)


@pytest.mark.parametrize("own", [(), ("metrics:Moved",)])
def test_a_model_that_knows_no_net_crossings_is_shown_what_it_knows(own: tuple[str, ...]) -> None:
    """A row of now has nine columns more, before that of the user's metric."""
    k = len(FEATURES_OF_BEFORE)
    places = [*range(k), *[len(FEATURES)] * len(own)]
    rows = np.random.default_rng(3).random((60, len(FEATURES) + len(own))).astype(np.float32)
    old = rows[:, places]
    fitted = ExtraTreesRegressor(5, min_samples_leaf=3, random_state=0)
    fitted.fit(old, old[:, 0] - 0.5 * old[:, -1])
    trees = [tree.tree_ for tree in fitted.estimators_]
    forest = forest_of(trees, (*FEATURES_OF_BEFORE, *own), (OUTPUT,), Predicted.LOG_ERROR)
    known = msgspec.structs.replace(
        container_model(), forest=forest, lowest=old.min(0), highest=old.max(0)
    )
    whole = msgspec.structs.replace(model(), containers={SOURCE: known})
    found = decode_model(encode_model(whole)).containers[SOURCE]
    assert found.own == "".join(own)
    expected = forest.predict(old)[:, 0]
    assert found.scores(rows).tolist() == found.scores(old).tolist() == expected.tolist()
    assert found.within(rows).all()
    assert found.influences(rows[0], 2) == found.influences(old[0], 2)
    beyond = rows[0].copy()
    beyond[k : len(FEATURES)] = 99.0
    assert found.score(beyond) == expected[0]
    with pytest.raises(ValueError, match="are not of"):
        found.score(rows[0, : k - 1])


def remade(at: int, value: object, container: bool = False) -> bytes:
    """A model whose checksum is right, and of which a part is what somebody else wrote."""
    body = list(BODY)
    if container:
        part = list(CONTAINER)
        part[at] = value
        at, value = 5, [part]
    body[at] = value
    return seal("output model", MODEL_VERSION, msgspec.msgpack.encode(body))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (remade(0, "hills"), "predicts hills from sensors was trained on 42 features"),
        (remade(1, "median"), "not what it says"),
        (remade(2, 0.0), "not what it says"),
        (remade(3, 1.0), "not what it says"),
        (remade(4, math.nan), "numbers that are none"),
        (remade(5, []), "not what it says"),
        (remade(2, 1, container=True), "not what it says"),
        (remade(2, CONTAINER[2][1:], container=True), "no range of every feature"),
        (remade(4, CONTAINER[4][1:], container=True), "no range of every feature"),
        (remade(5, math.inf, container=True), "no range of every feature"),
        (remade(6, 0.0, container=True), "not what it says"),
        (remade(7, math.nan, container=True), "no range of every feature"),
        (remade(8, {"areas": 1.5}, container=True), "not what it says"),
        (remade(8, {"areas": math.nan}, container=True), "not what it says"),
        (
            remade(
                1,
                encode_forest(
                    msgspec.structs.replace(
                        container_model().forest, predicted=Predicted.PROBABILITY
                    )
                ),
                container=True,
            ),
            "to give probability of map",
        ),
    ],
)
def test_a_model_of_somebody_else_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(UnusableModel, match=words) as refused:
        decode_model(data)
    assert "train the dataflow again" in str(refused.value)


def test_what_was_remade_is_refused_for_what_was_changed_only() -> None:
    assert decode_model(remade(0, OUTPUT)).output == OUTPUT
    assert decode_model(remade(0, CONTAINER[0], container=True)).containers.keys() == {SOURCE}
