"""A program's threads do not wait for each other's requests to be read."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from headgate.observer.config import JournalSettings, KafkaSettings, ObserverConfig
from headgate.observer.embedded import observer as embedded
from headgate.observer.embedded.writes import read
from headgate.wire import MessageReader, MessageType, StructWriter, Transport, write_message


def test_the_observers_lock_is_free_while_a_request_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ObserverConfig(
        name="o",
        journal=JournalSettings(str(tmp_path)),
        kafka=KafkaSettings(bootstrap="127.0.0.1:1"),
        shutdown_seconds=0.1,
    )
    observer = embedded.EmbeddedObserver(config, patience_seconds=0.0)
    free: list[bool] = []

    def take_the_lock() -> None:
        taken = observer._loop.lock.acquire(timeout=5.0)
        free.append(taken)
        if taken:
            observer._loop.lock.release()

    def watched(message: Any) -> Any:
        other = threading.Thread(target=take_the_lock)
        other.start()
        other.join()
        return read(message)

    monkeypatch.setattr(embedded, "read", watched)
    mutation = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
    body = StructWriter().binary(1, b"t").binary(2, b"r").structs(3, [mutation]).end()
    reader = MessageReader()
    reader.feed(write_message(Transport.BUFFERED, "mutateRow", MessageType.CALL, 0, body))
    message = reader.next_message()
    assert message is not None
    write = observer.begin(message)
    observer.cancel(write)
    observer.stop()
    assert free == [True]
    assert write.refusal is None
