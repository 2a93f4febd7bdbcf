"""Every form of container: which updates count in it, as what, and in percent of how many."""

import pytest

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    ContainerScanned,
    Count,
    DataflowSpec,
    EngineTester,
    Metric,
    ScanContainer,
    SequenceBound,
    SequenceUnit,
    ValueBound,
    WatchedContainer,
    launched,
)
from headgate.events import (
    VERSION,
    Container,
    ContainerId,
    Item,
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateKind,
    row_prefix_end,
)

IN = ContainerId("in")

COUNTED = Bound("k", IN, sequence=SequenceBound(1e6))
PERCENT = Bound("k", IN, sequence=SequenceBound(1e6, SequenceUnit.PERCENT))

WRITTEN = {
    b"d-1": {b"f:a": b"1", b"f:b": b"1", b"g:a": b"1"},
    b"d-2": {b"f:a": b"1"},
    b"e-1": {b"g:a": b"1", b"g:b": b"1"},
    b"d.": {b"f:b": b"1"},
}

FORMS = {
    "a table": ((Item("in"),), 4, 7),
    "a family": ((Item("in", b"f"),), 3, 4),
    "a column": ((Item("in", b"f", b"a"),), 2, 2),
    "columns": ((Item("in", b"f", b"a"), Item("in", b"g", b"a")), 3, 4),
    "a row": ((Item("in", start=b"d-1", stop=b"d-1\0"),), 1, 3),
    "a column of a row": ((Item("in", b"g", b"a", b"d-1", b"d-1\0"),), 1, 1),
    "a prefix": ((Item("in", start=b"d-", stop=row_prefix_end(b"d-")),), 2, 4),
    "a range": ((Item("in", start=b"d-2", stop=b"e-1"),), 2, 2),
    "a range without end": ((Item("in", start=b"d-2"),), 3, 4),
    "a family of a prefix": ((Item("in", b"f", None, b"d-", row_prefix_end(b"d-")),), 2, 3),
    "a group": ((Item("in", b"g"), Item("in", start=b"d-2", stop=b"d-2\0")), 3, 4),
    "parts that overlap": ((Item("in", b"f"), Item("in", b"f", b"a"), Item("in")), 4, 7),
}


def pending(tester, action="b"):
    ((_, found),) = tester.engine.actions[action].all_parts()
    return found.updates


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", Count)
def test_updates_inside_count_and_others_do_not(pair, form, count):
    items, rows, cells = FORMS[form]
    tester = pair(COUNTED, items=items, count=count)
    tester.write("in", WRITTEN)
    assert pending(tester) == (rows if count is Count.ROWS else cells)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", Count)
