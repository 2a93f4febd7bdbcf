"""Progress of a demonstration on the terminal, and how it ends."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from thriftpy2.thrift import TException

from headgate.cli.demo.dataflows import DemoError
from headgate.cli.demo.services import DemoServicesError
from headgate.local import LocalStackError, Progress

HomeOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder for all that runs. Default: $HEADGATE_HOME, else the user's data folder.",
        show_default=False,
    ),
]

_INTERRUPTED = 130  # what shells give a command that Ctrl-C ended


class Narrator:
    """Prints what goes on: a moving bar on a terminal, one line for each thing elsewhere."""

    def __init__(self, console: Console, waves: int) -> None:
        self._console = console
        self._began = time.monotonic()
        self._bar = Bar(
            TextColumn("[progress.description]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=waves)

    def __enter__(self) -> Narrator:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        """Print one thing."""
        self._console.print(
            f"{time.monotonic() - self._began:6.1f} s  {escape(text)}",
            highlight=False,
            soft_wrap=True,
        )

    def progress(self, progress: Progress) -> None:
        """Show what the services are doing; of what is counted, line by line only the end."""
        if progress.total and progress.done < progress.total:
            self._bar.update(
                self._task,
                description=f"{progress.subject} {progress.done}/{progress.total}",
            )
            return
        self.say(f"{progress.subject}: {progress.text}")

    def done(self, waves: int) -> None:
        """Move the bar: so many waves are done."""
        self._bar.update(self._task, completed=waves, description="waves")


@contextmanager
def outcome(console: Console, *input_errors: type[Exception]) -> Iterator[None]:
    """Turn what goes wrong into one message and an exit code; SIGTERM ends as Ctrl-C does.

    Args:
        console: where to say it.
        input_errors: what the example raises when its input cannot be read.
    """
    expected: tuple[type[Exception], ...] = (
        LocalStackError,
        DemoServicesError,
        DemoError,
        *input_errors,
    )
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        console.print("interrupted; everything that was started has ended")
        raise typer.Exit(_INTERRUPTED) from None
    except expected as error:
        console.print(f"[red]headgate demo:[/red] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(1) from error
    except TException as error:
        console.print(f"[red]headgate demo:[/red] HBase behind the proxy: {escape(str(error))}")
        raise typer.Exit(1) from error
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_: int, __: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
