"""A state that is too large for its row: agents that are killed, and a row that is lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.stack

CELLS = 3000
WHOLE = 100  # cells up to which a state is saved in its row


class Remembering:
    """A dataflow in shadow mode that compares every cell of a table with what it was."""

    def __init__(self, stand: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stand = stand
        self.flow = f"state-{stand.identity}"
        self.table = stand.stack.table("input")
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("HEADGATE_AGENT_CELLS_SAVED_WHOLE", str(WHOLE))
        self.agent = self.start("first")

    def start(self, name: str) -> Any:
        """Start an agent that has nothing."""
        empty = Path(self.stand.directory, "cells", name)
        self._monkeypatch.setenv("HEADGATE_AGENT_CELLS_DIRECTORY", str(empty))
        return self.stand.start_agent(name)

    def submit(self) -> None:
        text = f"""
name: {self.flow}
containers:
  input: {{table: {self.table}, column: "f:v"}}
actions:
  feed: {{input: input}}
  look:
    step: steps:look
    reads: input
    when: {{input: {{sequence: {{limit: 50%, count: distinct}}, value: {{relative: 20%}}}}}}
"""
        self.stand.submit(self.agent, text, shadow=True)

    def write(self, values: dict[int, int]) -> None:
        with closing(self.stand.connect()) as connection:
            batch = connection.table(self.table).batch()
            for row, value in values.items():
                batch.put(b"%06d" % row, {b"f:v": b"%d" % value})
            batch.send()

    def wave(self) -> None:
        self.agent.wave(self.flow)

    def runs(self) -> list[str]:
        return [run["run"] for run in self.agent.runs(self.flow, "look")]

    def bounds(self) -> list[tuple[str, float]]:
        """Return σ and ν as they stand."""
        look = self.agent.explained(self.flow, "look")
        return [(v["dimension"], v["value"]) for v in vectors(look["result"])]

    def pieces(self) -> list[bytes]:
        """Return the rows of the state table that have pieces of states."""
        with closing(self.stand.stack.happybase()) as connection:
            table = connection.table(f"headgate-{self.stand.identity}")
            return [row for row, _ in table.scan(row_prefix=b"cells/", columns=[b"state:seal"])]

    def lose(self, piece: bytes) -> None:
        with closing(self.stand.stack.happybase()) as connection:
            connection.table(f"headgate-{self.stand.identity}").delete(piece)

    def listed(self) -> Any:
        (row,) = self.agent.ask("GET", "/v1/flows")
        return row

    def is_here(self) -> bool:
        return bool(self.listed()["here"])

    def is_refused(self) -> bool:
        return bool(self.listed()["state"] == "failed")


def vectors(result: Any) -> list[Any]:
    return result.get("vectors") or [v for part in result["parts"] for v in vectors(part)]


def test_another_agent_goes_on_with_the_same_bounds_when_one_is_killed(
    stack: Any,
    tmp_path: Path,
    make_stand: Callable[[Path], Any],
    monkeypatch: pytest.MonkeyPatch,
    eventually: Callable[..., Any],
) -> None:
    made = Remembering(make_stand(tmp_path), monkeypatch)
    made.submit()
    made.write(dict.fromkeys(range(CELLS), 100))
    made.wave()
    assert len(made.runs()) == 1
    made.write(dict.fromkeys(range(0, CELLS, 3), 110))
    made.wave()
    before = made.bounds()
    assert len(made.runs()) == 1
    assert [round(value, 3) for _, value in before] == [33.333, 0.033]
    made.agent.kill()
    made.agent = made.start("second")
    eventually(made.is_here)
    assert made.bounds() == before
    assert made.pieces()
    made.write(dict.fromkeys(range(1, CELLS, 3), 110))
    made.wave()
    assert len(made.runs()) == 2, "the bound was reached by updates before and after the kill"
    made.agent.ask("DELETE", f"/v1/flows/{made.flow}")
    assert made.pieces() == []


def test_a_state_that_lost_a_piece_is_refused_until_the_dataflow_is_submitted_again(
    stack: Any,
    tmp_path: Path,
    make_stand: Callable[[Path], Any],
    monkeypatch: pytest.MonkeyPatch,
    eventually: Callable[..., Any],
) -> None:
    made = Remembering(make_stand(tmp_path), monkeypatch)
    made.submit()
    made.write(dict.fromkeys(range(CELLS), 100))
    made.wave()
    (former,) = made.runs()
    made.agent.kill()
    made.lose(made.pieces()[0])
    made.agent = made.start("second")
    eventually(made.is_refused)
    assert "is missing; submit the dataflow again" in made.listed()["words"]
    made.submit()
    assert made.is_here()
    made.write({0: 100})
    made.wave()
    *_, again = made.runs()
    assert again != former, "its steps run once more"