def test_percentages_are_of_the_elements_inside(pair, form, count):
    items, rows, cells = FORMS[form]
    tester = pair(PERCENT, items=items, count=count, answering=False)
    keys = [(row, column) for row, columns in WRITTEN.items() for column in columns]
    inside = [key for key in keys if any(i.has_row(key[0]) and i.has_column(key[1]) for i in items)]
    tester.handle(
        ContainerScanned(
            tester.now, IN, "in", [row for row, _ in inside], [column for _, column in inside]
        )
    )
    assert tester.engine.explain(0).containers[0].elements == (
        rows if count is Count.ROWS else cells
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_deleted_row_leaves_what_lies_outside_of_it(pair, form):
    items, _, cells = FORMS[form]
    tester = pair(PERCENT, items=items, count=Count.CELLS)
    tester.write("in", WRITTEN)
    lost = sum(any(i.has_row(b"d-1") and i.has_column(c) for i in items) for c in WRITTEN[b"d-1"])
    request = RequestPart(99, "deleteAllRow", Outcome.APPLIED, tester.now, 1)
    tester.publish(
        "in",
        UpdateBatch(
            version=VERSION,
            observer="other",
            epoch=1,
            sequence=0,
            watermark=99,
            table="in",
            requests=(request,),
            kinds=bytes([UpdateKind.DELETE_ROW]),
            rows=(b"d-1",),
            columns=(b"",),
            timestamps=(-1,),
            values=(None,),
        ),
    )
    assert tester.engine.explain(0).containers[0].elements == cells - lost


def watching(*containers, bounds):
    """A dataflow of one input, and a step for each bound."""
    steps = [ActionSpec(f"s{i}", after=("a",), bounds=(b,)) for i, b in enumerate(bounds)]
    feed = ActionSpec("a", ActionRole.INPUT, writes=tuple(c.id for c in containers))
    return EngineTester(DataflowSpec("flow", tuple(containers), (feed, *steps)))


def watched(name, *items, count=Count.ROWS):
    return WatchedContainer(Container(ContainerId(name), items), count=count)


def test_an_update_counts_in_each_of_the_containers_that_overlap():
    tester = watching(
        watched("all", Item("in")),
        watched("family", Item("in", b"f")),
        watched("rows", Item("in", start=b"d-", stop=b"d.")),
        bounds=(
            Bound("k", ContainerId("all"), sequence=SequenceBound(4)),
            Bound("k", ContainerId("family"), sequence=SequenceBound(3)),
            Bound("k", ContainerId("rows"), sequence=SequenceBound(3)),
        ),
    )
    tester.write("in", WRITTEN)
    assert launched(tester.wave("a")) == ["s0", "s1"]


def test_containers_that_overlap_are_consumed_apart():
    tester = watching(
        watched("all", Item("in")),
        watched("family", Item("in", b"f")),
        bounds=(
            Bound("k", ContainerId("all"), sequence=SequenceBound(4)),
            Bound("k", ContainerId("family"), sequence=SequenceBound(5)),
        ),
    )
    tester.write("in", WRITTEN)
    assert launched(tester.wave("a")) == ["s0"]
    tester.finish("s0")
    tester.write("in", {b"d-1": {b"f:a": b"2"}, b"d-2": {b"f:a": b"2"}})
    assert launched(tester.wave("a")) == ["s1"]


def test_a_value_is_compared_in_each_container_with_its_own_previous_one():
    bound = ValueBound(Metric.ABSOLUTE, 5)
    tester = watching(
        watched("all", Item("in")),
        watched("family", Item("in", b"f")),
        bounds=(
            Bound("k", ContainerId("all"), value=ValueBound(Metric.ABSOLUTE, 3)),
            Bound("k", ContainerId("family"), value=bound),
        ),
    )
    tester.write("in", {b"1": {b"f:a": b"3"}})
    assert launched(tester.wave("a")) == ["s0"]
    tester.finish("s0")
    tester.write("in", {b"1": {b"f:a": b"5"}})
    assert launched(tester.wave("a")) == ["s1"]


def test_a_group_over_tables_is_one_container():
    tester = watching(
        watched("group", Item("in", b"f"), Item("other", b"f", b"a")),
        bounds=(Bound("k", ContainerId("group"), sequence=SequenceBound(4)),),
    )
    tester.write("in", {b"1": {b"f:a": b"1"}, b"2": {b"f:a": b"1"}})
    tester.write("other", {b"1": {b"f:a": b"1", b"f:b": b"1"}})
    assert launched(tester.wave("a")) == []
    tester.write("other", {b"2": {b"f:a": b"1"}})
    assert launched(tester.wave("a")) == ["s0"]


def test_percentages_of_a_group_are_of_all_its_tables():
    tester = watching(
        watched("group", Item("in"), Item("other")),
        bounds=(
            Bound("k", ContainerId("group"), sequence=SequenceBound(50, SequenceUnit.PERCENT)),
        ),
    )
    tester.write("in", {b"%d" % i: {b"f:a": b"1"} for i in range(6)})
    tester.write("other", {b"%d" % i: {b"f:a": b"1"} for i in range(2)})
    assert launched(tester.wave("a")) == ["s0"]
    tester.finish("s0")
    tester.write("other", {b"%d" % i: {b"f:a": b"2"} for i in range(2)})
    assert launched(tester.wave("a")) == []
    tester.write("in", {b"%d" % i: {b"f:a": b"2"} for i in range(2)})
    assert launched(tester.wave("a")) == ["s0"]


@pytest.mark.parametrize("form", FORMS)
def test_what_lies_inside_is_looked_for_by_scans_and_what_does_not_is_not(pair, form):
    items, rows, cells = FORMS[form]
    tester = pair(PERCENT, items=items, answering=False)
    tester.tables["in"] = {(r, c): v for r, columns in WRITTEN.items() for c, v in columns.items()}
    (question,) = [one for one in tester.instructions if isinstance(one, ScanContainer)]
    found = tester.answer(question)
    assert (len(set(found.rows)), len(found.rows)) == (rows, cells)
