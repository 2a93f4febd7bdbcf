"""Running PySpark steps over HBase: the run ledger, the worker process, and what a step sees.

Importing this room does not import PySpark: the agent needs the messages and the ledger only.
``Run``, ``current_run``, ``register_sources`` and what reads Kafka are loaded when first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headgate.spark.kafka.clients import KAFKA_PATIENCE, Troubles, client_properties, silent_logger
from headgate.spark.ledger import (
    LEDGER_FAMILY,
    Claimed,
    Committed,
    Free,
    LedgerError,
    LostClaim,
    NamedResults,
    ResultError,
    RunKey,
    RunLedger,
    RunState,
)
from headgate.spark.messages import (
    AdoptSession,
    CancelStep,
    CloseSpace,
    Ending,
    KafkaAddress,
    StageRequest,
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
from headgate.spark.stage_results import (
    FramePart,
    IncrementName,
    StageResult,
    decode_result,
    parse_frame_part,
    parse_increment_name,
)
from headgate.spark.worker.code_hash import code_hash, digest_of
from headgate.spark.worker.identities import code_in, file_digests, identity_on_disk, run_identity
from headgate.spark.worker.printing import step_log
from headgate.spark.worker.sessions import SessionWorker, WorkerGone

if TYPE_CHECKING:
    from headgate.spark.changes_reading import Increment
    from headgate.spark.column_names import NamedColumns, check_writable
    from headgate.spark.containers import Servers
    from headgate.spark.driver import current_run
    from headgate.spark.kafka.ranges import OffsetRange, RangeReader, RecordsUnavailable
    from headgate.spark.kafka.updates import Record, UpdateReader
    from headgate.spark.removing import Removal, WrittenCell, value_digest
    from headgate.spark.run import DRIVER_BYTES_KEY, DRIVER_ROWS_KEY, Run
    from headgate.spark.source.registration import register_sources
    from headgate.spark.source.values import UnwritableValue

__all__ = [
    "DRIVER_BYTES_KEY",
    "DRIVER_ROWS_KEY",
    "KAFKA_PATIENCE",
    "LEDGER_FAMILY",
    "AdoptSession",
    "CancelStep",
    "Claimed",
    "CloseSpace",
    "Committed",
    "Ending",
    "FramePart",
    "Free",
    "Increment",
    "IncrementName",
    "KafkaAddress",
    "LedgerError",
    "LostClaim",
    "NamedColumns",
    "NamedResults",
    "OffsetRange",
    "RangeReader",
    "Record",
    "RecordsUnavailable",
    "Removal",
    "ResultError",
    "Run",
    "RunKey",
    "RunLedger",
    "RunState",
    "Servers",
    "SessionWorker",
    "StageRequest",
    "StageResult",
    "StartSession",
    "StepEnded",
    "StepRequest",
    "StepStarted",
    "Thrift2Address",
    "Troubles",
    "UnwritableValue",
    "UpdateReader",
    "WorkerFailed",
    "WorkerGone",
    "WorkerMessage",
    "WorkerReady",
    "WorkerReply",
    "WrittenCell",
    "check_writable",
    "client_properties",
    "code_hash",
    "code_in",
    "current_run",
    "decode_message",
    "decode_reply",
    "decode_result",
    "digest_of",
    "encode_line",
    "file_digests",
    "identity_on_disk",
    "parse_frame_part",
    "parse_increment_name",
    "register_sources",
    "run_identity",
    "silent_logger",
    "step_log",
    "value_digest",
]

_LATE = {
    "Increment": "headgate.spark.changes_reading",
    "NamedColumns": "headgate.spark.column_names",
    "OffsetRange": "headgate.spark.kafka.ranges",
    "RangeReader": "headgate.spark.kafka.ranges",
    "RecordsUnavailable": "headgate.spark.kafka.ranges",
    "DRIVER_BYTES_KEY": "headgate.spark.run",
    "DRIVER_ROWS_KEY": "headgate.spark.run",
    "Record": "headgate.spark.kafka.updates",
    "Removal": "headgate.spark.removing",
    "Run": "headgate.spark.run",
    "Servers": "headgate.spark.containers",
    "UnwritableValue": "headgate.spark.source.values",
    "UpdateReader": "headgate.spark.kafka.updates",
    "WrittenCell": "headgate.spark.removing",
    "check_writable": "headgate.spark.column_names",
    "current_run": "headgate.spark.driver",
    "register_sources": "headgate.spark.source.registration",
    "value_digest": "headgate.spark.removing",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(_LATE[name]), name)
