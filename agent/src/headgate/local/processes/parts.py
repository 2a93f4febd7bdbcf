"""The parts of the stack, as data: how each is started, probed and ended."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path

import msgspec

from headgate.local.processes.ports import Port
from headgate.local.processes.probes import kafka_answers, listens, thrift1_answers, thrift2_answers
from headgate.local.processes.processes import ProcessIdentity
from headgate.local.processes.recovery import KAFKA_RECOVERY, RecoveryLog


class Part(Enum):
    """A process of the stack."""

    HBASE = "hbase"
    KAFKA = "kafka"
    THRIFT1 = "thrift1"
    THRIFT2 = "thrift2"
    CONNECT = "connect"
    """A Spark Connect server, started on demand only."""


class PartPlan(msgspec.Struct, frozen=True):
    """How one part runs.

    Attributes:
        part: Which one.
        jars: The folder below ``hbase-conf`` whose lock makes its class path, or ``spark`` for the
            jars that come with PySpark.
        ports: The ports that it listens on; the probe asks the first.
        after: The parts that must be ready before it is started.
        java: Arguments for Java that come before the main class; names stand in them, too.
        arguments: Main class and its arguments; ``{name}`` stands for a port or a folder.
        ready_line: What its log says once it is initialised, where only the log shows that.
        answers: Asks it, given its first port.
        start_seconds: How long it may take until it answers, on a machine that is busy; while it
            recovers, how long it may take for each step of that.
        stop_seconds: How long it may take to end in order before it is killed.
        recovery: What its log says while it puts its data in order, which can take long.
    """

    part: Part
    jars: str
    ports: tuple[Port, ...]
    after: tuple[Part, ...]
    java: tuple[str, ...]
    arguments: tuple[str, ...]
    ready_line: bytes | None
    answers: Callable[[int], bool]
    start_seconds: float
    stop_seconds: float
    recovery: RecoveryLog | None = None

    def is_ready(self, process: ProcessIdentity, log: Path, port: int) -> bool:
        """Return whether the part works: its log says so, where only that does, and it answers.

        What answers at its port may be another program, which was there before it.
        """
        if self.ready_line is not None and not log_says(log, self.ready_line):
            return False
        return self.answers(port) and process.listens(port)


_EVERY_JVM = (
    "-XX:+ExitOnOutOfMemoryError",  # a part that is half dead would only look alive
    "-XX:+UseSerialGC",  # fewer threads and less memory than the default on small machines
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Dfile.encoding=UTF-8",
    "-Duser.timezone=UTC",
    "-Djava.net.preferIPv4Stack=true",
)

# What HBase 2 and its Netty reach into since Java 17 keeps its own internals closed.
_HBASE_JVM = (
    *_EVERY_JVM,
    "-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true",
    "--add-modules=jdk.unsupported",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.dns=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
)

# Master and region server end in an order of chance. Where the master is first, ZooKeeper goes with
# it, and the region server, its data whole, asks for it in vain: for 20 s with HBase's defaults.
_MASTER_ARGUMENTS = (
    *("-D", "zookeeper.recovery.retry=1"),
    *("-D", "zookeeper.recovery.retry.intervalmill=100"),
)

_THRIFT_ARGUMENTS = ("start", "-b", "127.0.0.1", "--infoport", "-1", "-p")

PLANS: dict[Part, PartPlan] = {
    plan.part: plan
    for plan in (
        PartPlan(
            part=Part.HBASE,
            jars="hbase",
            ports=(Port.ZOOKEEPER,),
            after=(),
            java=(*_HBASE_JVM, "-Xmx1g"),
            arguments=("org.apache.hadoop.hbase.master.HMaster", *_MASTER_ARGUMENTS, "start"),
            ready_line=b"Master has completed initialization",
            answers=listens,
            start_seconds=120.0,
            stop_seconds=30.0,
        ),
        PartPlan(
            part=Part.KAFKA,
            jars="kafka",
            ports=(Port.KAFKA, Port.KAFKA_CONTROLLER),
            after=(),
            java=(*_EVERY_JVM, "-Xmx384m"),
            arguments=("kafka.Kafka", "{conf}/server.properties"),
            ready_line=None,
            answers=kafka_answers,
            start_seconds=90.0,
            stop_seconds=20.0,
            recovery=KAFKA_RECOVERY,
        ),
        PartPlan(
            part=Part.THRIFT1,
            jars="hbase",
            ports=(Port.THRIFT1,),
            after=(Part.HBASE,),
            java=(*_HBASE_JVM, "-Xmx384m"),
            arguments=(
                "org.apache.hadoop.hbase.thrift.ThriftServer",
                *_THRIFT_ARGUMENTS,
                "{thrift1}",
            ),
            ready_line=None,
            answers=thrift1_answers,
            start_seconds=60.0,
            stop_seconds=5.0,
        ),
        PartPlan(
            part=Part.THRIFT2,
            jars="hbase",
            ports=(Port.THRIFT2,),
            after=(Part.HBASE,),
            java=(*_HBASE_JVM, "-Xmx384m"),
            arguments=(
                "org.apache.hadoop.hbase.thrift2.ThriftServer",
                *_THRIFT_ARGUMENTS,
                "{thrift2}",
            ),
            ready_line=None,
            answers=thrift2_answers,
            start_seconds=60.0,
            stop_seconds=5.0,
        ),
    )
}

SPARK_JARS = "spark"
"""Instead of a folder with a lock: PySpark brings its own jars."""

# What Spark reaches into, as its own launcher opens it.
_SPARK_OPENS = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)

EVERY_PLAN: dict[Part, PartPlan] = {
    **PLANS,
    Part.CONNECT: PartPlan(
        part=Part.CONNECT,
        jars=SPARK_JARS,
        ports=(Port.CONNECT,),
        after=(),
        java=(
            *_EVERY_JVM,
            "-Xmx768m",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _SPARK_OPENS),
            "-Djdk.reflect.useDirectMethodHandle=false",
            "-Dio.netty.tryReflectionSetAccessible=true",
            "-Dspark.master=local[*]",
            "-Dspark.app.name=headgate",
            "-Dspark.ui.enabled=false",
            "-Dspark.driver.host=127.0.0.1",
            "-Dspark.driver.bindAddress=127.0.0.1",
            "-Dspark.local.dir={scratch}",
            "-Dspark.sql.shuffle.partitions=2",
            "-Dspark.connect.grpc.binding.address=127.0.0.1",
            "-Dspark.connect.grpc.binding.port={connect}",
        ),
        arguments=("org.apache.spark.sql.connect.service.SparkConnectServer",),
        ready_line=None,
        answers=listens,
        start_seconds=120.0,
        stop_seconds=10.0,
    ),
}
"""Those that are always there, and those that are started on demand."""

# Thrift servers first, so that none is left that asks an HBase which has gone.
STOP_ORDER: tuple[tuple[Part, ...], ...] = (
    (Part.CONNECT,),
    (Part.THRIFT1, Part.THRIFT2),
    (Part.HBASE, Part.KAFKA),
)


def log_says(log: Path, line: bytes) -> bool:
    """Say whether a log holds a line by now."""
    try:
        with log.open("rb") as lines:
            return any(line in each for each in lines)
    except FileNotFoundError:
        return False
