"""A bound that blocks: an agent's run holds foreign writers back, and no longer than it may."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import Hbase_thrift  # made by happybase, which the conftest imports
import pytest

pytestmark = pytest.mark.stack

Eventually = Callable[..., Any]
LEASE = 10.0  # seconds a gate stays closed when its agent is lost (docs/dataflow-file.md)


class Writer:
    """Puts a row in a thread of its own, as often as it is told to try again."""

    def __init__(self, stand: Any, table: str, row: bytes) -> None:
        self.refusals: list[str] = []
        self.error: Exception | None = None
        self._stand = stand
        self._table = table
        self._row = row
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with closing(self._stand.connect()) as connection:
                while not self._put(connection.table(self._table)):
                    pass
        except Exception as error:
            self.error = error
            raise

    def _put(self, table: Any) -> bool:
        try:
            table.put(self._row, {b"f:v": b"1"})
        except Hbase_thrift.IOError as error:
            self.refusals.append(error.message)
            return False
        return True

    def waits(self) -> bool:
        self._thread.join(0.5)
        return self._thread.is_alive()

    def end(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        assert self.error is None


@pytest.fixture
def scene(make_scene: Callable[[str], Any]) -> Any:
    """A command that writes to its own input, with its own origin, before it ends."""
    scene = make_scene("blocking")
    scene.bound = "{sequence: 2, block: true}"
    scene.run_command("input")
    return scene


def rows(scene: Any) -> set[bytes]:
    return set(scene.stand.rows(scene.tables["input"]))


def test_foreign_writes_wait_for_the_run_and_its_own_pass(
    scene: Any, eventually: Eventually
) -> None:
    agent = scene.submit()
    scene.hold.touch()
    wave = scene.begin(agent)
    eventually(scene.starts)
    writer = Writer(scene.stand, scene.tables["input"], b"foreign")
    assert writer.waits()
    assert rows(scene) == {b"1", b"2"}
    scene.hold.unlink()
    writer.end()
    agent.settle(scene.name, wave)
    assert scene.outcomes(agent) == [(1, "committed")]
    assert rows(scene) == {b"1", b"2", b"foreign", scene.starts()[0].encode()}
    assert all(f"bound input of {scene.name}/blocking" in words for words in writer.refusals)
    # Nothing is held any more, and what was held counts for the next run.
    Writer(scene.stand, scene.tables["input"], b"later").end()
    agent.wave(scene.name)
    assert scene.outcomes(agent) == [(1, "committed"), (1, "committed")]


@pytest.mark.soak
def test_a_killed_agents_gate_opens_and_closes_again_with_the_next(
    scene: Any, eventually: Eventually
) -> None:
    agent = scene.submit()
    scene.hold.touch()
    wave = scene.begin(agent)
    eventually(scene.starts)
    writer = Writer(scene.stand, scene.tables["input"], b"foreign")
    assert writer.waits()
    agent.kill()
    killed = time.monotonic()
    writer.end()
    # The put that waited when the gate opened may have waited for long already: it is one more.
    assert time.monotonic() - killed < LEASE + 10
    assert b"foreign" in rows(scene)
    assert len(scene.starts()) == 1
    again = scene.restarted()
    eventually(lambda: scene.outcomes(again)[-1:] == [(2, "running")])
    writer = Writer(scene.stand, scene.tables["input"], b"second")
    assert writer.waits()
    assert b"second" not in rows(scene)
    scene.hold.unlink()
    writer.end()
    again.settle(scene.name, wave)
    assert scene.outcomes(again)[:2] == [(1, "lost"), (2, "committed")]
    assert scene.starts()[0].encode() in rows(scene)
