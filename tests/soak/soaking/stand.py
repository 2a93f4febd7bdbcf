"""A stack of its own, two observers, three agents, and the tables of the dataflows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import happybase
import httpx
import msgspec
from free_ports import free_port

from headgate.cli.agent_client import connect
from headgate.local import Lifetime, LocalStack, Part
from headgate.observer import JournalSettings, KafkaSettings, Listener, ObserverConfig
from headgate.observer.lifecycle.process import as_toml
from soaking import dataflows
from soaking.clocks import Clock, Faketime
from soaking.happenings import AGENTS, OBSERVERS
from soaking.services import Service, wait_until

STATE_TABLE = "headgate"
PATIENCE = 300.0  # seconds; a machine that is busy may take long for each start
_ASK_SECONDS = 70.0
_PARTITIONS = 4


class Trouble(Exception):
    """The piece cannot begin, or come to its end."""


class Stand:
    """All that a piece disturbs.

    Args:
        home: a folder for everything.
        faketime: what moves clocks, or None where they are left alone.
    """

    def __init__(self, home: Path, faketime: Faketime | None) -> None:
        self.home = home
        self.folder = home / "files"
        self.here = Path(__file__).parent.parent
        self.folder.mkdir(parents=True, exist_ok=True)
        # Tokens and keys of these agents are none of the user's.
        os.environ["XDG_STATE_HOME"] = str(home / "state")
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
        self.stack = LocalStack(home / "stack", "soak", lifetime=Lifetime.WITH_CALLER)
        self._faketime = faketime
        self.clocks: dict[str, Clock] = {}
        self.observers: dict[str, Service] = {}
        self.agents: dict[str, Service] = {}
        self.thrift1: list[tuple[str, int]] = []
        """The observers' listeners."""
        self.thrift2: list[tuple[str, int]] = []

    @property
    def services(self) -> Mapping[str, Service]:
        """Agents and observers by name."""
        return {**self.observers, **self.agents}

    def up(self) -> None:
        """Start everything and submit the dataflows.

        Raises:
            Trouble: something did not start.
        """
        self.addresses = self.stack.up()
        self._create_tables()
        dataflows.write_steps(self.folder)
        for name in OBSERVERS:
            self.observers[name] = self._observer(name)
        for number, name in enumerate(AGENTS):
            self.agents[name] = self._agent(name, self.thrift2[number % len(self.thrift2)])
        for group in (self.observers, self.agents):
            for service in group.values():
                service.start()
            for service in group.values():
                if not wait_until(service.well, PATIENCE):
                    raise Trouble(f"{service.name} does not start; its log is {service.log}")
        for flow in dataflows.ALL:
            source = dataflows.text(flow, flow.limit, self.folder, self.here)
            body = {"source": source, "file": f"{flow.name}.yaml", "directory": str(self.folder)}
            self.ask("POST", "/v1/flows", body)

    def _create_tables(self) -> None:
        with closing(self.happybase()) as connection:
            for flow in dataflows.ALL:
                for table in (flow.input, flow.output, flow.counts):
                    connection.create_table(table, {"f": {"max_versions": 3}})

    def happybase(self) -> happybase.Connection:
        """Return a connection to Thrift1 itself, past the observers."""
        return happybase.Connection(*self.addresses.thrift1, timeout=60_000)

    def _clock(self, name: str) -> Clock:
        self.clocks[name] = Clock(self.folder / f"{name}.clock", self._faketime)
        return self.clocks[name]

    def _observer(self, name: str) -> Service:
        texts = self.addresses.as_text()
        thrift1, thrift2, admin = (free_port() for _ in range(3))
        self.thrift1.append(("127.0.0.1", thrift1))
        self.thrift2.append(("127.0.0.1", thrift2))
        config = ObserverConfig(
            name=name,
            thrift1=Listener(f"127.0.0.1:{thrift1}", texts["thrift1"]),
            thrift2=Listener(f"127.0.0.1:{thrift2}", texts["thrift2"]),
            kafka=KafkaSettings(texts["kafka"], partitions=_PARTITIONS),
            # One of them has processes that it looks after.
            workers=2 if name == OBSERVERS[0] else 1,
            journal=JournalSettings(str(self.folder / f"journal-{name}")),
            admin=f"127.0.0.1:{admin}",
            lease_seconds=5.0,
        )
        path = self.folder / f"{name}.toml"
        path.write_text(as_toml(config))
        arguments = ("--config", str(path))
        variables = self._clock(name).environment()
        return Service(
            name, "headgate.observer", arguments, variables, self.folder, f"127.0.0.1:{admin}"
        )

    def _agent(self, name: str, thrift2: tuple[str, int]) -> Service:
        api = free_port()
        path = self.folder / f"{name}.toml"
        path.write_text(f"""
name = "{name}"
api = "127.0.0.1:{api}"
lease_seconds = 8.0
history = 50
[hbase]
thrift2 = "{thrift2[0]}:{thrift2[1]}"
state_table = "{STATE_TABLE}"
[kafka]
bootstrap = "{self.addresses.as_text()["kafka"]}"
partitions = {_PARTITIONS}
[workers]
directory = "{self.folder / "workers" / name}"
""")
        arguments = ("agent", "--config", str(path))
        variables = self._clock(name).environment()
        return Service(name, "headgate.cli", arguments, variables, self.folder, f"127.0.0.1:{api}")

    def ask(self, method: str, path: str, body: Any = None, seconds: float = PATIENCE) -> Any:
        """Ask any agent, again and again until one has an answer, and return that.

        Raises:
            Trouble: none has answered in time; the words are those of the last.
        """
        last = "no agent runs"
        found: list[Any] = []

        def asked() -> bool:
            nonlocal last
            for service in self.agents.values():
                with suppress(httpx.HTTPError), connect(service.probe, _ASK_SECONDS) as client:
                    answer = client.request(method, path, json=body)
                    if answer.status_code == httpx.codes.OK:
                        found.append(answer.json())
                        return True
                    last = f"{service.name}: {answer.status_code} {answer.text[:500]}"
                    if answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
                        raise Trouble(f"{method} {path}: {last}")
            return False

        if not wait_until(asked, seconds):
            raise Trouble(f"{method} {path}: {last}")
        return found[0]

    def rows(self, table: str) -> dataflows.Rows:
        """Read a table past the observers."""
        with closing(self.happybase()) as connection:
            return dataflows.as_rows(connection.table(table).scan(columns=[b"f:v"]))

    def state_size(self) -> tuple[int, int]:
        """Return how many rows the agents' table has, and how many bytes their cells."""
        with closing(self.happybase()) as connection:
            rows = list(connection.table(STATE_TABLE).scan())
        size = sum(len(row) + sum(len(c) + len(v) for c, v in cells.items()) for row, cells in rows)
        return len(rows), size

    def part_pids(self, part: str) -> list[int]:
        """Return the processes of a part of the stack."""
        found = [one.process for one in self.stack.status().parts if one.part is Part(part)]
        return [one.pid for one in found if one is not None]

    def down(self) -> dict[str, int | None]:
        """End everything in order; return the statuses of those that ran."""
        ended = {name: one.end() for name, one in self.agents.items() if one.running}
        ended |= {name: one.end() for name, one in self.observers.items() if one.running}
        self.stack.down()
        return ended


def as_json(value: object) -> str:
    """Return one line of JSON."""
    return msgspec.json.encode(value).decode()
