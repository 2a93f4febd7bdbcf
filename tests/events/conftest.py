"""Messages of all kinds, for properties."""

import pytest
from hypothesis import strategies as st

from headgate.events import (
    VERSION,
    BarrierMark,
    BarrierRequest,
    Container,
    Fence,
    Gap,
    Gate,
    Item,
    Notify,
    ObserverLease,
    Origin,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    Watch,
    WatchList,
)

VERSIONS = st.just(VERSION)
COUNTS = st.integers(0, 2**63 - 1)
SMALL = st.integers(0, 20)
TIMES = st.floats(0, 1e11)
TEXTS = st.text(max_size=12)
BYTES = st.binary(max_size=12)

ORIGINS = st.builds(Origin, TEXTS, TEXTS, TEXTS, COUNTS)
TTLS = st.integers(-1, 2**63 - 2)


@st.composite
def parts(draw):
    cells = draw(SMALL)
    ttls = draw(st.sampled_from((0, 1, cells)))
    return RequestPart(
        draw(COUNTS),
        draw(TEXTS),
        draw(st.sampled_from(Outcome)),
        draw(TIMES),
        cells,
        draw(SMALL),
        draw(st.none() | ORIGINS),
        tuple(draw(st.lists(SMALL, max_size=4))),
        tuple(draw(st.lists(TTLS, min_size=ttls, max_size=ttls))),
        tuple(draw(st.lists(SMALL, max_size=4))),
    )


PARTS = parts()


@st.composite
def batches(draw):
    requests = tuple(draw(st.lists(PARTS, max_size=3)))
    cells = sum(part.cells for part in requests)

    def column(values):
        return tuple(draw(st.lists(values, min_size=cells, max_size=cells)))

    return UpdateBatch(
        version=VERSION,
        observer=draw(TEXTS),
        epoch=draw(COUNTS),
        sequence=draw(COUNTS),
        watermark=draw(COUNTS),
        table=draw(TEXTS),
        requests=requests,
        kinds=bytes(column(st.integers(0, 9))),
        rows=column(BYTES),
        columns=column(BYTES),
        timestamps=column(st.integers(-1, 2**63 - 1)),
        values=column(st.none() | BYTES),
        recovered=draw(st.booleans()),
    )


WHO = (VERSIONS, TEXTS, COUNTS, COUNTS)
UPDATE_MESSAGES = st.one_of(
    batches(),
    st.builds(
        TableChange,
        *WHO,
        COUNTS,
        TEXTS,
        st.sampled_from(TableChangeKind),
        st.sampled_from(Outcome),
        TIMES,
        TEXTS,
    ),
    st.builds(BarrierMark, *WHO, TEXTS, SMALL),
    st.builds(Gap, *WHO, TEXTS, TIMES, TIMES, TEXTS),
)
ITEMS = st.builds(Item, TEXTS, st.none() | BYTES, st.none() | BYTES, BYTES, st.none() | BYTES)
CONTAINERS = st.builds(Container, TEXTS, st.lists(ITEMS, max_size=2).map(tuple))
NOTIFIES = st.builds(Notify, TEXTS, st.lists(TEXTS, max_size=2).map(tuple))
CONTROL_MESSAGES = st.one_of(
    st.builds(
        WatchList,
        VERSIONS,
        TEXTS,
        COUNTS,
        st.lists(st.builds(Watch, TEXTS, st.booleans(), st.none() | NOTIFIES), max_size=3).map(
            tuple
        ),
    ),
    st.builds(BarrierRequest, VERSIONS, TEXTS, st.lists(TEXTS, max_size=3).map(tuple), TEXTS),
    st.builds(Fence, VERSIONS, TEXTS, TEXTS, COUNTS),
    st.builds(
        Gate,
        VERSIONS,
        TEXTS,
        TEXTS,
        TEXTS,
        st.lists(CONTAINERS, max_size=2).map(tuple),
        TIMES,
        COUNTS,
        st.booleans(),
    ),
    st.builds(
        ObserverLease,
        VERSIONS,
        TEXTS,
        COUNTS,
        TIMES,
        st.dictionaries(TEXTS, st.lists(COUNTS, max_size=3).map(tuple), max_size=3),
        TEXTS,
        st.booleans(),
        st.lists(TEXTS, max_size=2).map(tuple),
    ),
)


@pytest.fixture(scope="session")
def update_messages():
    return UPDATE_MESSAGES


@pytest.fixture(scope="session")
def control_messages():
    return CONTROL_MESSAGES


@pytest.fixture(scope="session")
def origins():
    return ORIGINS
