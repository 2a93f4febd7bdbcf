"""The agent as a process: from its configuration to the end that a signal asks for."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable

import structlog
import uvicorn

from headgate.agent.api import make_application
from headgate.agent.configuration import AgentConfiguration
from headgate.agent.errors import Unreachable
from headgate.agent.service import Agent
from headgate.agent.supervision import ThreadKind
from headgate.settings import ConfigurationError, parse_address, write_address

log = structlog.get_logger("headgate.agent")

_BACKLOG = 128  # connections waiting to be accepted
_LAST_ANSWERS = 2  # seconds for requests under way when the API closes


def serve(configuration: AgentConfiguration, ready: Callable[[str], None]) -> None:
    """Run an agent until SIGTERM or SIGINT.

    Args:
        configuration: what it was told.
        ready: called with the API's address when it answers.

    Raises:
        ConfigurationError: the API's address is taken.
        Unreachable: HBase or Kafka did not answer in the configured time, or the API has ended.
    """
    listener = _listen(configuration.api)
    address = write_address(*listener.getsockname()[:2])
    agent = Agent(configuration, configuration.advertise or address)
    ending, asked = threading.Event(), threading.Event()
    agent.start()

    def ask(*_: object) -> None:
        asked.set()
        ending.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    server = uvicorn.Server(
        uvicorn.Config(
            make_application(agent),
            log_config=None,
            lifespan="on",
            timeout_graceful_shutdown=_LAST_ANSWERS,
        )
    )
    # Not on the main thread, where the server would take the signals.
    thread = agent.supervision.thread(
        ThreadKind.API, "api", lambda: answer_requests(server, listener, ending), ending
    )
    thread.start()
    ready(address)
    log.info("ready", name=agent.owner.name, api=address)
    ending.wait()
    log.info("stopping")
    agent.stop()
    server.should_exit = True
    thread.join()
    if not asked.is_set():
        raise Unreachable(
            "the API ended by itself, and with it the agent; the log says why. Whatever keeps the "
            "agent running starts another"
        )
    log.info("stopped")


def answer_requests(
    server: uvicorn.Server, listener: socket.socket, ending: threading.Event
) -> None:
    """Serve the API; without it nobody can steer or ask the agent, so it ends with it."""
    try:
        server.run([listener])
    finally:
        ending.set()


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
