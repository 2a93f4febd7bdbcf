"""``headgate flow train`` and ``knowledge``: models of learned triggers, and what they come of."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headgate.agent import (
    PackedPairs,
    Source,
    TrainingReport,
    UnusableParquet,
    pack_pairs,
    read_pairs,
)
from headgate.cli.agent_client import AgentOption
from headgate.cli.flow.asking import ask, ask_bytes, fail, printed
from headgate.cli.json_document import JsonOption
from headgate.learning import Quality

_LOOK: Final = 1.0
"""Seconds between two looks at a training."""
_SENT: Final = 100
"""Waves in one request: a few kilobytes each, and agents take a megabyte."""
_NO_MODEL: Final = 3
"""Exit status: the training ended, and not every output has a model."""

_console = Console()
_NameArgument = Annotated[str, typer.Argument(help="Name of the dataflow.")]


def train(
    name: _NameArgument,
    *,
    output: Annotated[
        list[str] | None,
        typer.Option("--output", help="A bounded output; all of them, if none is named."),
    ] = None,
    waves: Annotated[
        int | None,
        typer.Option(help="Waves to learn from; as many as the dataflow says, if none.", min=1),
    ] = None,
    last: Annotated[
        bool, typer.Option("--last", help="Train nothing: report on the last training.")
    ] = False,
    from_knowledge: Annotated[
        bool,
        typer.Option(
            "--from-knowledge", help="Learn from stored pairs, those of `knowledge --import` too."
        ),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until it has ended, and report on it.")
    ] = True,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Train the models of learned triggers on the newest waves; they decide as soon as they hold.

    The exit status is 3 where an output has no model: too few waves, or no threshold holds.
    """
    path = f"/v1/flows/{name}/train"
    body: dict[str, Any] = {"outputs": output or [], "waves": waves}
    if from_knowledge:
        body["source"] = Source.KNOWLEDGE.value
    if last and (output or waves or from_knowledge):
        fail("--last reports on what was trained; leave the other options out", json=json)
    if last:
        answer = ask("GET", path, agent, json=json)
    else:
        answer = ask("POST", path, agent, body, json=json)
    while wait and answer["seconds"] is None:
        time.sleep(_LOOK)
        # Triggers have others trained meanwhile. An agent of before has no numbers.
        own = f"{path}?number={answer['number']}" if answer.get("number") else path
        answer = ask("GET", own, agent, json=json)
    if not printed(answer, json=json):
        _show(name, msgspec.convert(answer, TrainingReport))
    if answer["seconds"] is not None and set(answer["models"]) != set(answer["outputs"]):
        raise typer.Exit(_NO_MODEL)


def knowledge(
    name: _NameArgument,
    *,
    export: Annotated[
        Path | None, typer.Option("--export", help="Parquet file to write all pairs to.")
    ] = None,
    import_: Annotated[
        Path | None, typer.Option("--import", help="Parquet file with pairs to take in.")
    ] = None,
    trim: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="WAVES",
            help="Delete pairs, but of the newest so many waves, and models that do not decide.",
        ),
    ] = None,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Write what a dataflow was learned from to a Parquet file, take one in, or delete of it."""
    if sum(each is not None for each in (export, import_, trim)) != 1:
        fail("name one file, with --export or with --import, or --trim WAVES", json=json)
    path = f"/v1/flows/{name}/knowledge"
    answer: dict[str, Any]
    if trim is not None:
        answer = ask("POST", f"{path}/trim", agent, {"waves": trim}, json=json)
        said = f"{answer['pairs']} rows of pairs and {answer['models']} models of {name} are gone."
    elif export is not None:
        content = ask_bytes("GET", path, agent, json=json)
        try:
            export.write_bytes(content)
        except OSError as error:
            fail(f"{export} cannot be written ({error.strerror}); name another file", json=json)
        answer = {"file": str(export), "bytes": len(content)}
        said = f"{export} has the pairs of {name}."
    else:
        assert import_ is not None  # noqa: S101 - one of both is named
        pairs = _packed(import_, name, json=json)
        new = sum(
            ask("POST", path, agent, {"pairs": pairs[first : first + _SENT]}, json=json)["new"]
            for first in range(0, len(pairs), _SENT)
        )
        answer = {"file": str(import_), "new": new}
        said = f"{new} waves of {import_} were new to {name}."
    if not printed(answer, json=json):
        _console.print(said, markup=False, highlight=False, soft_wrap=True)


def _packed(file: Path, name: str, *, json: bool) -> list[PackedPairs]:
    try:
        with file.open("rb") as stream:
            return [pack_pairs(one) for one in read_pairs(stream, str(file), name)]
    except UnusableParquet as error:
        fail(str(error), json=json)
    except OSError as error:
        fail(f"{file} cannot be read ({error.strerror}); name another file", json=json)


def _show(name: str, report: TrainingReport) -> None:
    for line in training_in_words(name, report):
        _console.print(line, markup=False, highlight=False, soft_wrap=True)
    if report.test is None or not report.test.steps:
        return
    table = Table("output", "seen from", "violations", box=None, pad_edge=False)
    for column in ("accuracy", "precision", "recall", "ROC area"):
        table.add_column(column, justify="right")
    for step in report.test.steps:
        found: Quality = step.blocked
        table.add_row(
            escape(step.output),
            escape(step.container),
            f"{found.violations} of {found.examples}",
            *map(_share, (found.accuracy, found.precision, found.recall, found.roc_area)),
        )
    _console.print(table)


def training_in_words(name: str, report: TrainingReport) -> Iterable[str]:
    """Yield what people read first of a training, line by line."""
    if report.seconds is None:
        yield f"A training of {name} on {report.asked} waves is under way."
        return
    if report.failure:
        yield f"The training of {name} failed: {report.failure}."
        return
    which = f", {report.first} to {report.last}," if report.first else ""
    of = " of stored pairs" if report.source is Source.KNOWLEDGE else ""
    yield (
        f"{name} was trained on {report.waves} of {report.asked} waves{of}{which} in "
        f"{report.seconds:.1f} s."
    )
    if report.left_out:
        yield f"{report.left_out}."
    closed = {} if report.test is None else {each.output: each for each in report.test.outputs}
    for output in report.outputs:
        if output in report.models:
            yield f"{output}: model {report.models[output]}, {closed[output].words}."
            if output in report.failures:
                yield f"{output}: {report.failures[output]}."
        else:
            yield f"{output}: no model, {report.reasons.get(output, 'it is bounded no more')}."
    for container in report.failures.keys() - set(report.outputs):
        yield f"{container}: {report.failures[container]}."
    if report.models and report.test is not None:
        yield f"Of all runs {report.test.saved:.1%} would have been skipped in closed loop."


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
