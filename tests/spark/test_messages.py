"""What agents and workers say survives the way there."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from headgate.engine import Codec, CodecName, WatchedContainer
from headgate.events import Container, ContainerId, Cut, Item, Origin
from headgate.spark import (
    CancelStep,
    CloseSpace,
    Ending,
    StartSession,
    StepEnded,
    StepRequest,
    StepStarted,
    Thrift2Address,
    WorkerFailed,
    WorkerMessage,
    WorkerReady,
    WorkerReply,
    decode_message,
    decode_reply,
    encode_line,
)

REQUEST = StepRequest(
    dataflow="flow",
    action="step",
    run="r1",
    attempt=2,
    token=7,
    entry="steps:combine",
    hbase=Thrift2Address("127.0.0.1", 9091),
    kafka="127.0.0.1:9092",
    python_path=("/steps",),
    parameters={"side": 50, "name": "two\nlines"},
    containers=(
        WatchedContainer(
            Container(ContainerId("c"), (Item("t", b"f", b"\xff", b"\x00", None),)),
            Codec(CodecName.INT64),
        ),
    ),
    cut=Cut({"topic": (3, 4)}),
    since=Cut({"topic": (1, 0)}),
    previous="manifest-1",
    result_proof=b"\x00\xff",
)


@pytest.mark.parametrize(
    "message",
    [
        StartSession({"spark.master": "local[1]"}, pool="p"),
        REQUEST,
        CancelStep("r1", 2, "1-flow"),
        CloseSpace("1-flow"),
    ],
)
def test_a_message_is_one_line_and_reads_back(message: WorkerMessage) -> None:
    line = encode_line(message)

    assert line.index(b"\n") == len(line) - 1
    assert decode_message(line) == message


@pytest.mark.parametrize(
    "reply",
    [
        WorkerReady(1, "4.3.0", 6.5),
        WorkerFailed("no Java", "trace\nback"),
        StepStarted("r1", 2),
        StepEnded("r1", 2, Ending.FAILED, 1.5, reason="boom", detail="trace\nback"),
        StepEnded("r1", 2, Ending.COMMITTED, 1.5, result="manifest\n2"),
    ],
)
def test_a_reply_is_one_line_and_reads_back(reply: WorkerReply) -> None:
    line = encode_line(reply)

    assert line.index(b"\n") == len(line) - 1
    assert decode_reply(line) == reply


def test_what_the_version_before_says_has_neither_previous_nor_result() -> None:
    request = msgspec.json.decode(encode_line(REQUEST))
    del request["previous"], request["result_proof"]
    ended = b'{"type":"ended","run":"r1","attempt":1,"ending":"committed","seconds":1.0}'

    told = msgspec.convert(request, StepRequest)
    assert (told.previous, told.result_proof) == ("", b"")
    assert decode_reply(ended) == StepEnded("r1", 1, Ending.COMMITTED, 1.0)


def test_a_line_that_is_no_reply_is_an_error() -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_reply(b"hello from a step\n")


def test_a_request_names_its_run_and_its_origin() -> None:
    assert REQUEST.key.run == "r1"
    assert REQUEST.origin == Origin("flow", "step", "r1", 7)


def test_messages_and_ledger_do_not_import_pyspark() -> None:
    program = "import sys, headgate.spark; sys.exit('pyspark' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
