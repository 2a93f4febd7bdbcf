"""The agent's HTTP API. Any agent answers for any dataflow: what runs elsewhere is asked there.

No handler holds a thread while it waits for anything but HBase, so that probes are always answered.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from typing import Any

import httpx
from msgspec import Struct
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.agent.api.access import (
    CALLER,
    FORWARDED,
    SAFE_METHODS,
    Note,
    Peers,
    Role,
    note,
)
from headgate.agent.api.answers import ERROR_ANSWERS, JSON, json_answer
from headgate.agent.api.definitions import Definitions
from headgate.agent.api.forwarding import (
    Removal,
    is_owned_elsewhere,
    owner_address,
    removal,
    silent_owner,
)
from headgate.agent.api.graph import FlowGraph, graph_of
from headgate.agent.api.health import code_of, health, liveness
from headgate.agent.api.logs import LogView, read_log
from headgate.agent.api.messages import (
    ActionRequest,
    EndedWave,
    FlowView,
    KeptPairs,
    KnowledgeRequest,
    RebuildRequest,
    ReleasedActions,
    RetriedActions,
    SignRequest,
    SubmitRequest,
    TrainRequest,
    TrimRequest,
    UpdateRequest,
    WaveRequest,
)
from headgate.agent.api.requests import (
    Knowledge,
    body_of,
    caller_of,
    knowledge_of,
    log_request,
    required_action,
    seconds_of,
)
from headgate.agent.dataflow.runtime import Runtime
from headgate.agent.dataflow.views import FlowStatus, WaveStatus
from headgate.agent.errors import Refused, UnknownDataflow
from headgate.agent.ownership.flow_rows import ELSEWHERE, FlowRow
from headgate.agent.ownership.hosted_dataflow import HostedDataflow
from headgate.agent.ownership.service import Agent
from headgate.agent.state.run_records import RunRecord
from headgate.agent.training.knowledge import Trimmed
from headgate.agent.training.parquet import PARQUET, write_pairs
from headgate.agent.training.task import unpack

_FORWARD = 90.0  # seconds another agent may take to answer, beyond any wait that was asked for
_CLIENT_LEFT = 499  # as proxies log it; nobody is there to read it
_LOOK = 1.0  # seconds between two looks whether a dataflow runs whose wave is waited for


class _Api:
    def __init__(self, agent: Agent, peers: Peers) -> None:
        self._agent = agent
        self._peers = peers
        self._definitions = Definitions(agent, peers)

    # -- dataflows -------------------------------------------------------------------------------

    async def submit(self, request: Request) -> Response:
        agent = self._agent
        body = await body_of(request, SubmitRequest)
        dataflow = await agent.blocking(
            lambda: agent.parse(body.source, body.file, body.profile, body.name)
        )
        name = dataflow.name
        note(request.scope, Note(name))
        if not body.allow_missing_tables:
            await agent.blocking(lambda: agent.check_tables(dataflow))
        here = agent.hosted(name)
        if here is None:
            try:
                row = await agent.row(name)
            except UnknownDataflow:
                row = None
            if row is not None and is_owned_elsewhere(row):
                return await self._forward(request, row)
        await self._definitions.submit(here, body, dataflow)
        row = await self._definitions.started(name)
        if row.state == ELSEWHERE:
            await self._definitions.started_elsewhere(row, caller_of(request))
        return json_answer(row)

    async def update(self, request: Request) -> Response:
        body = await body_of(request, UpdateRequest)
        return await self._owner(request, lambda flow: self._definitions.update(flow, body))

    async def flows(self, _: Request) -> Response:
        return json_answer(await self._agent.rows())

    async def flow(self, request: Request) -> Response:
        def view(runtime: Runtime, now: float) -> tuple[FlowStatus, tuple[RunRecord, ...]]:
            return runtime.reporting.status(now), tuple(runtime.history.records)

        async def answer(flow: HostedDataflow) -> FlowView:
            status, runs = await self._agent.call(flow, view)
            return FlowView(await self._agent.row(flow.name), status, runs)

        return await self._owner(request, answer)

    async def remove(self, request: Request) -> Response:
        name, knowledge = request.path_params["name"], knowledge_of(request)

        async def remove(flow: HostedDataflow) -> None:
            await self._agent.remove(flow)
            await self._forget(name, knowledge)

        if removal(await self._agent.row(name)) is Removal.DISCARD:
            await self._agent.blocking(lambda: self._agent.discard(name))
            await self._forget(name, knowledge)
            return json_answer({})
        return await self._owner(request, remove)

    async def _forget(self, name: str, knowledge: Knowledge) -> None:
        if knowledge == "forget":
            await self._agent.blocking(lambda: self._agent.knowledge.forget(name))

    async def unsigned(self, request: Request) -> Response:
        name = request.path_params["name"]
        return json_answer(await self._agent.blocking(lambda: self._agent.unsigned(name)))

    async def sign(self, request: Request) -> Response:
        body = await body_of(request, SignRequest)
        name = request.path_params["name"]
        await self._agent.blocking(lambda: self._agent.sign(name, body.value, body.seal))
        return json_answer(await self._agent.row(name))

    async def pause(self, request: Request) -> Response:
        return await self._called(request, lambda runtime, now: runtime.commands.pause(now))

    async def resume(self, request: Request) -> Response:
        return await self._called(request, lambda runtime, now: runtime.commands.resume(now))

    async def run(self, request: Request) -> Response:
        action = required_action(await body_of(request, ActionRequest), "run")
        note(request.scope, Note(request.path_params["name"], action))
        return await self._called(request, lambda runtime, now: runtime.commands.run(action, now))

    async def cancel(self, request: Request) -> Response:
        action = required_action(await body_of(request, ActionRequest), "cancel")
        note(request.scope, Note(request.path_params["name"], action))
        return await self._called(request, lambda runtime, _: runtime.commands.cancel(action))

    async def logs(self, request: Request) -> Response:
        asked = log_request(request.query_params)

        async def answer(flow: HostedDataflow) -> LogView:
            run, path = await self._agent.call(
                flow, lambda runtime, _: runtime.commands.log_of(asked.of, asked.attempt)
            )
            return await self._agent.blocking(lambda: read_log(run, path, asked.lines))

        return await self._owner(request, answer)

    async def release(self, request: Request) -> Response:
        body = await body_of(request, ActionRequest)
        note(request.scope, Note(request.path_params["name"], body.action or ""))
        return await self._called(
            request,
            lambda runtime, now: ReleasedActions(runtime.commands.release(body.action, now)),
        )

    async def retry(self, request: Request) -> Response:
        body = await body_of(request, ActionRequest)
        note(request.scope, Note(request.path_params["name"], body.action or ""))
        return await self._called(
            request, lambda runtime, now: RetriedActions(runtime.commands.retry(body.action, now))
        )

    async def stages(self, request: Request) -> Response:
        return await self._called(request, lambda runtime, now: runtime.stages.listed(now))

    async def rebuild(self, request: Request) -> Response:
        body = await body_of(request, RebuildRequest)
        note(request.scope, Note(request.path_params["name"], body.action))
        return await self._called(
            request,
            lambda runtime, now: runtime.stages.rebuild(
                body.action, with_sources=body.with_sources, now=now
            ),
        )

    async def compact(self, request: Request) -> Response:
        action = required_action(await body_of(request, ActionRequest), "compact")
        note(request.scope, Note(request.path_params["name"], action))
        return await self._called(request, lambda runtime, now: runtime.stages.compact(action, now))

    async def explain(self, request: Request) -> Response:
        return await self._called(request, lambda runtime, now: runtime.reporting.explain(now))

    async def graph(self, request: Request) -> Response:
        def look(runtime: Runtime, now: float) -> FlowGraph:
            reporting = runtime.reporting
            return graph_of(runtime.state.dataflow, reporting.status(now), reporting.explain(now))

        return await self._called(request, look)

    async def runs(self, request: Request) -> Response:
        return await self._called(request, lambda runtime, _: tuple(runtime.history.records))

    async def decisions(self, request: Request) -> Response:
        return await self._called(request, lambda runtime, _: tuple(runtime.decisions.newest))

    # -- models ----------------------------------------------------------------------------------

    async def train(self, request: Request) -> Response:
        body = await body_of(request, TrainRequest)
        return await self._called(
            request,
            lambda runtime, _: runtime.trainings.train(
                body.outputs, body.waves, runtime.waves.settled, body.source
            ),
        )

    async def training(self, request: Request) -> Response:
        asked = request.query_params.get("number")
        if asked is not None and not asked.isdecimal():
            raise HTTPException(400, f"number {asked!r} is none; a POST of this path answers it")
        number = None if asked is None else int(asked)
        return await self._called(request, lambda runtime, _: runtime.trainings.training(number))

    async def knowledge(self, request: Request) -> Response:
        name = request.path_params["name"]
        await self._agent.row(name)
        file = BytesIO()
        await self._agent.blocking(lambda: write_pairs(file, self._agent.knowledge.pairs(name)))
        return Response(file.getvalue(), media_type=PARQUET)

    async def keep_knowledge(self, request: Request) -> Response:
        name = request.path_params["name"]
        await self._agent.row(name)
        try:
            pairs = [unpack(one) for one in (await body_of(request, KnowledgeRequest)).pairs]
        except ValueError as error:
            raise HTTPException(400, f"the body has pairs that are none: {error}") from error
        own = [replace(one, key=replace(one.key, dataflow=name)) for one in pairs]
        return json_answer(
            KeptPairs(await self._agent.blocking(lambda: self._agent.knowledge.keep_pairs(own)))
        )

    async def trim_knowledge(self, request: Request) -> Response:
        waves = (await body_of(request, TrimRequest)).waves

        async def trim(flow: HostedDataflow) -> Trimmed:
            used = await self._agent.call(flow, lambda runtime, _: runtime.trainings.models())
            return await self._agent.blocking(
                lambda: self._agent.knowledge.trim(flow.name, waves, used)
            )

        return await self._owner(request, trim)

    # -- waves -----------------------------------------------------------------------------------

    async def mark(self, request: Request) -> Response:
        body = await body_of(request, WaveRequest)

        def mark(runtime: Runtime, now: float) -> EndedWave:
            number = runtime.waves.mark(body.actions, now, body.time)
            return EndedWave(number, runtime.waves.times[number])

        return await self._called(request, mark)

    async def wave(self, request: Request) -> Response:
        number = int(request.path_params["wave"])
        seconds = seconds_of(request)
        name = request.path_params["name"]
        flow = self._agent.hosted(name)
        if flow is None:
            return await self._forward(request, await self._agent.row(name))
        if seconds:
            await self._wait_settled(flow, number, seconds)
        return await self._called(request, lambda runtime, _: runtime.waves.status(number))

    async def _wait_settled(self, flow: HostedDataflow, number: int, seconds: float) -> None:
        settled: Future[WaveStatus] = Future()
        # Not to be cancelled: the dataflow's turn may set its result at the same moment.
        settled.set_running_or_notify_cancel()

        def on_settled(status: WaveStatus) -> None:
            if not settled.done():
                settled.set_result(status)

        def ask(runtime: Runtime, _: float) -> None:
            runtime.waves.when_settled(number, on_settled)

        await self._agent.call(flow, ask)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not settled.done():
                    if not flow.alive:
                        raise Refused(f"dataflow {flow.name} has been stopped here")
                    await asyncio.wait([asyncio.wrap_future(settled)], timeout=_LOOK)

    # -- the agent itself ------------------------------------------------------------------------

    async def livez(self, _: Request) -> Response:
        probe = liveness(self._agent.stuck())
        return json_answer(probe, code_of(probe))

    async def healthz(self, _: Request) -> Response:
        agent = self._agent
        observers = agent.observers.live(time.time())
        probe = health(agent.trouble(), agent.stuck(), agent.hosted_count(), observers)
        return json_answer(probe, code_of(probe))

    async def metrics(self, _: Request) -> Response:
        await self._agent.refresh_metrics()
        return Response(self._agent.metrics.text(), media_type="text/plain; version=0.0.4")

    # -- whose it is -----------------------------------------------------------------------------

    async def _called(self, request: Request, work: Callable[[Runtime, float], Any]) -> Response:
        return await self._owner(request, lambda flow: self._agent.call(flow, work))

    async def _owner(
        self, request: Request, work: Callable[[HostedDataflow], Awaitable[Any]]
    ) -> Response:
        name = request.path_params["name"]
        flow = self._agent.hosted(name)
        if flow is None:
            return await self._forward(request, await self._agent.row(name))
        result = await work(flow)
        return json_answer({} if result is None else result)

    async def _forward(self, request: Request, row: FlowRow) -> Response:
        address = owner_address(
            row,
            forwarded=FORWARDED in request.headers,
            lease_seconds=self._agent.configuration.lease_seconds,
        )
        try:
            answer = await self._peers.ask(
                caller_of(request),
                address,
                request.method,
                request.scope["raw_path"].decode("ascii"),
                request.url.query,
                await request.body(),
                seconds=_FORWARD + seconds_of(request),
            )
        except httpx.HTTPError as error:
            raise silent_owner(row, error) from error
        return Response(answer.content, answer.status_code, media_type=JSON)


class ApiRoute(Struct, frozen=True):
    """What may be asked, and by whom at least."""

    method: str
    path: str
    role: Role
    handler: Callable[[_Api, Request], Awaitable[Response]]


_FLOW = "/v1/flows/{name}"
ROUTES = (
    ApiRoute("GET", "/v1/flows", Role.READ, _Api.flows),
    ApiRoute("GET", _FLOW, Role.READ, _Api.flow),
    ApiRoute("GET", f"{_FLOW}/logs", Role.READ, _Api.logs),
    ApiRoute("GET", f"{_FLOW}/explain", Role.READ, _Api.explain),
    ApiRoute("GET", f"{_FLOW}/graph", Role.READ, _Api.graph),
    ApiRoute("GET", f"{_FLOW}/stages", Role.READ, _Api.stages),
    ApiRoute("POST", f"{_FLOW}/stages/rebuild", Role.OPERATE, _Api.rebuild),
    ApiRoute("POST", f"{_FLOW}/stages/compact", Role.OPERATE, _Api.compact),
    ApiRoute("GET", f"{_FLOW}/runs", Role.READ, _Api.runs),
    ApiRoute("GET", f"{_FLOW}/decisions", Role.READ, _Api.decisions),
    ApiRoute("GET", f"{_FLOW}/waves/{{wave:int}}", Role.READ, _Api.wave),
    ApiRoute("GET", f"{_FLOW}/train", Role.READ, _Api.training),
    ApiRoute("GET", f"{_FLOW}/knowledge", Role.READ, _Api.knowledge),
    ApiRoute("POST", f"{_FLOW}/train", Role.OPERATE, _Api.train),
    ApiRoute("POST", f"{_FLOW}/knowledge", Role.DEFINE, _Api.keep_knowledge),
    ApiRoute("POST", f"{_FLOW}/knowledge/trim", Role.DEFINE, _Api.trim_knowledge),
    ApiRoute("POST", f"{_FLOW}/pause", Role.OPERATE, _Api.pause),
    ApiRoute("POST", f"{_FLOW}/resume", Role.OPERATE, _Api.resume),
    ApiRoute("POST", f"{_FLOW}/run", Role.OPERATE, _Api.run),
    ApiRoute("POST", f"{_FLOW}/cancel", Role.OPERATE, _Api.cancel),
    ApiRoute("POST", f"{_FLOW}/retry", Role.OPERATE, _Api.retry),
    ApiRoute("POST", f"{_FLOW}/release", Role.OPERATE, _Api.release),
    ApiRoute("POST", f"{_FLOW}/waves", Role.OPERATE, _Api.mark),
    ApiRoute("POST", "/v1/flows", Role.DEFINE, _Api.submit),
    ApiRoute("POST", f"{_FLOW}/update", Role.DEFINE, _Api.update),
    ApiRoute("GET", f"{_FLOW}/sign", Role.DEFINE, _Api.unsigned),
    ApiRoute("POST", f"{_FLOW}/sign", Role.DEFINE, _Api.sign),
    ApiRoute("DELETE", _FLOW, Role.DEFINE, _Api.remove),
)
"""All of the API; a route without a role cannot be written."""
PROBES = (
    ApiRoute("GET", "/livez", Role.READ, _Api.livez),
    ApiRoute("GET", "/readyz", Role.READ, _Api.healthz),
    ApiRoute("GET", "/healthz", Role.READ, _Api.healthz),
    ApiRoute("GET", "/metrics", Role.READ, _Api.metrics),
)
"""What is for everybody, unless the configuration says otherwise."""


def _guarded(api: _Api, route: ApiRoute) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        caller = request.scope.get("state", {}).get(CALLER)
        if "name" in request.path_params:
            note(request.scope, Note(request.path_params["name"]))
        if caller is None and route not in PROBES:
            raise HTTPException(401, "nobody asked: the guard is not before the API")
        if caller is not None and not caller.role.covers(route.role):
            raise HTTPException(
                403,
                f"this wants the role {route.role.value}, and {caller.name} has "
                f"{caller.role.value}; ask with a token that has it",
            )
        if request.method not in SAFE_METHODS:
            # A change goes on to its end, whoever has left.
            return await route.handler(api, request)
        return await _while_wanted(request, route.handler(api, request))

    return serve


async def _while_wanted(request: Request, answering: Awaitable[Response]) -> Response:
    """Return an answer, which is not worked on any more once the client has left."""
    answer = asyncio.ensure_future(answering)
    left = asyncio.ensure_future(_has_left(request))
    try:
        await asyncio.wait({answer, left}, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
    finally:
        for task in (answer, left):
            task.cancel()
    await asyncio.wait({answer})
    return Response(status_code=_CLIENT_LEFT)


async def _has_left(request: Request) -> None:
    """Return when the client has closed its connection."""
    await request.body()  # a handler finds it in the request
    while (await request.receive())["type"] != "http.disconnect":
        pass


def make_application(agent: Agent, peers: Peers) -> Starlette:
    """Return the API of an agent, to be served behind a guard."""
    api = _Api(agent, peers)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await peers.close()

    return Starlette(
        routes=[
            Route(route.path, _guarded(api, route), methods=[route.method])
            for route in (*ROUTES, *PROBES)
        ],
        exception_handlers=ERROR_ANSWERS,
        lifespan=lifespan,
    )
