"""An independent encoder of HBase's messages: thriftpy2, from HBase's own descriptions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import happybase
import thriftpy2
from thriftpy2.protocol.cybin import TCyBinaryProtocol
from thriftpy2.thrift import TMessageType
from thriftpy2.transport import TCyMemoryBuffer

from headgate.hbase import Dialect

ONE = thriftpy2.load(
    str(Path(happybase.__file__).with_name("Hbase.thrift")), module_name="tests_one_thrift"
)
TWO = thriftpy2.load(
    str(Path(__file__).parents[1] / "thrift2.thrift"), module_name="tests_two_thrift"
)
SERVICES = {Dialect.THRIFT1: ONE.Hbase, Dialect.THRIFT2: TWO.THBaseService}


def encode(
    dialect: Dialect,
    method: str,
    fields: dict[str, Any],
    *,
    part: str = "args",
    kind: int = TMessageType.CALL,
) -> bytes:
    """Return a message as thriftpy2 writes it; ``part`` is ``args`` or ``result``."""
    buffer = TCyMemoryBuffer()
    protocol = TCyBinaryProtocol(buffer)
    protocol.write_message_begin(method, kind, 7)
    protocol.write_struct(getattr(SERVICES[dialect], f"{method}_{part}")(**fields))
    protocol.write_message_end()
    buffer.flush()
    return bytes(buffer.getvalue())


class Encoder:
    """The independent encoder, for messages that are not in the table."""

    one = ONE
    two = TWO

    def call(self, dialect: Dialect, method: str, **arguments: Any) -> bytes:
        return encode(dialect, method, arguments)

    def arguments(self, dialect: Dialect, method: str, fields: dict[str, Any]) -> Any:
        """Return a request's struct, for a writer of another protocol."""
        return getattr(SERVICES[dialect], f"{method}_args")(**fields)

    def reply(self, dialect: Dialect, method: str, **result: Any) -> bytes:
        return encode(dialect, method, result, part="result", kind=TMessageType.REPLY)
