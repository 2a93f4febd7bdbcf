"""The agent as a process: from its configuration to the end that a signal asks for."""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import structlog
import uvicorn

from headgate.agent.api.access import (
    Crowd,
    CrowdLimits,
    Guard,
    GuardSettings,
    IdentifiedConnection,
    OwnTokens,
    Peers,
    RenewedContext,
    TokenFile,
    follow_files,
)
from headgate.agent.api.routes import make_application
from headgate.agent.configuration import AgentConfiguration
from headgate.agent.ending import Ending
from headgate.agent.errors import Unreachable
from headgate.agent.ownership.entrance import Folder, with_folder
from headgate.agent.ownership.service import Agent
from headgate.agent.supervision import ThreadKind
from headgate.settings import (
    ConfigurationError,
    Credentials,
    canonical_host,
    client_side,
    parse_address,
    upstream_side,
    write_address,
)

log = structlog.get_logger("headgate.agent")

_LEAST_CONNECTIONS = 50  # to the API, however few files may be open
_BACKLOG = 128  # connections waiting to be accepted
_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 -- no names, unlike the others
_LAST_ANSWERS = 2  # seconds for requests under way when the API closes


def serve(configuration: AgentConfiguration, ready: Callable[[str], None]) -> None:
    """Run an agent until SIGTERM or SIGINT.

    Args:
        configuration: of this agent.
        ready: called with the API's address when it answers.

    Raises:
        ConfigurationError: the API's address, the workers' directory or the agent's name is taken,
            no observer is where HBase is asked for, or tokens or certificates cannot be used.
        Unreachable: HBase or Kafka did not answer in the configured time, or the API has ended.
    """
    raise_open_files()
    guarding = Guarding(configuration)
    listener = _listen(configuration.api)
    address = _with_scheme(configuration, write_address(*listener.getsockname()[:2]))
    advertised = _with_scheme(configuration, configuration.advertise or address)
    folder = Folder(configuration.workers)
    agent = Agent(with_folder(configuration, folder.path), advertised)
    agent.start()
    server = uvicorn.Server(guarding.configure(agent, advertised))
    stopping = threading.Event()
    with Ending() as ending:

        def ended() -> None:
            stopping.set()
            ending.begin()

        # Not on the main thread, where the server would take the signals.
        thread = agent.supervision.thread(
            ThreadKind.API, "api", lambda: answer_requests(server, listener, ended), stopping
        )
        thread.start()
        agent.supervision.thread(
            ThreadKind.CERTIFICATES,
            "certificates",
            lambda: follow_files(guarding.credentials, stopping),
            stopping,
        ).start()
        ready(address)
        log.info("ready", name=agent.owner.name, api=address)
        ending.wait()
        log.info("stopping")
        stopping.set()
        agent.stop()
        server.should_exit = True
        thread.join()
        if not ending.signalled:
            raise Unreachable(
                "the API ended by itself, and with it the agent; the log says why. Whatever keeps "
                "the agent running starts another"
            )
        folder.close()
    log.info("stopped")


def answer_requests(
    server: uvicorn.Server, listener: socket.socket, ended: Callable[[], None]
) -> None:
    """Serve the API; without it nobody can steer or ask the agent, so it ends with it."""
    try:
        server.run([listener])
    finally:
        ended()


class Guarding:
    """What stands between the network and the API.

    Raises:
        ConfigurationError: tokens or certificates cannot be used.
    """

    def __init__(self, configuration: AgentConfiguration) -> None:
        self._configuration = configuration
        access, tls = configuration.access, configuration.tls
        self._own = OwnTokens(Path(access.token_file).expanduser() if access.token_file else None)
        self._tokens = TokenFile(Path(access.tokens).expanduser()) if access.tokens else None
        self._credentials = client_side("api", tls, "tls") if tls is not None else None
        self._peers = upstream_side("agents", configuration.peers, "peers")

    def configure(self, agent: Agent, advertised: str) -> uvicorn.Config:
        """Return how the API is served, behind its guard."""
        access = self._configuration.access
        peers = Peers(agent.owner.name, self._own, self._peers)
        settings = GuardSettings(
            own=self._own,
            tokens=self._tokens,
            certificates=access.certificates,
            hosts=own_names(self._configuration, advertised),
            proxied=access.proxied,
            open_probes=access.open_probes,
            body_bytes=access.body_bytes,
            denied=lambda reason: agent.metrics.denied.labels(reason).inc(),
        )
        limits = CrowdLimits(served_connections(access.connections), access.request_seconds)
        config = uvicorn.Config(
            Guard(make_application(agent, peers), settings),
            http=cast("Any", partial(IdentifiedConnection, Crowd(limits))),
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="on",
            # Whoever asks could say where from.
            proxy_headers=False,
            timeout_graceful_shutdown=_LAST_ANSWERS,
        )
        config.load()
        if self._credentials is not None:
            config.ssl = RenewedContext.of(self._credentials)
        return config

    @property
    def credentials(self) -> tuple[Credentials, ...]:
        """All whose files are followed."""
        return tuple(each for each in (self._credentials, self._peers) if each is not None)


def served_connections(wanted: int) -> int:
    """Return how many of the wanted connections the open files of this process allow."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(_LEAST_CONNECTIONS, most // 2))


def raise_open_files() -> None:
    """Allow this process as many open files as its user may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def own_names(configuration: AgentConfiguration, advertised: str) -> frozenset[str]:
    """Return the canonical hosts by which an API is called, besides those of loopback."""
    listening, _ = parse_address(configuration.api)
    reached, _ = parse_address(advertised.removeprefix("https://"))
    # A browser reaches its own machine by the address that means everywhere.
    names = {listening, reached, *configuration.access.hosts} - _EVERYWHERE
    return frozenset(canonical_host(name.removesuffix(".")) for name in names)


def _with_scheme(configuration: AgentConfiguration, address: str) -> str:
    has = configuration.tls is None or address.startswith("https://")
    return address if has else f"https://{address}"


def _listen(address: str) -> socket.socket:
    host, port = parse_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"the API cannot listen on {address} ({error.strerror}); set api to another address, "
            "or to port 0 for a free one"
        ) from error
    listener.listen(_BACKLOG)
    return listener
