"""Messages keep their meaning on the way to bytes and back; newer ones are refused."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.events import (
    NO_TTL,
    Fence,
    Gate,
    MalformedEvent,
    Origin,
    Outcome,
    RequestPart,
    UpdateBatch,
    Watch,
    WatchList,
    control_key,
    decode_control,
    decode_notify,
    decode_origin,
    decode_update,
    encode_control,
    encode_notify,
    encode_origin,
    encode_update,
)


def plain(data):
    return msgspec.msgpack.decode(data)


def packed(value):
    return msgspec.msgpack.encode(value)


def batch(**changes):
    one_cell = UpdateBatch(
        version=1,
        observer="o",
        epoch=1,
        sequence=0,
        watermark=0,
        table="t",
        requests=(RequestPart(0, "put", Outcome.APPLIED, 1.0, 1),),
        kinds=b"\0",
        rows=(b"r",),
        columns=(b"f:q",),
        timestamps=(-1,),
        values=(b"v",),
    )
    return msgspec.structs.replace(one_cell, **changes)


@given(st.data())
def test_updates_come_back_as_they_were(update_messages, data):
    message = data.draw(update_messages)

    assert decode_update(encode_update(message)) == message


@given(st.data())
def test_control_messages_come_back_as_they_were(control_messages, data):
    message = data.draw(control_messages)

    assert decode_control(encode_control(message)) == message


@given(st.data())
def test_origins_come_back_as_they_were(origins, data):
    origin = data.draw(origins)

    assert decode_origin(encode_origin(origin)) == origin


@given(st.data())
def test_a_message_cut_short_is_malformed(update_messages, data):
    encoded = encode_update(data.draw(update_messages))
    length = data.draw(st.integers(0, len(encoded) - 1))

    with pytest.raises(MalformedEvent):
        decode_update(encoded[:length])


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_malformed(data):
    for decode, error in (
        (decode_update, MalformedEvent),
        (decode_control, MalformedEvent),
        (decode_origin, ValueError),
    ):
        try:
            decode(data)
        except error:
            continue


@given(st.data())
@settings(max_examples=150)
def test_a_damaged_message_is_a_message_or_malformed(update_messages, data):
    damaged = bytearray(encode_update(data.draw(update_messages)))
    place = data.draw(st.integers(0, len(damaged) - 1))
    damaged[place] = data.draw(st.integers(0, 255))

    try:
        decode_update(bytes(damaged))
    except MalformedEvent:
        return


@pytest.mark.parametrize("column", ["kinds", "rows", "columns", "timestamps", "values"])
def test_columns_of_unequal_length_are_malformed(column):
    message = batch(**{column: b"" if column == "kinds" else ()})

    with pytest.raises(MalformedEvent, match=column):
        decode_update(encode_update(message))


def test_a_request_of_less_than_no_cells_is_malformed():
    parts = (
        RequestPart(0, "put", Outcome.APPLIED, 1.0, 2),
        RequestPart(1, "put", Outcome.APPLIED, 1.0, -1),
    )

    with pytest.raises(MalformedEvent):
        decode_update(encode_update(batch(requests=parts)))


def test_a_request_whose_times_to_live_do_not_fit_its_cells_is_malformed():
    part = RequestPart(0, "put", Outcome.APPLIED, 1.0, 1, ttls=(9000, 9000))

    with pytest.raises(MalformedEvent, match="1 cells has 2 times to live"):
        decode_update(encode_update(batch(requests=(part,))))


@pytest.mark.parametrize(
    ("ttls", "each"),
    [((), [NO_TTL, NO_TTL]), ((9000,), [9000, 9000]), ((NO_TTL, 5), [NO_TTL, 5])],
)
def test_a_part_names_the_time_to_live_of_each_cell(ttls, each):
    part = RequestPart(0, "put", Outcome.APPLIED, 1.0, 2, ttls=ttls)

    assert [part.ttl(at) for at in range(2)] == each


def test_an_unknown_kind_of_message_is_malformed():
    with pytest.raises(MalformedEvent):
        decode_update(packed(["greeting", 1, "o", 1, 0]))


def test_a_control_message_is_no_update():
    with pytest.raises(MalformedEvent):
        decode_update(encode_control(Fence(1, "d", "a", 1)))


def test_text_that_is_no_utf8_is_malformed():
    with pytest.raises(MalformedEvent):
        decode_update(packed(["barrier", 1, "o", 1, 0, "é"]).replace("é".encode(), b"\xe9e"))


def test_lists_in_lists_without_end_are_malformed():
    endless = b"\x91" * 100_000 + b"\xc0"

    with pytest.raises(MalformedEvent):
        decode_control(b"\x86" + encode_control(Fence(1, "d", "a", 1))[1:] + b"\xa1x" + endless)
    with pytest.raises(ValueError, match="holds no origin"):
        decode_origin(b"\x95" + encode_origin(Origin("d", "a", "r", 1))[1:] + endless)


# --- versions


NEWER = r"version 2 of the format `messages`.*a newer headgate wrote it"


def test_a_newer_update_is_refused_whatever_is_in_it():
    known = plain(encode_update(batch(version=2)))
    strange = ["a kind that is not known yet", 2, {"of": "any type"}]

    for newer in (known, [*known, "a new field"], strange):
        with pytest.raises(MalformedEvent, match=NEWER):
            decode_update(packed(newer))


def test_a_newer_control_message_is_refused_whatever_is_in_it():
    known = plain(encode_control(WatchList(2, "d", 1, (Watch("t"),))))
    strange = {"type": "a kind that is not known yet", "version": 2, "watches": 7}

    for newer in (known, known | {"reason": {"new": True}}, strange):
        with pytest.raises(MalformedEvent, match=NEWER):
            decode_control(packed(newer))


@pytest.mark.parametrize("version", [0, -1])
def test_a_version_that_nobody_wrote_is_malformed(version):
    with pytest.raises(MalformedEvent, match="no headgate wrote"):
        decode_update(encode_update(batch(version=version)))


def test_a_damaged_message_of_this_version_is_no_newer_one():
    damaged = packed(["updates", 1, "o"])

    with pytest.raises(MalformedEvent, match="not an update message"):
        decode_update(damaged)


def test_fields_that_are_not_known_are_skipped_in_origins():
    origin = Origin("d", "a", "r", 1)

    assert decode_origin(packed([*plain(encode_origin(origin)), "new"])) == origin


# --- gates and notify cells


def test_of_gates_only_those_of_one_dataflow_action_and_bound_replace_each_other():
    def key(dataflow, action, bound):
        return control_key(Gate(1, dataflow, action, bound, (), 0.0, 1))

    keys = [key("d", "a", "b"), key("d", "a", "c"), key("d", "b", "b"), key("e", "a", "b")]

    assert len(set(keys)) == len(keys)
    assert control_key(Gate(1, "d", "a", "b", (), 9.0, 8, released=True)) == keys[0]


@given(st.integers(0, 10**14), st.none() | st.text())
def test_a_notify_cell_says_when_and_who(milliseconds, run):
    origin = None if run is None else Origin("d", "a", run, 1)

    received, found = decode_notify(encode_notify(milliseconds / 1000, origin))

    assert received == pytest.approx(milliseconds / 1000, abs=0.0011)
    assert found == (run or "")


def test_a_cell_of_something_else_is_no_notify_cell():
    with pytest.raises(ValueError, match="no notify cell"):
        decode_notify(b"12.5")
