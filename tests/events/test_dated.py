"""Timestamps that clients have dated ahead in a table."""

from headgate.events import (
    CLOCKS_APART,
    Dated,
    DatedState,
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateKind,
    decode_dated,
    encode_dated,
)

NOW = 1_000_000_000
AHEAD = NOW + 500_000


def told(
    row: bytes = b"r", *, timestamp: int = -1, now: int = NOW, kind: UpdateKind = UpdateKind.PUT
) -> UpdateBatch:
    part = RequestPart(1, "m", Outcome.APPLIED, now / 1000, 1)
    return UpdateBatch(
        1, "o", 1, 1, 0, "t", (part,), bytes([kind]), (row,), (b"f:a",), (timestamp,), (b"1",)
    )


def test_nothing_is_remembered_of_what_the_server_dates() -> None:
    dated = Dated()
    assert dated.doubtful(told()) == []
    assert not dated


def test_a_write_is_doubtful_until_the_clocks_have_passed_what_is_dated_ahead() -> None:
    dated = Dated()
    dated.doubtful(told(timestamp=AHEAD))
    for now, found in ((NOW, [0]), (AHEAD + CLOCKS_APART, [0]), (AHEAD + CLOCKS_APART + 1, [])):
        assert dated.doubtful(told(now=now)) == found
    assert dated.doubtful(told(b"other")) == []


def test_the_servers_time_may_be_spelled_out() -> None:
    dated = Dated()
    assert dated.doubtful(told(timestamp=2**63 - 1)) == []
    assert not dated


def test_rows_whose_names_are_too_many_count_for_the_whole_table() -> None:
    dated = Dated()
    for number in range(10_000):
        dated.doubtful(told(b"%d" % number, timestamp=AHEAD + number))
    state = dated.state()
    assert len(state.rows) <= 4096
    assert dated.doubtful(told(b"0")) == dated.doubtful(told(b"9999")) == [0]
    passed = AHEAD + 9000 + CLOCKS_APART  # what has lost its name is among the oldest
    assert dated.doubtful(told(b"0", now=passed)) == []
    assert dated.doubtful(told(b"9999", now=passed)) == [0]


def test_fewer_names_say_no_less() -> None:
    dated = Dated()
    for number in range(100):
        dated.doubtful(told(b"%d" % number, timestamp=AHEAD + number))
    dated.doubtful(told(b"marked", timestamp=AHEAD, kind=UpdateKind.DELETE_COLUMN))
    fewer = Dated(dated.state(10))
    assert len(fewer.state().rows) <= 10
    for number in range(100):
        assert fewer.doubtful(told(b"%d" % number)) == [0]
    assert fewer.doubtful(told(b"marked")) == [0]


def test_it_goes_through_bytes() -> None:
    state = {"t": DatedState({b"\xff": {b"f:a": AHEAD, b"": NOW}}, NOW, -1)}
    assert decode_dated(encode_dated(state)) == state
    assert encode_dated({}) == b""
    assert decode_dated(b"") == {}
