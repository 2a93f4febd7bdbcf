"""The local stack: HBase, its two Thrift servers and Kafka, brought up and down as one."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec
import psutil

from headgate.local.configuration import render
from headgate.local.errors import PartFailedError
from headgate.local.java import find_java
from headgate.local.places import (
    InstancePlaces,
    default_cache,
    default_home,
    find_configuration,
)
from headgate.local.processes import processes
from headgate.local.processes.ascent import Ascent
from headgate.local.processes.class_archives import ClassArchives, are_recorded_by
from headgate.local.processes.launch import PartLauncher
from headgate.local.processes.locks import exclusive
from headgate.local.processes.parts import EVERY_PLAN, PLANS, SPARK_JARS, STOP_ORDER, Part, PartPlan
from headgate.local.processes.ports import HOST, Port, PortReservation, moved
from headgate.local.processes.processes import Children, Lifetime, ProcessIdentity
from headgate.local.progress import Listener, Progress, silent
from headgate.local.record import InstanceRecord, load_record, save_record
from headgate.settings import Java

_RECORDING_SECONDS = 60.0  # an archive of classes takes 2 to 8 s, once, of a processor
_LOCK_SECONDS = 180.0  # longer than any `up` or `down` of somebody else takes


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return ``host:port``."""
        return f"{self.host}:{self.port}"


class Addresses(msgspec.Struct, frozen=True):
    """Where clients reach the stack.

    ``kafka`` is a bootstrap address, ``host:port``, and ``connect`` one of Spark, ``sc://host:port``,
    where that runs.
    """

    thrift1: Address
    thrift2: Address
    kafka: str
    zookeeper: Address
    connect: str | None = None

    def as_text(self) -> dict[str, str]:
        """Return each as ``host:port``, for output and configuration."""
        return {
            "thrift1": str(self.thrift1),
            "thrift2": str(self.thrift2),
            "kafka": self.kafka,
            "zookeeper": str(self.zookeeper),
            **({} if self.connect is None else {"connect": self.connect}),
        }


class PartState(Enum):
    """What a part is doing."""

    READY = "ready"
    NOT_ANSWERING = "not answering"
    STOPPED = "stopped"


class PartStatus(msgspec.Struct, frozen=True):
    """One part as it is now.

    Attributes:
        part: Its name.
        state: What it is doing.
        process: The process that runs it, if one does.
        ports: The ports it has, or had last.
        memory: Resident bytes; 0 when stopped.
        log: Where its output is.
    """

    part: Part
    state: PartState
    process: ProcessIdentity | None
    ports: dict[str, int]
    memory: int
    log: Path


class StackStatus(msgspec.Struct, frozen=True):
    """The whole stack as it is now; ``addresses`` is None before the first start."""

    instance: str
    folder: Path
    parts: tuple[PartStatus, ...]
    addresses: Addresses | None

    @property
    def ready(self) -> bool:
        """Say whether every part answers."""
        return all(part.state is PartState.READY for part in self.parts)


