"""What is compared: HBase itself, HAProxy, the observer and the compiled one."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from free_ports import free_port

from headgate.events import Watch, WatchList, control_key, encode_control
from headgate.local import Lifetime, LocalStack
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)
from measuring.load import Address

_ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def running_stack() -> Iterator[dict[str, str]]:
    """Yield the addresses of a stack: the one that the environment names, or a new one."""
    named = os.environ.get("HEADGATE_TEST_STACK")
    if named:
        written = json.loads(Path(named).read_text())
        yield {
            key: str(value) if ":" in str(value) else f"127.0.0.1:{value}"
            for key, value in written.items()
        }
        return
    with tempfile.TemporaryDirectory() as home:
        stack = LocalStack(Path(home), "bench", lifetime=Lifetime.WITH_CALLER)
        try:
            yield stack.up().as_text()
        finally:
            stack.down()


def address_of(text: str) -> Address:
    """Return host and port of ``host:port``."""
    host, _, port = text.rpartition(":")
    return host, int(port)


@contextmanager
def running_haproxy(upstream: str, directory: Path) -> Iterator[Address | None]:
    """Yield the address of a HAProxy in TCP mode before the upstream; None without HAProxy."""
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        print("haproxy is not installed (Debian package haproxy): its columns are left out")
        yield None
        return
    port = free_port()
    configuration = directory / "haproxy.cfg"
    configuration.write_text(
        "global\n  maxconn 1000\n  nbthread 1\n"
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n"
        f"listen thrift\n  bind 127.0.0.1:{port}\n  server hbase {upstream}\n"
    )
    process = subprocess.Popen(
        [program, "-db", "-f", str(configuration)], stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        yield "127.0.0.1", port
    finally:
        process.terminate()
        process.wait()


def configuration(
    stack: dict[str, str], directory: Path, topic: str, **kafka: Any
) -> ObserverConfig:
    """Return an observer's: its journal is in ``directory``, ``topic`` is its control topic.

    ``kafka`` are keys of its section of that name.
    """
    return ObserverConfig(
        name="bench",
        thrift1=Listener("127.0.0.1:0", stack["thrift1"]),
        kafka=KafkaSettings(stack["kafka"], control_topic=topic, **kafka),
        journal=JournalSettings(str(directory / "journal")),
    )


def watch(stack: dict[str, str], topic: str, table: str) -> None:
    """Have the observers of a control topic watch a table."""
    producer = Producer({"bootstrap.servers": stack["kafka"]})
    wanted = WatchList(1, "bench", 1, (Watch(table),))
    producer.produce(topic, encode_control(wanted), control_key(wanted))
    producer.flush()


@contextmanager
def running_observer(
    stack: dict[str, str],
    table: str,
    directory: Path,
    source: Path | None = None,
    **kafka: Any,
) -> Iterator[ObserverProcess]:
    """Yield an observer that watches the table; its code is ``source``, where that is given.

    ``kafka`` are keys of its configuration.
    """
    topic = f"headgate.control-bench-{uuid.uuid4().hex[:12]}"
    config = configuration(stack, directory, topic, **kafka)
    path = os.environ.get("PYTHONPATH")
    if source is not None:
        os.environ["PYTHONPATH"] = str(source)
    try:
        observer = ObserverProcess(config, directory / "observer")
    finally:
        if source is not None:
            os.environ.pop("PYTHONPATH")
            if path is not None:
                os.environ["PYTHONPATH"] = path
    with observer:
        watch(stack, topic, table)
        time.sleep(1)
        yield observer


def compiled(directory: Path) -> Path | None:
    """Return a directory with the compiled package; None where it cannot be made."""
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        print("no C compiler: the compiled observer is left out")
        return None
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-build-isolation", "--wheel-dir", str(directory), str(_ROOT)]
    subprocess.run(
        command, env={**os.environ, "HATCH_BUILD_HOOK_ENABLE_CUSTOM": "true"}, check=True
    )
    (wheel,) = directory.glob("*.whl")
    unpacked = directory / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    return unpacked


def checked_out(folder: Path) -> Path:
    """Return the path for modules by which an observer's code is that of another checkout.

    Raises:
        FileNotFoundError: no checkout is there.
    """
    parts = [folder / part / "src" for part in ("observer", "agent")]
    for part in parts:
        if not (part / "headgate").is_dir():
            message = f"{folder} is no checkout: {part / 'headgate'} is not there; name one"
            raise FileNotFoundError(message)
    return Path(os.pathsep.join(map(str, parts)))


@contextmanager
def running_targets(
    stack: dict[str, str],
    table: str,
    directory: Path,
    source: Path | None,
    before: Path | None = None,
) -> Iterator[tuple[dict[str, Address], ObserverProcess]]:
    """Yield what is compared, and the last of the observers: the compiled one, if there is one.

    ``before`` is the path of another version's modules, which is a target too.
    """
    targets = {"direct": address_of(stack["thrift1"])}
    directory.mkdir()
    with ExitStack() as running:
        haproxy = running.enter_context(running_haproxy(stack["thrift1"], directory))
        if haproxy is not None:
            targets["HAProxy"] = haproxy
        if before is not None:
            earlier = running_observer(stack, table, directory / "before", before)
            targets["headgate before"] = running.enter_context(earlier).thrift1
        observer = running.enter_context(running_observer(stack, table, directory / "plain"))
        targets["headgate"] = observer.thrift1
        if source is not None:
            observer = running.enter_context(
                running_observer(stack, table, directory / "compiled", source)
            )
            targets["headgate compiled"] = observer.thrift1
        yield targets, observer
