"""An observer in this process, from its configuration to the end that a signal asks for."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import uvloop

from headgate.observer.config import ObserverConfig
from headgate.observer.service import Observer
from headgate.observer.starting import ObserverAddresses
from headgate.observer.workers.recovery import recover_left_behind


def run(
    config: ObserverConfig,
    ready: Callable[[ObserverAddresses], None],
    load: Callable[[], ObserverConfig] | None = None,
) -> None:
    """Run one observer in this process until SIGTERM or SIGINT, then end cleanly.

    SIGHUP changes to the configuration that ``load`` returns.

    Raises:
        StartError: something needed at start did not come.
        JournalError: the journal cannot be used.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(config, ready, load))


async def _run(
    config: ObserverConfig,
    ready: Callable[[ObserverAddresses], None],
    load: Callable[[], ObserverConfig] | None,
) -> None:
    await recover_left_behind(config)
    observer = Observer(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, observer.stop)
    if load is not None:
        loop.add_signal_handler(signal.SIGHUP, observer.reload, load)
    await observer.run(ready)