class LocalStack:
    """One instance of the stack: private data, ports and processes below ``home``.

    Several instances live side by side. All state is in the instance's folder and in the running
    processes, so any number of these objects, in any process, may stand for the same instance.
    As a context manager it is up inside the body and down after it.

    Args:
        home: Folder of all instances; by default the user's, see ``default_home``.
        instance: Its name.
        cache: Folder of the jars; by default the user's, shared by all homes that do not name
            another, see ``default_cache``.
        lifetime: ``WITH_CALLER`` ends the processes with the one that called ``up``, even if that
            is killed; ``up`` must then be called from a thread that lives as long as the stack.
        also: parts that ``up`` starts besides those that are always there.
    """

    def __init__(
        self,
        home: Path | None = None,
        instance: str = "default",
        *,
        cache: Path | None = None,
        lifetime: Lifetime = Lifetime.DETACHED,
        also: Collection[Part] = (),
    ) -> None:
        self.instance = instance
        self._places = InstancePlaces((home or default_home()).expanduser().resolve(), instance)
        self._cache = (cache or default_cache()).expanduser().resolve()
        self._lifetime = lifetime
        self._also = frozenset(also)
        self._children = Children()
        self._archives = ClassArchives(self._cache, self._places.scratch)

    @property
    def folder(self) -> Path:
        """The folder that holds everything of this instance."""
        return self._places.folder

    def log(self, part: Part) -> Path:
        """Return the file that a part's output goes to."""
        return self._places.log(part.value)

    def __enter__(self) -> Self:
        """Bring the stack up."""
        self.up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the stack down."""
        self.down()

    def up(self, listen: Listener = silent) -> Addresses:
        """Start what does not run yet and return once every part answers a call.

        Interrupted or failing, it ends whatever it has started itself and leaves what ran before.

        Raises:
            JavaUnfitError: If there is no Java 17 or 21.
            JarsUnavailableError: If a jar cannot be fetched.
            ChecksumMismatchError: If a jar is not the pinned one.
            NoFreePortError: If a part finds no port.
            PartFailedError: If a part ends or does not answer in time.
            InstanceBusyError: If another command works on the instance for minutes.
        """
        java = find_java()
        self._places.create()
        with self._locked(listen):
            source = find_configuration()
            before = self._settle()
            class_paths = self._class_paths(source, self._plans(before), listen)
            with self._ended_on_failure(before):
                return self._start_missing(java, source, class_paths, before, listen)

    def fetch_jars(self, listen: Listener = silent) -> None:
        """Fetch the jars that are missing, so that a later ``up`` needs no network.

        Raises:
            JarsUnavailableError: If a jar cannot be fetched.
            ChecksumMismatchError: If a jar is not the pinned one.
        """
        self._class_paths(find_configuration(), PLANS, listen)

    def down(self, listen: Listener = silent) -> list[Part]:
        """End every process of the instance, in order; return the parts that ran."""
        if not self._places.folder.exists():
            return []
        with self._locked(listen):
            return self._end_all(listen)

    def is_recording(self) -> bool:
        """Say whether ``down`` would keep archives of classes, which the next starts are faster by.

        That is so until it once has, for a Java and the jars.
        """
        return any(map(are_recorded_by, processes.find(self._places.folder).values()))

    def reset(self, listen: Listener = silent) -> None:
        """End every process at once and delete data, logs and ports; the jars stay."""
        if not self._places.folder.exists():
            return
        with self._locked(listen):
            self._end_all(listen, in_order=False)
            for folder in (
                self._places.data,
                self._places.logs,
                self._places.conf,
                self._places.scratch,
            ):
                if folder.exists():
                    shutil.rmtree(folder)
            self._places.record.unlink(missing_ok=True)

    def status(self) -> StackStatus:
        """Return what runs and answers now."""
        record = load_record(self._places.record)
        running = processes.find(self._places.folder)
        return StackStatus(
            instance=self.instance,
            folder=self._places.folder,
            parts=tuple(
                self._part_status(EVERY_PLAN[part], record, running)
                for part in Part
                if part in PLANS or part.value in running
            ),
            addresses=_addresses(record.ports),
        )

    def addresses(self) -> Addresses | None:
        """Return the addresses that the instance has, or had last; None before its first start."""
        return _addresses(load_record(self._places.record).ports)

    def kill(self, part: Part) -> list[ProcessIdentity]:
        """Kill a part at once, as a crash would, and return what was killed.

        ``up`` starts it again, on the same data and, where still free, the same ports.
        """
        identities = processes.find(self._places.folder).get(part.value, [])
        processes.end(identities, 0, self._children.reap)
        return identities

    def restart(self, part: Part, listen: Listener = silent) -> Addresses:
        """Kill a part and bring the stack up again."""
        self.kill(part)
        return self.up(listen)

    @contextmanager
    def _locked(self, listen: Listener) -> Iterator[None]:
        with exclusive(
            self._places.lock,
            _LOCK_SECONDS,
            lambda text: listen(Progress(subject="lock", text=text)),
        ):
            yield

    def _plans(self, running: Collection[Part]) -> dict[Part, PartPlan]:
        """Return what must run: that which always does, was asked for, or runs already."""
        wanted = {*PLANS, *self._also, *running}
        return {part: plan for part, plan in EVERY_PLAN.items() if part in wanted}

    def _class_paths(
        self, source: Path, plans: Mapping[Part, PartPlan], listen: Listener
    ) -> dict[str, list[Path]]:
        # jgo is needed to fetch only; `status` and `down` do without.
        from headgate.local.jars import JarStore, read_lock

        store = JarStore(self._cache)
        groups = sorted({plan.jars for plan in plans.values()} - {SPARK_JARS})
        locks = {group: read_lock(source / group) for group in groups}
        files = store.provide([jar for group in groups for jar in locks[group]], listen)
        remaining = iter(files)
        found = {group: [next(remaining) for _ in locks[group]] for group in groups}
        return {**found, SPARK_JARS: _spark_jars()} if len(plans) > len(PLANS) else found

    def _settle(self) -> dict[Part, ProcessIdentity]:
        """Return the part that runs for each name, ending what nothing is known of."""
        found = processes.find(self._places.folder)
        known = load_record(self._places.record).ports
        kept: dict[Part, ProcessIdentity] = {}
        stray: list[ProcessIdentity] = []
        for name, identities in found.items():
            plan = EVERY_PLAN.get(Part(name)) if name in {part.value for part in Part} else None
            if plan is None or any(port.key not in known for port in plan.ports):
                stray += identities
            else:
                kept[plan.part] = identities[0]
                stray += identities[1:]
        processes.end(stray, 0, self._children.reap)
        return kept

    @contextmanager
    def _ended_on_failure(self, before: dict[Part, ProcessIdentity]) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with _interrupts_held():
                kept = {each.pid for each in before.values()}
                found = processes.find(self._places.folder)
                started = [
                    each for group in found.values() for each in group if each.pid not in kept
                ]
                processes.end(started, 0, self._children.reap)
            raise

    def _start_missing(
        self,
        java: Java,
        source: Path,
        class_paths: dict[str, list[Path]],
        before: dict[Part, ProcessIdentity],
        listen: Listener,
    ) -> Addresses:
        reservation = PortReservation()
        try:
            ports = self._choose_ports(before, reservation)
            self._announce_moved(ports, before, listen)
            self._configure(source, ports)
            save_record(self._places.record, InstanceRecord(ports=ports))
            launcher = PartLauncher(
                self._places,
                java,
                class_paths,
                ports,
                reservation,
                self._lifetime,
                self._children,
                self._cache,
            )
            plans = self._plans(before)
            Ascent(self._places, plans, launcher, ports, before, self._children, listen).run()
        finally:
            reservation.close()
        addresses = _addresses(ports)
        if addresses is None:
            raise AssertionError("every port was chosen above")
        return addresses

    def _choose_ports(
        self, before: dict[Part, ProcessIdentity], reservation: PortReservation
    ) -> dict[str, int]:
        known = load_record(self._places.record).ports
        ports: dict[str, int] = {}
        for plan in self._plans(before).values():
            for port in plan.ports:
                if plan.part in before:
                    ports[port.key] = known[port.key]
                else:
                    ports[port.key] = reservation.choose(port, known.get(port.key))
        moved_zookeeper = known.get(Port.ZOOKEEPER.key) != ports[Port.ZOOKEEPER.key]
        for part in (Part.THRIFT1, Part.THRIFT2):
            if moved_zookeeper and part in before:
                # It looks for HBase at an address that another program has taken.
                processes.end([before.pop(part)], 0, self._children.reap)
                for port in PLANS[part].ports:
                    ports[port.key] = reservation.choose(port, known.get(port.key))
        return ports

    def _announce_moved(
        self, ports: dict[str, int], before: dict[Part, ProcessIdentity], listen: Listener
    ) -> None:
        starting = {
            port.key
            for plan in EVERY_PLAN.values()
            if plan.part not in before
            for port in plan.ports
        }
        for key, (default, chosen) in moved(ports).items():
            if key in starting:
                listen(
                    Progress(
                        subject="ports",
                        text=f"{key} uses port {chosen}, because {default} is or was taken",
                    )
                )

    def _configure(self, source: Path, ports: dict[str, int]) -> None:
        values = {"data": str(self._places.data)}
        values |= {f"{port.key}_port": str(ports[port.key]) for port in Port if port.key in ports}
        render(source, self._places.conf, values)

    def _end_all(self, listen: Listener, *, in_order: bool = True) -> list[Part]:
        found = processes.find(self._places.folder)
        with _interrupts_held():
            for parts in STOP_ORDER:
                group = [each for part in parts for each in found.get(part.value, [])]
                if not group:
                    continue
                names = " and ".join(part.value for part in parts if part.value in found)
                listen(Progress(subject=names, text="stopping"))
                patience = max(EVERY_PLAN[part].stop_seconds for part in parts) if in_order else 0
                if in_order and are_recorded_by(group):
                    listen(Progress(subject=names, text="recording what speeds up the next start"))
                    patience += _RECORDING_SECONDS
                if processes.end(group, patience, self._children.reap):
                    self._archives.discard()
                else:
                    self._archives.keep()
            rest = [
                each for group in processes.find(self._places.folder).values() for each in group
            ]
            processes.end(rest, 0, self._children.reap)
        return [part for part in Part if part.value in found]

    def _part_status(
        self, plan: PartPlan, record: InstanceRecord, running: dict[str, list[ProcessIdentity]]
    ) -> PartStatus:
        identities = running.get(plan.part.value, [])
        process = identities[0].process() if identities else None
        state, memory = PartState.STOPPED, 0
        if process is not None:
            port = record.ports.get(plan.ports[0].key)
            answers = port is not None and plan.is_ready(identities[0], self.log(plan.part), port)
            state = PartState.READY if answers else PartState.NOT_ANSWERING
            try:
                memory = process.memory_info().rss
            except psutil.NoSuchProcess:
                state = PartState.STOPPED
        return PartStatus(
            part=plan.part,
            state=state,
            process=identities[0] if identities else None,
            ports={
                port.key: record.ports[port.key] for port in plan.ports if port.key in record.ports
            },
            memory=memory,
            log=self.log(plan.part),
        )


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C from cutting short what must not stay half done: seconds at most."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _addresses(ports: dict[str, int]) -> Addresses | None:
    if any(port.key not in ports for plan in PLANS.values() for port in plan.ports):
        return None
    connect = ports.get(Port.CONNECT.key)
    return Addresses(
        thrift1=Address(HOST, ports[Port.THRIFT1.key]),
        thrift2=Address(HOST, ports[Port.THRIFT2.key]),
        kafka=f"{HOST}:{ports[Port.KAFKA.key]}",
        zookeeper=Address(HOST, ports[Port.ZOOKEEPER.key]),
        connect=None if connect is None else f"sc://{HOST}:{connect}",
    )


def _spark_jars() -> list[Path]:
    spec = find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec is not None and spec.origin else None
    jars = sorted(folder.glob("*.jar")) if folder is not None else []
    if not jars:
        raise PartFailedError(
            "a Spark Connect server needs PySpark: pip install 'headgate[spark,connect]'"
        )
    return jars
