"""Random edits of a dataflow that runs on the real stack: containers, codecs, stages and code.

In the end each state and each output is what the same dataflow, begun anew, would have.
"""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from headgate.incremental import StoredState

pytestmark = pytest.mark.stack

LATEST = """
import pyarrow as pa

from headgate.incremental import InputFlow, Stage, StateFlow

FACTOR = {factor}


def follow(cell, flows):
    text = f"{{FACTOR}} x {{flows['source'][-1]['value']!r}}"
    return {{"state": [{{"text": text}}], "seen": [{{"cell": cell, "text": text}}]}}


stage = Stage(
    "latest",
    inputs={{"source": InputFlow(lambda unit: f"{{unit['row']}} {{unit['column']}}")}},
    outputs={{"seen": {{"cell": "string", "text": "string"}}}},
    translate=follow,
    state=StateFlow(pa.schema({{"text": pa.string()}})),
)
"""

COPIED = """
import pyarrow as pa

from headgate.incremental import InputFlow, Stage, StateFlow


def follow(cell, flows):
    return {"state": [{"text": flows["cells"][-1]["text"]}]}


stage = Stage(
    "copied",
    inputs={"cells": InputFlow("cell")},
    outputs={},
    translate=follow,
    state=StateFlow(pa.schema({"text": pa.string()})),
)
"""

MIRROR = """
import pyarrow as pa

FACTOR = {factor}


def mirror(run):
    read = run.read_arrow("source").to_pylist()
    cells = {{
        f"{{row['row']}} {{column}}": f"{{FACTOR}} x {{value!r}}"
        for row in read
        for column, value in row.items()
        if column != "row" and value is not None
    }}
    gone = set(run.read_arrow("mirrored").column("row").to_pylist()) - set(cells)
    run.delete(gone, "mirrored")
    shown = {{"row": list(cells), "text": list(cells.values())}}
    texts = {{name: pa.array(each, pa.string()) for name, each in shown.items()}}
    run.write(pa.table(texts), "mirrored")
"""

COLUMNS = (("f:a",), ("f:b",), ("f:a", "f:b"))
RANGES = (("r00", "r50"), ("r10", "r90"), ("r00", "r99"))
CODECS = ("number", "opaque")


class Shape(Struct, frozen=True):
    """A dataflow of which everything may be edited."""

    columns: tuple[str, ...] = ("f:a",)
    rows: tuple[str, str] = ("r00", "r50")
    codec: str = "number"
    factor: int = 1
    copies: tuple[str, ...] = ("copied",)
    """Names of the stages that read what the first one puts out."""
    spark: str = "1"

    def text(self, name: str, source: str, mirrored: str, state: Path) -> str:
        copies = "".join(
            f'  {copy}: {{stage: "copied:stage", in: {{cells: latest.seen}}}}\n'
            for copy in self.copies
        )
        out = "    out: seen\n" if self.copies else ""
        column = ", ".join(f'"{each}"' for each in self.columns)
        return (
            f"name: {name}\nstate: {state}\nspark: {{spark.sql.shuffle.partitions: {self.spark}}}\n"
            "containers:\n"
            f"  source: {{table: {source}, column: [{column}], rows: [{', '.join(self.rows)}], "
            f"codec: {self.codec}}}\n"
            f'  mirrored: {{table: {mirrored}, column: "f:text", codec: opaque}}\n'
            "actions:\n"
            "  feed: {input: source}\n"
            "  latest:\n"
            "    stage: latest:stage\n    reads: source\n    on_change: rebuild\n"
            f"{out}    when: {{source: {{sequence: 1}}}}\n"
            f"{copies}"
            "  mirror:\n"
            "    step: steps:mirror\n    reads: source\n    writes: mirrored\n"
            "    when: {source: {sequence: 1}}\n"
        )

    def cells(self, stored: dict[tuple[str, str], float]) -> dict[str, str]:
        """Return what each cell comes to."""
        return {
            f"{row} {column.removeprefix('f:')}": f"{self.factor} x {self._read(value)!r}"
            for (row, column), value in stored.items()
            if column in self.columns and self.rows[0] <= row < self.rows[1]
        }

    def _read(self, value: float) -> float | bytes:
        return value if self.codec == "number" else repr(value).encode()


IN_ONE_SESSION = ("columns", "rows", "codec", "copies")
"""Kinds of edits after which the Spark session goes on."""
ALL = (*IN_ONE_SESSION, "code", "spark")


def edited(draw: random.Random, shape: Shape, kinds: tuple[str, ...]) -> Shape:
    """Return another dataflow."""
    match draw.choice(kinds):
        case "columns":
            return replace(shape, columns=draw.choice([c for c in COLUMNS if c != shape.columns]))
        case "rows":
            return replace(shape, rows=draw.choice([r for r in RANGES if r != shape.rows]))
        case "codec":
            return replace(shape, codec=next(c for c in CODECS if c != shape.codec))
        case "code":
            return replace(shape, factor=shape.factor + 1)
        case "copies":
            names = ((), ("copied",), ("second",), ("copied", "second"))
            return replace(shape, copies=draw.choice([n for n in names if n != shape.copies]))
        case _:
            return replace(shape, spark=str(int(shape.spark) % 3 + 1))


