"""The worker: a warm Spark session that runs steps as it is asked to."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import msgspec
import pyspark
from pyspark import InheritableThread
from pyspark.sql import SparkSession

from headgate.client import ClientError, ConnectionFailed, Thrift2Connection
from headgate.flows import RunIdentity
from headgate.spark.containers import servers_of
from headgate.spark.ledger import Claimed, Committed, LostClaim, RunLedger, until_answered
from headgate.spark.messages import (
    AdoptSession,
    CancelStep,
    CloseSpace,
    Ending,
    StartSession,
    StepEnded,
    StepRequest,
    StepStarted,
    WorkerFailed,
    WorkerReady,
    WorkerReply,
    decode_message,
    encode_line,
)
from headgate.spark.run import Run, RunCancelled
from headgate.spark.source.registration import register_sources
from headgate.spark.worker.identities import file_digests, run_identity
from headgate.spark.worker.printing import PrintedLines, step_log
from headgate.spark.worker.readers import ReaderPool
from headgate.spark.worker.steps import StepCode

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.master": "local[*]",
    "spark.app.name": "headgate",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.reuse": "true",
    # Spark asks for short tracebacks by a variable that only functions of SQL have. Their workers
    # then need a second daemon, 2 s of a processor, and a short traceback has no causes.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Steps plan more than they compute. With the quick compiler alone, starting and the first
    # steps cost half the processor time, later ones two thirds; long computations want the other.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
"""What a dataflow's configuration overrides. Steps are small: few partitions, no web page, and no
adaptive execution, which doubles the time of a query over some thousand rows."""

_DAEMON: Final = "headgate.spark.worker.python_daemon"
"""What Spark forks Python workers from: it has imported what they need."""

_CANCEL_PAUSE: Final = 0.2
"""Seconds between two looks for jobs of a cancelled step."""

_JVM_SECONDS: Final = 5.0
"""How long Spark's JVM may take to delete its temporary files."""

_PATH_VARIABLE: Final = "PYTHONPATH"
_CODE_VARIABLE: Final = "HEADGATE_CODE"
"""In the environment of Spark's Python workers, which are only shared where it is the same."""

_SPACE: Final = "headgate_space_"
"""How the packages are called in which dataflows of a pool have their modules; a number follows."""

_DEATH_SECONDS: Final = 0.3
"""How much later than its connections a JVM that was killed is seen to have ended, at most."""

_NOT_FOLLOWED: Final = "The run is committed. What was to follow failed, and its next run does it:"


def session_of(conf: Mapping[str, str]) -> SparkSession:
    """Return a session with headgate's data sources.

    Args:
        conf: Spark's configuration, over ``DEFAULTS``.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = {**DEFAULTS, **conf}
    if settings["spark.master"].startswith("local"):
        # A machine's own name may lead to an address that is not there any more.
        settings.setdefault("spark.driver.host", "127.0.0.1")
        settings.setdefault("spark.driver.bindAddress", "127.0.0.1")
        # Elsewhere executors may be without headgate.
        settings.setdefault("spark.python.daemon.module", _DAEMON)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register_sources(spark)
    return spark


class Space:
    """What the attempts of one dataflow share, and those of others have nothing of."""

    def __init__(self, spark: SparkSession, code: StepCode) -> None:
        self.spark = spark
        self.code = code
        self.failed: set[str] = set()
        """Actions whose last attempt failed here: the next one takes the code as it is then."""


class StepAttempt:
    """An attempt that is under way."""

    def __init__(self, request: StepRequest, space: Space) -> None:
        self.request = request
        self.space = space
        self.arrived = time.monotonic()
        self.cancelled = threading.Event()
        self.tag = f"headgate-{uuid.uuid4().hex}"
        self._stepping = threading.Lock()
        self._thread: int | None = None
        """That calls the step, while it does."""

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it from all others in the worker: space, run and number."""
        return self.request.space, self.request.run, self.request.attempt

    def call(self, step: Callable[[Run], object], run: Run) -> None:
        """Call the step, which ``interrupt`` ends.

        Raises:
            RunCancelled: it was cancelled before its end.
        """
        with self._stepping:
            self._thread = threading.get_ident()
        try:
            step(run)
        finally:
            with self._stepping:
                self._thread = None
        # An interrupt of the last moment is raised here at the latest.
        if self.cancelled.is_set():
            message = f"run {self.request.run} was cancelled before its commit"
            raise RunCancelled(message)

    def interrupt(self) -> None:
        """Have the step's next line raise: one that computes in Python has no jobs to cancel."""
        with self._stepping:
            if self._thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(RunCancelled)
                )


