"""Definitions of dataflows: submits and updates, and waiting until they are in effect."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx

from headgate.agent.api.access import Caller, Peers
from headgate.agent.api.definition_content import (
    DefinitionContent,
    content_of,
    listed_changes,
    submitted,
    updated,
)
from headgate.agent.api.messages import SubmitRequest, UpdateRequest, UpdateView
from headgate.agent.api.starting import (
    has_started,
    not_started_by,
    pauses,
    require_patience,
    silent_starter,
    watches,
)
from headgate.agent.errors import Refused
from headgate.agent.ownership.flow_rows import FlowRow
from headgate.agent.ownership.hosted_dataflow import HostedDataflow
from headgate.agent.ownership.service import Agent
from headgate.agent.ownership.submissions import tables_of
from headgate.agent.state.sealed import Definition
from headgate.flows import (
    Change,
    Dataflow,
    RunIdentity,
    changes,
    edited_code,
    parse_dataflow,
    rebuilds_between,
)
from headgate.spark import identity_on_disk


class Definitions:
    """Has an agent take definitions, and waits until they run.

    Args:
        agent: this one.
        peers: the other agents.
    """

    def __init__(self, agent: Agent, peers: Peers) -> None:
        self._agent = agent
        self._peers = peers

    async def submit(
        self, here: HostedDataflow | None, body: SubmitRequest, dataflow: Dataflow
    ) -> None:
        """Save a submitted dataflow, and go on with it where it runs here; not if it is the same.

        Raises:
            Refused: it may not run here.
        """
        new = submitted(body, dataflow.profile)
        if here is None:
            await self._define(new, dataflow)
        else:
            running = await self._agent.running(here)
            await self._agent.blocking(lambda: _check_edit(running, dataflow))
            await self._replace(here, running, new, dataflow)

    async def update(self, flow: HostedDataflow, body: UpdateRequest) -> UpdateView:
        """Change a dataflow that runs here and return what has changed.

        Raises:
            DataflowErrors: the file is not in order.
            Refused: it may not run here.
        """
        agent = self._agent
        running = await agent.running(flow)
        old = content_of(running)
        new = updated(old, body)

        def parse() -> tuple[Dataflow, Dataflow]:
            before = parse_dataflow(old.source, flow.name, old.profile, flow.name)
            after = agent.parse(new.source, body.file, new.profile, flow.name)
            if not body.allow_missing_tables:
                # A table that is watched already may have been dropped.
                agent.check_tables(after, tables_of(before))
            _check_rebuilds(before, after)
            return before, after

        before, after = await agent.blocking(parse)
        await self._replace(flow, running, new, after)
        if body.reload:
            await agent.call(flow, lambda runtime, _: runtime.commands.reload())
        ran = await agent.call(flow, lambda runtime, _: runtime.history.identities())
        edited = await agent.blocking(lambda: _edited(after, new, ran, reloaded=body.reload))
        found = listed_changes(old, new, (*changes(before, after), *edited))
        return UpdateView(await agent.row(flow.name), found)

    async def _replace(
        self, flow: HostedDataflow, old: Definition, new: DefinitionContent, dataflow: Dataflow
    ) -> None:
        """Go on with another definition, unless the one that runs says the same and is saved."""
        agent = self._agent
        if new == content_of(old) and await agent.blocking(lambda: agent.stands(old)):
            return
        await agent.change(flow, await self._define(new, dataflow), dataflow)

    async def _define(self, new: DefinitionContent, dataflow: Dataflow) -> Definition:
        agent = self._agent
        return await agent.blocking(
            lambda: agent.define(dataflow, new.directory, shadow=new.shadow)
        )

    async def started(self, name: str) -> FlowRow:
        """Wait until the dataflow's watches are in effect, wherever it runs, and return its row.

        Raises:
            Refused: it cannot run.
            Unreachable: it does not run yet.
        """
        agent = self._agent
        limit = agent.configuration.submit_seconds
        began = time.monotonic()
        between = pauses()
        while True:
            row = await agent.row(name)
            observed = bool(agent.observers.live(time.time()))
            if has_started(row, time.monotonic() - began, limit, observed=observed):
                return row
            await asyncio.sleep(next(between))

    async def started_elsewhere(self, row: FlowRow, caller: Caller) -> None:
        """Wait until the agent that has taken the dataflow has its watches in effect.

        Raises:
            Unreachable: it does not run yet.
        """
        limit = self._agent.configuration.submit_seconds
        began = time.monotonic()
        between = pauses()
        while True:
            try:
                answer = await self._peers.ask(caller, row.address, "GET", f"/v1/flows/{row.name}")
                if watches(answer.content, found=answer.is_success):
                    return
                reason = not_started_by(row)
            except httpx.HTTPError as error:
                reason = silent_starter(row, error)
            require_patience(row, reason, time.monotonic() - began, limit)
            await asyncio.sleep(next(between))


def _edited(
    dataflow: Dataflow,
    definition: DefinitionContent,
    ran: dict[str, RunIdentity],
    *,
    reloaded: bool,
) -> tuple[Change, ...]:
    """Return the actions whose code or files are others than those that their newest run had."""
    base = Path(definition.directory)
    now = {
        name: identity_on_disk(dataflow, name, base)
        for name in ran
        if dataflow.launcher_of(name) is not None
    }
    return tuple(edited_code(dataflow, ran, now, reloaded=reloaded))


def _check_edit(running: Definition, dataflow: Dataflow) -> None:
    """Raise where the dataflow that runs cannot go on as another.

    Raises:
        Refused: so it is; says what helps.
    """
    name = running.name
    _check_rebuilds(parse_dataflow(running.source, name, running.profile, name), dataflow)


def _check_rebuilds(before: Dataflow, after: Dataflow) -> None:
    refused = rebuilds_between(before, after).refused
    if refused:
        raise Refused(f"dataflow {after.name} was not changed: {refused}")
