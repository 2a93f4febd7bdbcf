"""Definitions of dataflows: submits and updates, and waiting until they are in effect."""

from __future__ import annotations

import asyncio
import time

import httpx
import msgspec
from msgspec import UnsetType

from headgate.agent.api.access import Caller, Peers
from headgate.agent.api.messages import SubmitRequest, UpdateRequest, UpdateView
from headgate.agent.dataflow.views import Phase
from headgate.agent.errors import Refused, Unreachable
from headgate.agent.ownership.dataflow_thread import DataflowThread
from headgate.agent.ownership.flow_rows import NOT_RUN, FlowRow
from headgate.agent.ownership.service import Agent
from headgate.agent.ownership.submissions import tables_of
from headgate.flows import Change, ChangeKind, Dataflow, changes, parse_dataflow

_NO_OBSERVER = 10.0  # seconds a submit waits for a first observer before it says that there is none
_WATCHING = (Phase.RUNNING, Phase.PAUSED)
_LOOK = 0.02  # seconds until the first look whether a dataflow has started
_LONGEST_LOOK = 0.5  # seconds between two looks at one that starts slowly


class Definitions:
    """Has an agent take definitions, and waits until they run.

    Args:
        agent: this one.
        peers: the other agents.
    """

    def __init__(self, agent: Agent, peers: Peers) -> None:
        self._agent = agent
        self._peers = peers

    async def submit(self, here: DataflowThread | None, body: SubmitRequest) -> None:
        """Save a submitted dataflow, and go on with it where it runs here; not if it is the same.

        Raises:
            DataflowErrors: the file is not in order.
            Refused: it may not run here.
        """
        agent = self._agent
        dataflow = await agent.blocking(
            lambda: agent.parse(body.source, body.file, body.profile, body.name)
        )
        if here is not None:
            old = await agent.running(here)
            same = (old.source, old.directory, old.profile, old.shadow) == (
                body.source,
                body.directory,
                dataflow.profile,
                body.shadow,
            )
            if same and await agent.blocking(lambda: agent.stands(old)):
                return
        definition = await agent.blocking(
            lambda: agent.define(dataflow, body.directory, shadow=body.shadow)
        )
        if here is not None:
            await agent.change(here, definition, dataflow)

    async def update(self, flow: DataflowThread, body: UpdateRequest) -> UpdateView:
        """Change a dataflow that runs here and return what has changed.

        Raises:
            DataflowErrors: the file is not in order.
            Refused: it may not run here.
        """
        agent = self._agent
        old = await agent.running(flow)
        profile = old.profile if isinstance(body.profile, UnsetType) else body.profile
        source = old.source if body.source is None else body.source

        def parse() -> tuple[Dataflow, Dataflow]:
            before = parse_dataflow(old.source, flow.name, old.profile, flow.name)
            after = agent.parse(source, body.file, profile, flow.name)
            if not body.allow_missing_tables:
                # A table that is watched already may have been dropped.
                agent.check_tables(after, tables_of(before))
            return before, after

        before, after = await agent.blocking(parse)
        directory = old.directory if body.directory is None else body.directory
        shadow = old.shadow if body.shadow is None else body.shadow
        found = changes(before, after)
        if shadow != old.shadow:
            words = "it decides and launches nothing" if shadow else "it launches from now"
            found = (*found, Change(ChangeKind.CHANGED, "shadow mode", words))
        same = (old.source, old.directory, old.profile, old.shadow) == (
            source,
            directory,
            profile,
            shadow,
        )
        if not (same and await agent.blocking(lambda: agent.stands(old))):
            definition = await agent.blocking(lambda: agent.define(after, directory, shadow=shadow))
            await agent.change(flow, definition, after)
        if body.reload:
            await agent.call(flow, lambda runtime, _: runtime.commands.reload())
        return UpdateView(await agent.row(flow.name), found)

    async def started(self, name: str) -> FlowRow:
        """Wait until the dataflow's watches are in effect, wherever it runs, and return its row.

        Raises:
            Refused: it cannot run.
            Unreachable: it does not run yet.
        """
        agent = self._agent
        started = time.monotonic()
        looks = _Looks()
        while True:
            row = await agent.row(name)
            waited = time.monotonic() - started
            if row.state in {Phase.RUNNING, Phase.PAUSED, "elsewhere"}:
                return row
            if row.state in NOT_RUN:
                raise Refused(f"dataflow {name} cannot run: {row.words}")
            nobody = not agent.observers.live(time.time())
            limit = agent.configuration.submit_seconds
            if waited > limit or (nobody and waited > min(limit, _NO_OBSERVER)):
                raise Unreachable(
                    f"dataflow {name} is saved but does not run yet: {row.words or row.state}; it "
                    "starts by itself when that changes"
                )
            await looks.pause()

    async def started_elsewhere(self, row: FlowRow, caller: Caller) -> None:
        """Wait until the agent that has taken the dataflow has its watches in effect.

        Raises:
            Unreachable: it does not run yet.
        """
        deadline = time.monotonic() + self._agent.configuration.submit_seconds
        looks = _Looks()
        while True:
            try:
                answer = await self._peers.ask(caller, row.address, "GET", f"/v1/flows/{row.name}")
                view = msgspec.json.decode(answer.content)
                if answer.is_success and view["status"]["phase"] in _WATCHING:
                    return
                reason = f"agent {row.owner} has not started it"
            except httpx.HTTPError as error:
                reason = f"agent {row.owner} does not answer at {row.address}: {error}"
            if time.monotonic() > deadline:
                raise Unreachable(
                    f"dataflow {row.name} is saved but does not run yet: {reason}; it starts by "
                    "itself when that changes"
                )
            await looks.pause()


class _Looks:
    """Pauses between looks at something that takes a moment, or a minute."""

    def __init__(self) -> None:
        self._pause = _LOOK

    async def pause(self) -> None:
        await asyncio.sleep(self._pause)
        self._pause = min(_LONGEST_LOOK, self._pause * 1.5)
