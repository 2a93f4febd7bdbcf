"""What is kept of trainings: pairs and models, as they were and signed."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kept import HORIZON, TARGETS, WAVES, knowledge, measured, pairs
from msgspec.structs import replace
from simulation.rows import SEALS, MemoryRows
from taught import GRAPH

from headgate.agent.state.sealed import Seals
from headgate.agent.training.knowledge import ForeignPairs, Knowledge, ModelMissing, Trimmed
from headgate.agent.training.pairs import WavePairs, set_of
from headgate.agent.training.parquet import UnusableParquet, read_pairs, write_pairs
from headgate.learning import (
    FEATURES,
    FEATURES_OF_BEFORE,
    ErrorMetric,
    errors,
    features,
    version_of_model,
)
from headgate.settings import KeyRing


def assert_same(found: list[WavePairs], expected: list[WavePairs]) -> None:
    assert [one.key for one in found] == [one.key for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.features.tobytes() == other.features.tobytes()
        assert one.errors.tobytes() == other.errors.tobytes()
        assert (one.features.dtype.str, one.errors.dtype.str) == ("<f4", "<f8")
        assert one.basis == other.basis


def of_before(one: WavePairs) -> WavePairs:
    """Return pairs as a version kept them that knew no net crossings."""
    return replace(one, features=one.features[:, : len(FEATURES_OF_BEFORE)])


def of_long_before(one: WavePairs) -> WavePairs:
    """Return pairs as a version kept them that noted no basis either."""
    return WavePairs(replace(one.key, set=""), of_before(one).features, one.errors)


def exported_before(pairs: list[WavePairs], *missing: str) -> io.BytesIO:
    """Return the file that a version wrote whose pairs all are of these features."""
    file = io.BytesIO()
    write_pairs(file, pairs)
    table = pq.ParquetFile(file).read().drop_columns([*FEATURES[33:], *missing])
    file = io.BytesIO()
    version = {b"headgate.features": b"a9f6e7c0e2595be6"}
    pq.write_table(table.replace_schema_metadata(version), file)
    return file


def test_pairs_are_those_of_each_wave_up_to_the_horizon() -> None:
    found = pairs()
    table = measured()
    targets = {target.output: target for target in TARGETS}
    containers = {o: GRAPH.above(o) for o in targets}
    assert [(one.key.output, one.key.container) for one in found[:: WAVES - 1]] == [
        (output, container) for output in targets for container in containers[output]
    ]
    for one in found:
        place = one.key.wave - 101
        ages = range(1, min(place, HORIZON) + 1)
        shown = features(table[one.key.container], table[one.key.output].means)
        target = targets[one.key.output]
        wrong = errors(table[one.key.output], target.metric, target.changes)
        np.testing.assert_array_equal(one.features, shown[place, list(ages)])
        np.testing.assert_array_equal(one.errors, wrong[place, list(ages)])


def test_pairs_come_back_bit_for_bit_and_each_wave_is_written_once() -> None:
    rows = MemoryRows()
    assert knowledge(rows).keep_pairs(pairs()) == len(pairs())
    kept = {row: dict(columns) for row, columns in rows.rows.items()}
    knowledge(rows).keep_pairs(pairs(name="lived/other"))

    assert knowledge(rows).keep_pairs(pairs(WAVES, first=101)) == 0
    assert {row: rows.rows[row] for row in kept} == kept
    assert_same(list(knowledge(rows).pairs("lived")), sorted(pairs(), key=lambda one: one.key))


def test_pairs_say_by_what_they_were_measured_and_which_were_measured_alike() -> None:
    table = measured()
    for one in pairs():
        basis = one.basis
        assert basis is not None
        assert basis.metric is {each.output: each.metric for each in TARGETS}[one.key.output]
        assert basis.levels == tuple(table[one.key.container].deciles.tolist())
        assert basis.time == table[one.key.output].times[one.key.wave - 101]
    sets = {one.key.output: one.key.set for one in pairs()}
    assert sets["level"].startswith("relative-")
    assert sets["map"].startswith("rmse-")
    assert len({(one.key.output, one.key.set) for one in pairs()}) == 2


def test_another_training_on_the_same_waves_is_kept_beside_the_first() -> None:
    rows = MemoryRows()
    knowledge(rows).keep_pairs(pairs())
    other = [replace(one, key=replace(one.key, set="rmse-0")) for one in pairs()]
    assert knowledge(rows).keep_pairs(other) == len(other)
    assert len(list(knowledge(rows).pairs("lived"))) == 2 * len(other)
    found = list(knowledge(rows).pairs_of([other[3].key, other[9].key]))
    assert_same(found, sorted([other[3], other[9]], key=lambda one: one.key))
    assert set(knowledge(rows).pair_keys("lived")) == {one.key for one in [*other, *pairs()]}


def test_pairs_of_the_version_before_stay_readable_and_signed() -> None:
    rows, before = MemoryRows(), [of_long_before(one) for one in pairs()]
    knowledge(rows).keep_pairs(before)
    assert all(len(row.split(b"/")) == 6 for row in rows.rows)
    assert {columns[b"pairs:set"] for columns in rows.rows.values()} == {b"a9f6e7c0e2595be6"}
    assert all(b"pairs:basis" not in columns for columns in rows.rows.values())
    assert_same(list(knowledge(rows).pairs("lived")), sorted(before, key=lambda one: one.key))


def test_a_file_of_the_version_before_is_taken_in() -> None:
    before = [of_before(one) for one in pairs()]
    assert_same(list(read_pairs(exported_before(before), "a.parquet", "lived")), before)
    before = [of_long_before(one) for one in pairs()]
    file = exported_before(before, "set", "metric", "levels", "wave_time")
    assert_same(list(read_pairs(file, "a.parquet", "lived")), before)


def test_pairs_of_both_versions_are_kept_and_exported_together() -> None:
    mixed = [of_before(one) if one.key.wave % 2 else one for one in pairs()]
    rows, file = MemoryRows(), io.BytesIO()
    knowledge(rows).keep_pairs(mixed)
    assert_same(list(knowledge(rows).pairs("lived")), sorted(mixed, key=lambda one: one.key))
    write_pairs(file, mixed)
    assert_same(list(read_pairs(file, "a.parquet", "lived")), mixed)


def test_pairs_measured_alike_have_the_same_features() -> None:
    """A training never mixes them; the sets of the version before stay what they were."""
    levels = {"b": np.arange(9.0), "a": np.ones(9)}
    assert set_of(ErrorMetric.RMSE, levels, 33) == "rmse-dfc6e9921aa1410a"
    assert set_of(ErrorMetric.RMSE, levels, len(FEATURES)) != "rmse-dfc6e9921aa1410a"


def test_the_oldest_waves_go_when_there_are_more_than_are_kept() -> None:
    rows = MemoryRows()
    knowledge(rows, waves=5).keep_pairs(pairs())

    waves = {one.key.wave for one in knowledge(rows).pairs("lived")}
    assert waves == {105, 106, 107, 108, 109}


@pytest.mark.parametrize(
    "column", [b"pairs:features", b"pairs:errors", b"pairs:basis", b"pairs:seal"]
)
def test_pairs_that_nobody_has_signed_are_refused_and_named(column: bytes) -> None:
    rows = MemoryRows()
    knowledge(rows).keep_pairs(pairs())
    row = min(rows.rows)
    rows.rows[row][column] = rows.rows[row][column][:-1] + b"x"

    with pytest.raises(ForeignPairs, match=r"lived --trim 0"):
        list(knowledge(rows).pairs("lived"))
    with pytest.raises(ForeignPairs, match="pairs/lived/level/areas/1700000000000/0000000102"):
        list(knowledge(rows).pairs("lived"))


def test_pairs_with_other_features_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = MemoryRows()
    with monkeypatch.context() as patched:
        name = "headgate.agent.training.knowledge.feature_set_of"
        patched.setattr(name, lambda _: "of the future")
        knowledge(rows).keep_pairs(pairs())

    with pytest.raises(ForeignPairs, match="features 'of the future', and this program"):
        list(knowledge(rows).pairs("lived"))


def test_a_model_comes_back_by_its_version() -> None:
    rows = MemoryRows()
    model = bytes(range(256)) * 10_000  # in three cells
    version = knowledge(rows).keep_model("lived", "level", model)

    assert version == version_of_model(model)
    assert knowledge(rows).model("lived", "level", version) == model
    with pytest.raises(ModelMissing, match=r"is not in the knowledge table; .* flow train other"):
        knowledge(rows).model("other", "level", version)


def test_the_oldest_models_go_when_there_are_more_than_are_kept() -> None:
    rows = MemoryRows()
    kept = knowledge(rows, models=3)
    first, *later = (kept.keep_model("lived", "map", b"%d" % n) for n in range(4))
    other = kept.keep_model("lived", "level", b"other")

    with pytest.raises(ModelMissing):
        kept.model("lived", "map", first)
    assert [kept.model("lived", "map", each) for each in later] == [b"1", b"2", b"3"]
    kept.keep_model("lived", "map", b"1")  # the newest again
    kept.keep_model("lived", "map", b"4")
    assert kept.model("lived", "map", later[0]) == b"1"
    with pytest.raises(ModelMissing):
        kept.model("lived", "map", later[1])
    assert kept.model("lived", "level", other) == b"other"


def test_models_of_the_version_before_are_the_oldest() -> None:
    rows = MemoryRows()
    before = knowledge(rows).keep_model("lived", "map", b"of before")
    del next(iter(rows.rows.values()))[b"models:number"]
    assert knowledge(rows).model("lived", "map", before) == b"of before"

    for n in range(3):
        knowledge(rows, models=3).keep_model("lived", "map", b"%d" % n)
    with pytest.raises(ModelMissing):
        knowledge(rows).model("lived", "map", before)


def test_trimming_leaves_the_newest_waves_and_the_models_that_decide() -> None:
    rows = MemoryRows()
    kept = knowledge(rows)
    kept.keep_pairs([*pairs(), *pairs(name="lived/other")])
    used, idle, newest = (kept.keep_model("lived", "map", b"%d" % n) for n in range(3))
    others = kept.keep_model("lived/other", "map", b"5")
    containers = len({(one.key.output, one.key.container) for one in pairs()})

    found = kept.trim("lived", 2, {used})

    assert (found.pairs, found.models) == (len(pairs()) - 2 * containers, 1)
    assert {one.key.wave for one in kept.pairs("lived")} == {108, 109}
    assert kept.model("lived", "map", used) == b"0"
    assert kept.model("lived", "map", newest) == b"2"
    with pytest.raises(ModelMissing):
        kept.model("lived", "map", idle)
    assert (len(list(kept.pairs("lived/other"))), kept.model("lived/other", "map", others)) == (
        len(pairs()),
        b"5",
    )
    kept.trim("lived", 0, ())
    assert list(kept.pairs("lived")) == []


def test_pairs_that_cannot_be_read_are_trimmed_all_the_same() -> None:
    rows = MemoryRows()
    knowledge(rows).keep_pairs(pairs())
    rows.rows[min(rows.rows)].clear()
    assert knowledge(rows).trim("lived", 0, ()).pairs == len(pairs())


def test_a_dataflow_is_forgotten_whole_and_no_other() -> None:
    rows = MemoryRows()
    kept = knowledge(rows)
    for name in ("lived", "lived2", "lived/2"):
        kept.keep_pairs(pairs(name=name))
        kept.keep_model(name, "map", b"model")
    before = len(rows.rows)

    kept.forget("lived")

    assert not any(row.split(b"/")[1] == b"lived" for row in rows.rows)
    assert len(rows.rows) == before * 2 // 3


def test_nothing_is_made_to_delete_from() -> None:
    """A dataflow that has learned nothing is removed without a table being created."""

    def create() -> None:
        raise AssertionError("the table was created")

    kept = Knowledge(MemoryRows(), SEALS, 1, 3, create, lambda: False)
    kept.forget("lived")
    assert kept.trim("lived", 0, ()) == Trimmed(0, 0)


@pytest.mark.parametrize("wrong", ["cut short", "unsigned", "another key", "another row"])
def test_a_model_that_no_agent_has_signed_is_none(wrong: str) -> None:
    rows, model, output, seals = MemoryRows(), b"a model", "level", SEALS
    version = knowledge(rows).keep_model("lived", output, model)
    row = next(iter(rows.rows))
    if wrong == "cut short":
        rows.rows[row][b"models:00000"] = model[:-1]
    elif wrong == "unsigned":
        del rows.rows[row][b"models:seal"]
    elif wrong == "another key":
        seals = Seals(KeyRing([b"the key of some other agents, elsewhere"]), SEALS.table)
    else:
        output = "map"
        rows.rows[row.replace(b"level", b"map")] = rows.rows[row]

    words = "damaged" if wrong == "cut short" else "signed by no agent"
    with pytest.raises(ModelMissing, match=words):
        knowledge(rows, seals=seals).model("lived", output, version)


def test_a_parquet_file_has_all_pairs_and_gives_them_to_any_dataflow() -> None:
    file = io.BytesIO()
    assert write_pairs(file, pairs()) == sum(len(one.errors) for one in pairs())
    file.seek(0)
    assert_same(list(read_pairs(file, "a.parquet", "copy")), pairs(name="copy"))
    table = pq.ParquetFile(file).read()
    assert table.column_names[:6] == [
        "dataflow",
        "output",
        "container",
        "submitted",
        "wave",
        "pair_age",
    ]
    assert table.column_names[6:] == ["error", *FEATURES, "set", "metric", "levels", "wave_time"]
    assert set(table.column("dataflow").to_pylist()) == {"lived"}


def test_what_a_file_has_can_be_more_than_one_group_of_rows() -> None:
    many = pairs(300)
    file = io.BytesIO()
    write_pairs(file, many)
    assert pq.ParquetFile(file).num_row_groups == -(-len(many) // 1000) == 2
    assert_same(list(read_pairs(file, "a.parquet", "lived")), many)


def spoiled(how: str) -> io.BytesIO:
    file = io.BytesIO()
    write_pairs(file, pairs())
    table = pq.ParquetFile(file).read()
    if how == "no parquet":
        return io.BytesIO(b"what is this?")
    if how == "foreign":
        table = table.drop_columns(["impact"])
    elif how == "newer":
        table = table.replace_schema_metadata({b"headgate.features": b"of the future"})
    elif how == "null":
        nothing = pa.array([None] * len(table), pa.float64())
        table = table.set_column(6, table.schema.field(6), nothing)
    elif how == "hole":
        at = table.schema.get_field_index("net_crossed_30")
        holed = table.column(at).to_pylist()
        holed[7] = None
        table = table.set_column(at, table.schema.field(at), pa.array(holed, pa.float32()))
    elif how == "metric":
        at = table.schema.get_field_index("metric")
        table = table.set_column(at, table.schema.field(at), pa.array(["?"] * len(table)))
    elif how == "reversed":
        table = table.take(list(reversed(range(len(table)))))
    file = io.BytesIO()
    pq.write_table(table, file)
    return file


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("no parquet", "a.parquet is no Parquet file"),
        ("foreign", "a.parquet has features .* give a file"),
        ("newer", "a.parquet has features 'of the future'"),
        ("null", "a.parquet has rows without a value"),
        ("hole", "a.parquet has rows without a value"),
        ("metric", r"a.parquet: metric '\?' or levels of output level, wave 102 are none"),
        ("reversed", "a.parquet: ages of output map, wave 109 are not 1 to 4"),
    ],
)
def test_a_file_that_has_no_such_pairs_is_refused(how: str, words: str) -> None:
    with pytest.raises(UnusableParquet, match=words):
        list(read_pairs(spoiled(how), "a.parquet", "lived"))
