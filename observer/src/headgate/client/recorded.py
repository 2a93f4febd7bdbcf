"""The socket below happybase's Thrift client: writes pass the observer of the process."""

from __future__ import annotations

from typing import Any, Final

from thriftpy2.transport import TSocket

from headgate.client.program import observer_of_process
from headgate.hbase import METHODS, Dialect, Effect
from headgate.observer import EmbeddedObserver, EmbeddedWrite, ObserverEnded
from headgate.wire import Limits, Message, MessageReader, MessageType, ProtocolError

_ENOUGH: Final = (1 << 31) - 1
_LIMITS: Final = Limits(_ENOUGH, _ENOUGH, _ENOUGH, 64)  # the program and its HBase are trusted
_METHODS: Final = METHODS[Dialect.THRIFT1]
_CHANGING: Final = (Effect.WRITE, Effect.DEFINE)


class RecordingSocket(TSocket):  # type: ignore[misc]
    """A socket that forwards whole requests; each that may change cells is written down first."""

    def __init__(self, **settings: Any) -> None:
        """Take what ``TSocket`` takes."""
        super().__init__(**settings)
        self._begin_connection()

    def _begin_connection(self) -> None:
        self._requests = MessageReader(_LIMITS)
        self._replies: MessageReader | None = None
        self._observer: EmbeddedObserver | None = None
        self._passage: EmbeddedWrite | None = None
        self._own_reply = b""
        self._unread = False
        self._out_of_step = False

    def open(self) -> None:
        """Connect."""
        self._begin_connection()
        super().open()

    def close(self) -> None:
        """Close; a write without its reply ends as unknown."""
        super().close()
        self._break()

    # -- requests

    def write(self, data: bytes) -> None:
        """Send the requests that the bytes complete."""
        requests = self._requests
        requests.feed(data)
        while (message := requests.next_message()) is not None:
            self._send(message)

    def _send(self, message: Message) -> None:
        if self._unread:
            # happybase keeps what it could not send and sends it with the next request, whose
            # reply it then takes to be the first that comes.
            self._out_of_step = True
        self._break()
        method = _METHODS.get(message.name)
        changes = method is not None and method.effect in _CHANGING
        if not changes or not self.is_open():
            super().write(message.raw)
            self._unread = True
            return
        observer, embedded = _begin(message)
        if embedded.refusal is not None:
            self._own_reply = embedded.refusal
            return
        self._observer, self._passage = observer, embedded
        self._replies = MessageReader(_LIMITS, message.transport)
        try:
            super().write(embedded.raw)
        except BaseException:
            self._break()
            raise
        self._unread = True

    # -- replies

    def read(self, size: int) -> bytes:
        """Return the next bytes of a reply."""
        if self._own_reply:
            part, self._own_reply = self._own_reply[:size], self._own_reply[size:]
            return part
        try:
            data: bytes = super().read(size)
        except BaseException:
            # The reply may still come, and would be taken for the next one's.
            self._out_of_step = True
            self._break()
            raise
        self._unread = False
        if self._passage is not None:
            self._follow(data)
        return data

    def _follow(self, data: bytes) -> None:
        replies = self._replies
        if self._out_of_step or replies is None:
            self._break()
            return
        try:
            replies.feed(data)
            reply = replies.next_message()
        except ProtocolError:
            # happybase says what is wrong with it.
            self._out_of_step = True
            self._break()
            return
        passage = self._passage
        if reply is not None and passage is not None:
            asked = passage.message
            answers = (reply.name, reply.seqid) == (asked.name, asked.seqid)
            if not answers or reply.type not in (MessageType.REPLY, MessageType.EXCEPTION):
                self._out_of_step = True
            self._finish(None if self._out_of_step else reply)

    def _break(self) -> None:
        if self._passage is not None:
            self._finish(None)

    def _finish(self, reply: Message | None) -> None:
        observer, embedded = self._observer, self._passage
        self._observer = self._passage = None
        if observer is not None and embedded is not None:
            observer.answered(embedded, reply)


def _begin(message: Message) -> tuple[EmbeddedObserver, EmbeddedWrite]:
    while True:
        observer = observer_of_process()
        try:
            return observer, observer.begin(message)
        except ObserverEnded:
            continue
