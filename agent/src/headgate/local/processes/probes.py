"""Asking the parts whether they really work: one call each that needs everything behind it."""

from __future__ import annotations

import socket
import struct

from headgate.local.processes.ports import HOST

_ANSWER_SECONDS = 5.0
_KAFKA_ANSWER_SECONDS = 3.0

_VERSION_1 = 0x80010000  # strict binary Thrift
_CALL = 1
_REPLY = 2
_STOP = b"\x00"
_SUCCESS = b"\x0f\x00\x00"  # a list as field 0: the method's result, not one of its exceptions
_MOST_HEADER = 64  # bytes of a reply that are looked at


def listens(port: int) -> bool:
    """Say whether something accepts connections."""
    try:
        with socket.create_connection((HOST, port), timeout=_ANSWER_SECONDS):
            return True
    except OSError:
        return False


def thrift1_answers(port: int) -> bool:
    """Say whether Thrift1 lists the tables, for which it needs HBase's master."""
    return _thrift_answers(port, b"getTableNames")


def thrift2_answers(port: int) -> bool:
    """Say whether Thrift2 lists the namespaces, for which it needs HBase's master."""
    return _thrift_answers(port, b"listNamespaceDescriptors")


def kafka_answers(port: int) -> bool:
    """Say whether Kafka answers a request for metadata and names its broker."""
    if not listens(port):
        return False
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    # librdkafka would log each failed attempt to standard error; its answer is enough.
    client = AdminClient({"bootstrap.servers": f"{HOST}:{port}", "log_level": 0})
    try:
        return bool(client.list_topics(timeout=_KAFKA_ANSWER_SECONDS).brokers)
    except KafkaException:
        return False


def _thrift_answers(port: int, method: bytes) -> bool:
    """Call a method without arguments whose result is a list; say whether it came."""
    call = struct.pack(">Ii", _VERSION_1 | _CALL, len(method)) + method + struct.pack(">i", 1)
    reply = struct.pack(">Ii", _VERSION_1 | _REPLY, len(method)) + method + struct.pack(">i", 1)
    expected = reply + _SUCCESS
    try:
        with socket.create_connection((HOST, port), timeout=_ANSWER_SECONDS) as connection:
            connection.sendall(call + _STOP)
            said = b""
            while len(said) < len(expected):
                more = connection.recv(_MOST_HEADER)
                if not more:
                    return False
                said += more
    except OSError:
        return False
    return said.startswith(expected)
