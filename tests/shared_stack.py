"""One local stack for all processes of a run of pytest by xdist.

HBase, Kafka and the Thrift servers then start, warm up and idle once instead of once for each
process, of which a stack takes 11 s of a processor and 3 to 8 s for each minute.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headgate.local import Lifetime, LocalStack, LocalStackError, Progress

KEY = "shared_stack"
"""Of what each process is given: the file with the stack's folder and addresses, once it is up."""


class RunOver(Exception):
    """The run of the tests has ended while the stack was starting."""


class SharedStack:
    """The plugin of the process that starts the others, which lives as long as any of them.

    The stack starts while tests that need none run. It ends when the others have, after Ctrl-C too,
    which waits for the next of its parts at most; and the kernel ends it should this process be
    killed, as it does with all that a thread of it has started.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="headgate-tests-")
        self._addresses = Path(self._folder.name) / "addresses.json"
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[KEY] = str(self._addresses)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        if self._thread is None and any("tests/stack/" in name for name in ids):
            self._thread = threading.Thread(target=self._keep, name="shared-stack")
            self._thread.start()

    def pytest_unconfigure(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._folder.cleanup()

    def _keep(self) -> None:
        stack = LocalStack(Path(self._folder.name), "tests", lifetime=Lifetime.WITH_CALLER)
        try:
            with suppress(RunOver):
                addresses = stack.up(self._listen).as_text()
                self._publish({"folder": str(stack.folder), **addresses})
                self._over.wait()
        except LocalStackError as error:
            self._publish({"error": f"the stack does not start: {error}"})
        finally:
            stack.reset()  # nobody reads its data again: nothing has to end in order

    def _listen(self, _: Progress) -> None:
        if self._over.is_set():
            raise RunOver

    def _publish(self, content: dict[str, str]) -> None:
        """Write it whole: the others look for the file again and again."""
        beside = self._addresses.with_suffix(".new")
        beside.write_text(json.dumps(content))
        beside.rename(self._addresses)