class Worker:
    """Runs attempts side by side in one Spark session.

    Args:
        spark: the session.
        reply: called with each reply, from any thread.
        directory: where each run's output goes, in a folder of its own.
        printed: takes what steps print.
        jvm: the session's own JVM; when it ends, so does this process.
    """

    def __init__(
        self,
        spark: SparkSession,
        reply: Callable[[WorkerReply], None],
        directory: Path,
        printed: PrintedLines,
        jvm: subprocess.Popen[bytes] | None,
    ) -> None:
        self._spark = spark
        self._reply = reply
        self._directory = directory
        self._printed = printed
        self._jvm = jvm
        self._readers = ReaderPool()
        self._attempts: dict[tuple[str, str, int], StepAttempt] = {}
        self._live: dict[str, str] = {}
        """Settings that the session took after its start; new ones made from it take them, too."""
        self._spaces: dict[str, Space] = {}
        self._numbers = itertools.count(1)
        self._fresh_workers = 0
        self._holder = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex}"

    def adopt(self, adopted: AdoptSession) -> WorkerReady:
        """Make the session, in which nothing has run yet, that of a dataflow.

        Raises:
            PySparkException: a setting is none that a session can change once it has started.
        """
        begun = time.monotonic()
        for name, value in adopted.conf.items():
            self._spark.conf.set(name, value)
        self._live = dict(adopted.conf)
        self._directory = Path(adopted.directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        os.chdir(self._directory)
        if adopted.python_path:
            # The JVM has started without it: what it starts gets it with each task.
            self._spark.sparkContext.environment[_PATH_VARIABLE] = _search_path(adopted.python_path)
        return WorkerReady(os.getpid(), pyspark.__version__, time.monotonic() - begun)

    def begin(self, request: StepRequest) -> threading.Thread:
        """Start an attempt on a thread of its own and return the thread."""
        space = self._spaces.get(request.space)
        if space is None:
            space = self._spaces[request.space] = self._new_space(request.space)
        attempt = StepAttempt(request, space)
        self._attempts[attempt.key] = attempt
        thread: threading.Thread = InheritableThread(
            target=self._attempt, args=(attempt,), daemon=True
        )
        thread.name = f"{request.action}-{request.run}"
        thread.start()
        return thread

    def _new_space(self, name: str) -> Space:
        if not name:
            return Space(self._spark, StepCode())
        spark = self._spark.newSession()
        for key, value in self._live.items():
            spark.conf.set(key, value)
        # Makes it the session of this thread: a format is refused that the thread's session has.
        spark.createDataFrame([], "row string")
        register_sources(spark)
        return Space(spark, StepCode(f"{_SPACE}{next(self._numbers)}"))

    def close_space(self, name: str) -> None:
        """Forget a space; nothing happens where nothing has run in it."""
        space = self._spaces.pop(name, None)
        if space is not None:
            space.code.close()

    def cancel(self, run: str, attempt: int, space: str = "") -> None:
        """Stop an attempt; nothing happens where it is over already."""
        found = self._attempts.get((space, run, attempt))
        if found is not None and not found.cancelled.is_set():
            found.cancelled.set()
            threading.Thread(target=self._cancel_jobs, args=(found,), daemon=True).start()

    def _cancel_jobs(self, attempt: StepAttempt) -> None:
        # Again and again: a step may submit its next job after each.
        attempt.interrupt()
        while attempt.key in self._attempts:
            self._spark.sparkContext.cancelJobsWithTag(attempt.tag)
            time.sleep(_CANCEL_PAUSE)

    def _attempt(self, attempt: StepAttempt) -> None:
        try:
            ended = self._logged(attempt)
        # A full disk, say, before the step or after its commit: the agent waits for an end.
        except BaseException as error:  # noqa: BLE001
            request = attempt.request
            ended = StepEnded(
                run=request.run,
                attempt=request.attempt,
                ending=Ending.UNCERTAIN,
                seconds=time.monotonic() - attempt.arrived,
                reason=_in_one_line(error),
                detail=traceback.format_exc(),
                space=request.space,
            )
        if ended.ending is Ending.FAILED and self._jvm is not None:
            # Without its JVM the worker is lost, and the step is not to blame.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._jvm.wait(_DEATH_SECONDS)
                return
        del self._attempts[attempt.key]
        failed = attempt.space.failed
        if ended.ending is Ending.FAILED:
            failed.add(attempt.request.action)
        else:
            failed.discard(attempt.request.action)
        self._reply(ended)

    def _logged(self, attempt: StepAttempt) -> StepEnded:
        request = attempt.request
        directory = Path(request.directory) if request.directory else self._directory
        path = step_log(directory, request.action, request.run, request.attempt)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8", buffering=1) as log, self._printed.to(log):
            ended = self._carried_out(attempt, log)
        return msgspec.structs.replace(ended, log=str(path))

    def _carried_out(self, attempt: StepAttempt, log: IO[str]) -> StepEnded:
        request = attempt.request
        space = attempt.space
        run: Run | None = None
        identity = RunIdentity()

        def ended(ending: Ending, reason: str = "", detail: str = "") -> StepEnded:
            if reason:
                print(reason, detail, sep="\n", file=log)
            return StepEnded(
                run=request.run,
                attempt=request.attempt,
                ending=ending,
                seconds=time.monotonic() - attempt.arrived,
                rows_read=0 if run is None else run.rows_read,
                rows_written=0 if run is None else run.rows_written,
                code=space.code.hash,
                space=request.space,
                undecoded=0 if run is None else run.undecoded.count,
                undecodable="" if run is None else run.undecoded.first,
                reason=reason,
                detail=detail,
                identity=identity,
            )

        def failed(error: BaseException) -> StepEnded:
            ending = Ending.CANCELLED if attempt.cancelled.is_set() else Ending.FAILED
            over = ended(ending, _in_one_line(error), traceback.format_exc())
            return msgspec.structs.replace(over, final=not getattr(error, "repeatable", True))

        try:
            claim = self._claim(request)
            self._reply(StepStarted(request.run, request.attempt, request.space))
            step = self._step(request, space)
            code, files = space.code.identity(request.entry), file_digests(request.depends)
            identity = run_identity(request, code, files)
            self._spark.sparkContext.addJobTag(attempt.tag)
            # Spark finds the format of a write by the session of the thread, which this sets.
            space.spark.createDataFrame([], "row string")
            pool = f"{request.space}/{request.action}" if request.space else request.action
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
            servers, cancelled = servers_of(request, self._readers.lent), attempt.cancelled.is_set
            run = Run(space.spark, request, servers, cancelled, code=code, files=files)
            attempt.call(step, run)
        except LostClaim as error:
            return ended(Ending.LOST_CLAIM, str(error))
        # A step may raise anything, SystemExit too; the worker goes on and the agent decides.
        except BaseException as error:  # noqa: BLE001
            return failed(error)
        try:
            committed = self._commit(request, claim, run.result)
        except LostClaim as error:
            return ended(Ending.LOST_CLAIM, str(error))
        except ConnectionFailed as error:
            return ended(Ending.UNCERTAIN, _in_one_line(error), traceback.format_exc())
        except ClientError as error:
            return failed(error)
        try:
            run.follow_commit()
        # What is committed is not undone by it, and the action's next run makes it good.
        except Exception:  # noqa: BLE001
            print(_NOT_FOLLOWED, traceback.format_exc(), sep="\n", file=log)
        return msgspec.structs.replace(ended(Ending.COMMITTED), result=committed.result)

    def _step(self, request: StepRequest, space: Space) -> Callable[[Run], object]:
        anew = request.action in space.failed
        step = space.code.load(request.entry, request.python_path, anew=anew)
        if anew:
            # Python workers of Spark's keep what they imported; another environment starts others.
            self._fresh_workers += 1
            self._spark.sparkContext.environment[_CODE_VARIABLE] = str(self._fresh_workers)
        return step

    def _claim(self, request: StepRequest) -> Claimed:
        with Thrift2Connection(request.hbase.host, request.hbase.port) as connection:
            ledger = RunLedger(connection, request.ledger, request.ledger_proof)
            return ledger.claim(request.key, request.attempt, request.token, self._holder)

    def _commit(self, request: StepRequest, claim: Claimed, result: str) -> Committed:
        def commit() -> Committed:
            with Thrift2Connection(request.hbase.host, request.hbase.port) as connection:
                ledger = RunLedger(connection, request.ledger, request.ledger_proof)
                return ledger.commit(request.key, claim, result)

        # A commit may be repeated: one that took place is found to have.
        return until_answered(commit)


def _in_one_line(error: BaseException) -> str:
    text = str(error).strip()
    first = text.splitlines()[0] if text else ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def serve(reply_fd: int) -> None:
    """Read requests from standard input until it closes, which ends the process.

    Args:
        reply_fd: file descriptor that replies are written to.
    """
    # A terminal's Ctrl-C is the agent's to act on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    printed = PrintedLines(sys.stderr)
    sys.stdout = sys.stderr = printed
    sending = threading.Lock()
    replies = os.fdopen(reply_fd, "wb", buffering=0)

    def reply(message: WorkerReply) -> None:
        with sending, contextlib.suppress(BrokenPipeError):  # the agent is gone; input ends next
            replies.write(encode_line(message))

    # What a step starts must neither eat requests nor keep the pipe open.
    requests = iter(os.fdopen(os.dup(0), "rb").readline, b"")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        worker = _started(requests, reply, printed)
        for line in requests:
            match decode_message(line):
                case StepRequest() as request:
                    worker.begin(request)
                case CancelStep(run=run, attempt=attempt, space=space):
                    worker.cancel(run, attempt, space)
                case CloseSpace(space=space):
                    worker.close_space(space)
                case AdoptSession() as adopted:
                    reply(worker.adopt(adopted))
                case StartSession():
                    message = "a second start: a worker has one session; start another worker"
                    raise ValueError(message)  # noqa: TRY301 - sent to the agent as the others
    except StopIteration:
        _end(0)
    # Whatever it is, the agent learns it before the process ends.
    except Exception as error:  # noqa: BLE001
        reply(WorkerFailed(_in_one_line(error), traceback.format_exc()))
        traceback.print_exc()
        _end(1)
    _end(0)


def _started(
    requests: Iterator[bytes], reply: Callable[[WorkerReply], None], printed: PrintedLines
) -> Worker:
    begun = time.monotonic()
    start = decode_message(next(requests))
    if not isinstance(start, StartSession):
        message = f"the first message must be a start, not {type(start).__name__}"
        raise TypeError(message)
    if start.python_path:
        os.environ[_PATH_VARIABLE] = _search_path(start.python_path)
    spark = session_of(start.conf)
    jvm = _jvm()
    if jvm is not None:
        threading.Thread(target=_end_after, args=(jvm,), daemon=True).start()
    worker = Worker(spark, reply, Path.cwd(), printed, jvm)
    reply(WorkerReady(os.getpid(), pyspark.__version__, time.monotonic() - begun))
    return worker


def _search_path(python_path: Sequence[str]) -> str:
    known = os.environ.get(_PATH_VARIABLE)
    return os.pathsep.join([*python_path, *([known] if known else [])])


_ending = threading.Event()


def _jvm() -> subprocess.Popen[bytes] | None:
    """Return the JVM that this process started; None where the session has none of its own."""
    context = pyspark.SparkContext._active_spark_context  # noqa: SLF001 - there is no other way to it
    process: subprocess.Popen[bytes] | None = getattr(
        getattr(context, "_gateway", None), "proc", None
    )
    return process


def _end_after(jvm: subprocess.Popen[bytes]) -> None:
    """End the process once the JVM has ended by itself: the agent starts another worker."""
    status = jvm.wait()
    if not _ending.is_set():
        sys.stderr.write(f"Spark's JVM ended with status {status}; so does its worker\n")
        sys.stderr.flush()
        os._exit(1)


def _end(status: int) -> None:
    """End the process and Spark's JVM, whatever steps are doing."""
    _ending.set()
    process = _jvm()
    if process is not None and process.stdin is not None:
        # The JVM ends when its input does, and deletes its temporary files on the way.
        process.stdin.close()
        with contextlib.suppress(Exception):
            process.wait(_JVM_SECONDS)
    sys.stderr.flush()
    os._exit(status)
