"""Frames over pipes, whole, in parts and cut off anywhere."""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from headgate.agent.children.frames import read_frame, receive_frame, send_frame, write_frame

MESSAGES = [b"", b"one", b"\x00" * 9, b"x" * 300_000]
"""The last one is more than any pipe holds."""


def soon(seconds: float = 30.0) -> float:
    return time.monotonic() + seconds


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    yield reader, writer
    for descriptor in (reader, writer):
        try:
            os.close(descriptor)
        except OSError:
            continue  # the test has closed it


def framed(message: bytes) -> bytes:
    stream = io.BytesIO()
    write_frame(stream, message)
    return stream.getvalue()


def test_a_frame_is_the_length_in_eight_bytes_and_the_message() -> None:
    assert framed(b"abc") == b"\0\0\0\0\0\0\0\3abc"


def test_messages_are_read_one_after_the_other() -> None:
    stream = io.BytesIO(b"".join(map(framed, MESSAGES)))
    assert [read_frame(stream) for _ in MESSAGES] == MESSAGES
    with pytest.raises(EOFError):
        read_frame(stream)


def test_a_message_that_is_cut_off_is_none() -> None:
    whole = framed(b"abc")
    for size in range(len(whole)):
        with pytest.raises(EOFError):
            read_frame(io.BytesIO(whole[:size]))


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_goes_through_a_pipe_whole(pipe: tuple[int, int], message: bytes) -> None:
    reader, writer = pipe
    sending = threading.Thread(target=partial(send_frame, writer, message, soon()))
    sending.start()
    assert receive_frame(reader, soon()) == message
    sending.join()


def test_a_pipe_that_ends_within_a_message_is_noticed(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.write(writer, framed(b"abc")[:-1])
    os.close(writer)
    with pytest.raises(EOFError):
        receive_frame(reader, soon())


def test_a_message_that_comes_in_parts_has_one_deadline(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.write(writer, framed(b"abc")[:-1])
    with pytest.raises(TimeoutError):
        receive_frame(reader, soon(0.05))


def test_a_message_that_nobody_reads_is_given_up(pipe: tuple[int, int]) -> None:
    with pytest.raises(TimeoutError):
        send_frame(pipe[1], MESSAGES[-1], soon(0.05))


def test_a_pipe_without_a_reader_is_noticed(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        send_frame(writer, b"abc", soon())