class World:
    """A dataflow that runs, what is in its source, and kinds of edits."""

    def __init__(self, stand: Any, directory: Path, seed: int, kinds: tuple[str, ...]) -> None:
        self.stand = stand
        self.directory = directory
        self.draw = random.Random(seed)
        self.kinds = kinds
        self.name = f"edits-{stand.identity}"
        self.source, self.mirrored = (stand.stack.table(name) for name in ("source", "mirrored"))
        self.stored: dict[tuple[str, str], float] = {}
        self.shape = Shape()
        self.refused = 0
        (directory / "copied.py").write_text(COPIED)
        self._write_code(self.shape)
        self.agent = stand.start_agent()
        stand.submit(self.agent, self._text(self.shape))

    def _write_code(self, shape: Shape) -> None:
        (self.directory / "latest.py").write_text(LATEST.format(factor=shape.factor))
        (self.directory / "steps.py").write_text(MIRROR.format(factor=shape.factor))

    def _text(self, shape: Shape) -> str:
        return shape.text(self.name, self.source, self.mirrored, self.directory / "state")

    def write(self) -> None:
        with closing(self.stand.connect()) as connection:
            for row in self.draw.sample(range(99), 6):
                column, value = self.draw.choice(("f:a", "f:b")), float(self.draw.randrange(9))
                key = f"r{row:02d}"
                cell = {column.encode(): repr(value).encode()}
                connection.table(self.source).put(key.encode(), cell)
                self.stored[key, column] = value

    def edit(self) -> None:
        """Edit the dataflow; what is refused stays as it was, and names the command that helps."""
        other = edited(self.draw, self.shape, self.kinds)
        self._write_code(other)
        answer = self.agent.client.request(
            "POST",
            f"/v1/flows/{self.name}/update",
            json={
                "source": self._text(other),
                "file": "edits.yaml",
                "directory": str(self.directory),
                "reload": other.factor != self.shape.factor,
            },
        )
        if answer.status_code == 200:
            self.shape = other
            return
        self.refused += 1
        assert "`headgate " in answer.json()["error"], answer.text
        self._write_code(self.shape)

    def wave(self, *, whole: bool = True) -> None:
        number = self.agent.ask("POST", f"/v1/flows/{self.name}/waves", {})["wave"]
        if whole:
            self.agent.settle(self.name, number)

    def state(self, action: str) -> dict[str, str]:
        """Return the state of a stage as it was committed last."""
        statuses = self.agent.ask("GET", f"/v1/flows/{self.name}/stages")
        (status,) = (each for each in statuses if each["action"] == action)
        state = StoredState(status["location"], self.name, action, status["manifest"])
        return {row["_key"]: row["text"] for row in state.arrow().to_pylist()}

    def known(self) -> dict[str, dict[str, str]]:
        """Return what each stage knows and what the step has written."""
        stages = {name: self.state(name) for name in ("latest", *self.shape.copies)}
        with closing(self.stand.stack.happybase()) as connection:
            rows = connection.table(self.mirrored).scan()
            shown = {row.decode(): cells[b"f:text"].decode() for row, cells in rows}
        return {**stages, "mirror": shown}

    def wanted(self) -> dict[str, dict[str, str]]:
        cells = self.shape.cells(self.stored)
        return dict.fromkeys(("latest", *self.shape.copies, "mirror"), cells)


def _goes_through(world: World, eventually: Any, edits: int) -> None:
    world.write()
    world.wave()
    for number in range(edits):
        if world.draw.random() < 0.7:
            world.write()
        # Some edits come while runs are under way.
        world.wave(whole=world.draw.random() < 0.5)
        world.edit()
        if number % 5 == 4 or number == edits - 1:
            world.agent.launch(world.name, "mirror")
            world.agent.launch(world.name, "latest")
            world.wave()
            shape, words = world.shape, world.agent.words
            try:
                eventually(lambda: world.known() == world.wanted())
            except AssertionError as error:
                known, wanted = world.known(), world.wanted()
                raise AssertionError(f"{shape}\n{known}\n{wanted}\n{words()}") from error


def test_after_a_few_edits_a_running_dataflow_knows_what_one_begun_anew_would(
    make_stand: Any, tmp_path: Path, eventually: Any
) -> None:
    _goes_through(World(make_stand(tmp_path), tmp_path, 1, IN_ONE_SESSION), eventually, 3)


@pytest.mark.soak
def test_after_thirty_edits_a_running_dataflow_knows_what_one_begun_anew_would(
    make_stand: Any, tmp_path: Path, eventually: Any
) -> None:
    _goes_through(World(make_stand(tmp_path), tmp_path, 2, ALL), eventually, 30)
