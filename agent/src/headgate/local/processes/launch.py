"""Starting single parts: command lines, and the data folders that they expect."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from headgate.local.errors import PartFailedError
from headgate.local.places import InstancePlaces
from headgate.local.processes import processes
from headgate.local.processes.class_archives import ClassArchives
from headgate.local.processes.kafka_storage import KafkaStorage, new_name
from headgate.local.processes.parts import EVERY_PLAN, Part, PartPlan, log_says
from headgate.local.processes.ports import PortReservation
from headgate.local.processes.processes import Children, Lifetime, ProcessIdentity
from headgate.settings import Java

_FORMAT_SECONDS = 60.0  # Kafka's StorageTool takes 1 s


class PartLauncher:
    """Starts single parts: command lines, and the data folders that they expect."""

    def __init__(
        self,
        places: InstancePlaces,
        java: Java,
        class_paths: Mapping[str, Sequence[Path]],
        ports: Mapping[str, int],
        reservation: PortReservation,
        lifetime: Lifetime,
        children: Children,
        cache: Path,
    ) -> None:
        self._places = places
        self._java = java
        self._class_paths = class_paths
        self._ports = ports
        self._reservation = reservation
        self._lifetime = lifetime
        self._children = children
        self._archives = ClassArchives(cache, places.scratch)
        self._storage = KafkaStorage(cache, class_paths[EVERY_PLAN[Part.KAFKA].jars])

    def start(self, plan: PartPlan) -> ProcessIdentity:
        """Start a part and return its process."""
        self._prepare(plan)
        child = processes.start(
            self._command(plan),
            self._environment(plan),
            self._places.log(plan.part.value),
            self._lifetime,
            inherited=self._reservation.inherited(self._ports[port.key] for port in plan.ports),
        )
        self._children.add(child)
        try:
            return ProcessIdentity(pid=child.pid, started=psutil.Process(child.pid).create_time())
        except psutil.NoSuchProcess as error:
            raise PartFailedError(f"{plan.part.value} ended at once") from error

    def mark_initialised(self, part: Part) -> None:
        """Remember that a part's data is whole from now on."""
        self._initialised(part).touch()

    def forget_archive(self, plan: PartPlan) -> None:
        """Have a part's next start do without the archive of classes that this one used."""
        self._archives.forget(self._java, plan.part.value, self._class_paths[plan.jars])

    def _prepare(self, plan: PartPlan) -> None:
        """Make the data folder usable; one whose first start was cut short is begun anew."""
        data = self._places.data
        if self._initialised(plan.part).exists():
            return
        if plan.part is Part.HBASE:
            if plan.ready_line and log_says(self._places.log(plan.part.value), plan.ready_line):
                self.mark_initialised(plan.part)
                return
            for name in ("hbase", "zookeeper", "tmp"):
                _remove(data / name)
        if plan.part is Part.KAFKA:
            _remove(data / "kafka")
            if not self._storage.format(data / "kafka"):
                self._format_kafka(plan)
                self._storage.keep(data / "kafka")
            self.mark_initialised(plan.part)

    def _format_kafka(self, plan: PartPlan) -> None:
        command = [
            str(self._java.program),
            *processes.marks(self._places.folder, "kafka-format"),
            "-XX:TieredStopAtLevel=1",
            "-Xmx128m",
            "kafka.tools.StorageTool",
            "format",
            "-t",
            new_name(),
            "-c",
            str(self._places.conf / "server.properties"),
        ]
        done = subprocess.run(
            command,
            env=self._environment(plan),
            cwd=self._places.scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            timeout=_FORMAT_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise PartFailedError(f"Kafka's storage could not be formatted:\n{done.stdout}")

    def _initialised(self, part: Part) -> Path:
        return self._places.data / f"{part.value}.initialised"

    def _command(self, plan: PartPlan) -> list[str]:
        values = {key: str(number) for key, number in self._ports.items()}
        values |= {"conf": str(self._places.conf), "scratch": str(self._places.scratch)}
        return [
            str(self._java.program),
            *processes.marks(self._places.folder, plan.part.value),
            f"-Djava.io.tmpdir={self._places.scratch}",
            *self._archives.options(self._java, plan.part.value, self._class_paths[plan.jars]),
            *(argument.format_map(values) for argument in (*plan.java, *plan.arguments)),
        ]

    def _environment(self, plan: PartPlan) -> dict[str, str]:
        # In the environment, not on the command line: 150 paths would drown what people look for.
        # The instance's own folder comes last: a class archive holds for how a path begins.
        paths = [*self._class_paths[plan.jars], self._places.conf]
        class_path = os.pathsep.join(str(path) for path in paths)
        # Spark's Python workers must be of the Python that has what steps need.
        return {"PYSPARK_PYTHON": sys.executable, **os.environ, "CLASSPATH": class_path}


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
