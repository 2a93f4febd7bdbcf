"""Labels of service: of waves in which an output was made they are what a training would see."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from recorded import GRAPH, HORIZON, MAP, few_trees, histories, recorded

from headgate.learning import (
    FEATURES_OF_BEFORE,
    ContainerHistory,
    LabelledRows,
    Model,
    ServiceWaves,
    errors,
    extra_trees,
    features,
    fit,
    log_ratio,
    measured_pairs,
    refit,
    service_labels,
    service_pairs,
)

WAVES, TRAINED = 150, 120


@pytest.fixture(scope="module")
def model() -> Model:
    pairs = {name: each.until(TRAINED) for name, each in recorded(WAVES).items()}
    found = fit(GRAPH, pairs, [replace(MAP, bound=30.0, confidence=0.6)], few_trees)
    return found.models["map"]


def of_waves(history: ContainerHistory, places: np.ndarray) -> ContainerHistory:
    return ContainerHistory(
        history.values[places],
        history.elements[places],
        history.updates[places],
        history.times[places],
    )


def service(made: np.ndarray, first: int = 1, uncounted: tuple[int, ...] = ()) -> ServiceWaves:
    """Return the waves in which the map was made; sensors are counted."""
    known, places = histories(WAVES), np.flatnonzero(made)
    unknown = np.isin(np.arange(WAVES), uncounted).cumsum()
    return ServiceWaves(
        places + first,
        {name: of_waves(each, places) for name, each in known.items()},
        {"sensors": np.cumsum(known["sensors"].updates)[places]},
        unknown[places],
    )


def made(share: float = 0.4, seed: int = 1) -> np.ndarray:
    found: np.ndarray = np.random.default_rng(seed).random(WAVES) < share
    return found


def measured_by(model: Model, flags: np.ndarray) -> dict[str, LabelledRows]:
    """Return what a training on all waves would have of the pairs, by the levels of the model."""
    known = histories(WAVES)
    shown = measured_pairs(known["map"], HORIZON)
    pairs = service_pairs(flags, HORIZON)
    where = pairs.waves, pairs.ages
    logs = log_ratio(errors(shown, MAP.metric)[where], model.bound)
    found = {}
    for container, each in model.containers.items():
        history = known[container]
        if container != "sensors":
            history = replace(history, updates=history.updates * 0)
        table = features(measured_pairs(history, HORIZON, each.levels), shown.means)
        found[container] = LabelledRows(table[where], logs)
    return found


@pytest.mark.parametrize("first", [1, 700])
def test_labels_are_bit_for_bit_those_of_a_training_on_all_waves(model: Model, first: int) -> None:
    flags = made()
    found = service_labels(model, service(flags, first))
    expected = measured_by(model, flags)
    assert found.keys() == expected.keys() == {"sensors", "areas"}
    for container, rows in found.items():
        assert len(rows.logs) > 100
        assert rows.rows.tobytes() == expected[container].rows.tobytes()
        assert rows.logs.tobytes() == expected[container].logs.tobytes()


def test_pairs_over_a_wave_of_which_nobody_counted_the_updates_are_left_out(model: Model) -> None:
    flags, lost = made(), 75
    whole = service_labels(model, service(flags))
    found = service_labels(model, service(flags, uncounted=(lost,)))
    pairs = service_pairs(flags, HORIZON)
    over = (pairs.waves - pairs.ages < lost) & (pairs.waves >= lost)
    assert 0 < over.sum() < len(over)
    for container, rows in found.items():
        assert rows.rows.tobytes() == whole[container].rows[~over].tobytes()


def test_a_model_of_fewer_features_is_taught_those(model: Model) -> None:
    known = service(made())
    k = len(FEATURES_OF_BEFORE)
    whole = service_labels(model, known)
    containers = {
        name: replace(
            each,
            forest=extra_trees(whole[name].rows[:, :k], whole[name].logs, "map"),
            lowest=each.lowest[:k],
            highest=each.highest[:k],
        )
        for name, each in model.containers.items()
    }
    old = replace(model, containers=containers)
    found = service_labels(old, known)
    for container, rows in found.items():
        assert rows.rows.tobytes() == whole[container].rows[:, :k].tobytes()
    anew = refit(old, found, found)
    assert {each.forest.features for each in anew.containers.values()} == {FEATURES_OF_BEFORE}


def test_so_many_are_drawn_and_the_same_for_all_containers(model: Model) -> None:
    whole = service_labels(model, service(made()))
    found = service_labels(model, service(made()), most=50)
    again = service_labels(model, service(made()), most=50)
    places = {}
    for container, rows in found.items():
        assert rows.rows.tobytes() == again[container].rows.tobytes()
        known = [row.tobytes() for row in whole[container].rows]
        places[container] = [known.index(row.tobytes()) for row in rows.rows]
        assert places[container] == sorted(set(places[container]))
    assert len(places["sensors"]) == 50
    assert places["sensors"] == places["areas"]


@pytest.mark.parametrize("count", [0, 1])
def test_a_service_that_made_the_output_once_or_never_has_no_label(
    model: Model, count: int
) -> None:
    flags = np.arange(WAVES) < count
    found = service_labels(model, service(flags))
    assert {len(rows.logs) for rows in found.values()} == {0}
    assert refit(model, found, found) is not None


def test_what_changed_in_service_is_learned(model: Model) -> None:
    labels = service_labels(model, service(made()))
    anew = refit(model, measured_by(model, made(seed=2)), labels)
    for container, rows in labels.items():
        known = anew.containers[container]
        off = np.abs(known.scores(rows.rows) - known.adjustment - rows.logs).mean()
        before = np.abs(model.containers[container].forest.predict(rows.rows)[:, 0] - rows.logs)
        assert off < before.mean()


def test_a_container_without_a_history_is_an_error_that_names_it(model: Model) -> None:
    known = service(made())
    bare = replace(known, histories={"map": known.histories["map"]})
    with pytest.raises(ValueError, match="no history of areas, sensors"):
        service_labels(model, bare)
