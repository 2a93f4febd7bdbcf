"""The process of one training: ``python -m headgate.agent.training``.

It reads a task from its input and writes what comes of it to its output, both as frames of a length
and MessagePack. What libraries print goes to the log, its error output. It ends with the agent: its
input is held open until then, and nothing more comes there.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from typing import BinaryIO, Final, assert_never

import msgspec
from msgspec import Struct

from headgate.agent.children.frames import read_frame, write_frame
from headgate.agent.children.program import answers
from headgate.agent.errors import AgentError
from headgate.agent.history.recordings import Recordings
from headgate.agent.supervision import Supervision, ThreadKind, describe
from headgate.agent.training.task import AnyTask, RefitTask, StoredTask, Task, Trained
from headgate.agent.training.training import learn_stored, refit_models, train
from headgate.engine import SpecificationError
from headgate.learning import UnusableModel

_NICE: Final = 10
"""Whatever else the machine does comes first."""


class Failed(Struct, frozen=True, tag="failed"):
    """The training failed; ``reason`` is for people."""

    reason: str


class Answer(Struct, frozen=True, tag="trained"):
    """What has come of it."""

    trained: Trained


def answer_of(task: AnyTask) -> Answer | Failed:
    """Return what comes of a training; whatever goes wrong is a reason."""
    try:
        return Answer(_trained(task))
    except (AgentError, SpecificationError, UnusableModel) as error:
        return Failed(str(error))
    except Exception as error:  # noqa: BLE001 -- the agent has to hear of whatever it is
        traceback.print_exc()
        return Failed(f"the training failed with {describe(error)}")


def _trained(task: AnyTask) -> Trained:
    match task:
        case Task():
            return train(task, Recordings(task.kafka))
        case StoredTask():
            return learn_stored(task)
        case RefitTask():
            return refit_models(task, Recordings(task.kafka))
        case _:
            assert_never(task)


def main() -> None:
    """Answer one task."""
    os.nice(_NICE)
    with answers() as stream:
        questions = sys.stdin.buffer
        task = msgspec.msgpack.decode(read_frame(questions), type=AnyTask)
        Supervision(lambda _: None).thread(
            ThreadKind.TRAINING, "agent", lambda: _end_with(questions), threading.Event()
        ).start()
        write_frame(stream, msgspec.msgpack.encode(answer_of(task)))


def _end_with(questions: BinaryIO) -> None:
    """End the process when its input does: then nobody waits for an answer."""
    questions.read(1)
    os._exit(1)
