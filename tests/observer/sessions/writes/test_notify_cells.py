"""Notify cells in watched writes."""

from __future__ import annotations

from typing import Any

from scene import CELLS, OK, Scene, close_gate, get, messages, put, reply

from headgate.events import Notify, Watch, WatchList
from headgate.wire import StructWriter


def marking(scene: Scene, revision: int = 2) -> None:
    scene.control.apply(WatchList(1, "d", revision, (Watch("t", notify=Notify()),)), "o")


def test_a_write_is_forwarded_with_its_notify_cell_and_published_without(scene: Scene) -> None:
    marking(scene)
    session, client, upstream = scene.connect()
    session.data_received(put(b"r") + get(b"x") + put(b"r", b"other"))
    first, *others = messages(upstream.taken())
    assert b"hg:all" in first
    assert others == [get(b"x"), put(b"r", b"other")]
    session.reply_received(OK + CELLS + OK)
    assert client.taken() == OK + CELLS + OK
    (batch,) = scene.log()
    assert batch.columns == (b"f:q",)


def test_the_journal_keeps_a_request_as_the_client_sent_it(scene: Scene) -> None:
    marking(scene)
    kept: list[bytes] = []
    append = scene.journal.append

    def kept_too(data: bytes, *more: Any, **named: Any) -> Any:
        kept.append(data)
        return append(data, *more, **named)

    scene.journal.append = kept_too
    scene.connect()[0].data_received(put(b"r"))
    assert kept == [put(b"r")]


def test_a_refusal_for_want_of_the_notify_family_ends_the_cells_and_is_not_repeated(
    scene: Scene,
) -> None:
    marking(scene)
    session, client, upstream = scene.connect()
    session.data_received(put(b"r"))
    upstream.taken()
    text = b"NoSuchColumnFamilyException: Column family hg does not exist in region t"
    error = StructWriter().binary(1, text).bool(2, False).end()
    refusal = reply("mutateRow", StructWriter().struct(1, error).end())
    session.reply_received(refusal)
    assert (client.taken(), upstream.taken()) == (refusal, b"")
    assert scene.notify.stopped == ("t",)
    session.data_received(put(b"s"))
    assert upstream.taken() == put(b"s")


def test_a_write_that_a_gate_held_gets_its_notify_cells_once(scene: Scene) -> None:
    marking(scene)
    close_gate(scene)
    session, _, upstream = scene.connect()
    session.data_received(put(b"r"))
    close_gate(scene, 2, released=True)
    assert upstream.taken().count(b"hg:all") == 1
