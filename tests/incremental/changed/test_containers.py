"""Stages over containers: rows that go as a whole, and cells that are named otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from msgspec.structs import replace
from scripted_runs import ScriptedFlow

from headgate.engine import OnChange
from headgate.events import Cut, KeyForm
from headgate.incremental import library
from headgate.incremental.containers import ContainerCursor, cut_of, renamed
from headgate.incremental.state.errors import ChangedStage
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import read_manifest, write_manifest
from headgate.spark import NamedColumns, decode_result

CELLS = pa.schema(
    {"row": pa.string(), "column": pa.string(), "value": pa.binary(), "deleted": pa.bool_()}
)
CHANGES = library.differences("cells")
OPEN = NamedColumns("f", (), KeyForm.TEXT, is_open=True)
SEVERAL = NamedColumns("", ("f:a",), KeyForm.TEXT, is_open=True)


@pytest.fixture
def flow(tmp_path: Path) -> ScriptedFlow:
    return ScriptedFlow(tmp_path, ("cells", "changes"), CELLS)


def write(flow: ScriptedFlow, row: str, column: str, value: bytes | None) -> None:
    cell = {"row": row, "column": column, "value": value, "deleted": value is None}
    flow.containers["cells"].append(cell)


def run(flow: ScriptedFlow, **request: Any) -> list[tuple[str, str, bytes, int]]:
    """Return the differences that a run has made."""
    seen = len(flow.outputs.get("changes", ()))
    flow.run("differences", CHANGES, flow.request(**request))
    return sorted(tuple(row.values()) for row in flow.outputs.get("changes", ())[seen:])


def test_a_row_that_is_deleted_as_a_whole_takes_its_cells_with_it(flow: ScriptedFlow) -> None:
    flow.namings["cells"] = OPEN
    write(flow, "r", "a", b"1")
    write(flow, "r", "b", b"2")
    write(flow, "s", "a", b"3")
    run(flow)

    write(flow, "r", "", None)
    write(flow, "r", "b", b"4")

    assert run(flow) == [("r", "a", b"1", -1), ("r", "b", b"2", -1), ("r", "b", b"4", 1)]


def test_a_container_that_declares_its_columns_is_kept_cell_by_cell(flow: ScriptedFlow) -> None:
    """So a state that an earlier version wrote of it is gone on with."""
    write(flow, "r", "a", b"1")
    run(flow)

    result = decode_result(flow.results["differences"])
    assert result is not None
    manifest = read_manifest(FileStore.at(flow.path), result.manifest)
    assert manifest.match == "group"


def test_a_state_that_kept_deleted_rows_is_refused(flow: ScriptedFlow) -> None:
    """Earlier versions kept cell by cell what belongs to containers of undeclared columns, too."""
    write(flow, "r", "a", b"1")
    run(flow)
    flow.namings["cells"] = OPEN

    with pytest.raises(ChangedStage, match="on_change: rebuild"):
        run(flow)
    assert run(flow, on_change=OnChange.REBUILD) == [("r", "a", b"1", 1)]


def test_cells_that_are_named_otherwise_are_other_groups(flow: ScriptedFlow) -> None:
    flow.namings["cells"] = OPEN
    write(flow, "r", "a", b"1")
    run(flow)
    flow.namings["cells"] = SEVERAL

    with pytest.raises(ChangedStage, match=r"of `cells` all columns of family `f` were called"):
        run(flow)
    assert run(flow, on_change=OnChange.REBUILD) == [("r", "a", b"1", 1)]


def test_an_earlier_version_named_columns_of_several_families_by_what_came(
    flow: ScriptedFlow,
) -> None:
    flow.namings["cells"] = replace(SEVERAL, short=())
    write(flow, "r", "f:a", b"1")
    run(flow)
    wrote_by_earlier_version(flow)

    with pytest.raises(ChangedStage, match="named by what came with them"):
        run(flow)


def test_a_cursor_of_an_earlier_version_is_gone_on_from(flow: ScriptedFlow) -> None:
    write(flow, "r", "a", b"1")
    run(flow)
    wrote_by_earlier_version(flow)
    write(flow, "r", "a", b"2")

    assert run(flow) == [("r", "a", b"1", -1), ("r", "a", b"2", 1)]


def wrote_by_earlier_version(flow: ScriptedFlow) -> None:
    """Have the last manifest be one whose cursors are cuts and nothing else."""
    store = FileStore.at(flow.path)
    result = decode_result(flow.results["differences"])
    assert result is not None
    manifest = read_manifest(store, result.manifest)
    cursors = {
        name: msgspec.msgpack.encode(cut_of(cursor)) for name, cursor in manifest.cursors.items()
    }
    (flow.path / result.manifest).unlink()
    write_manifest(store, result.manifest, replace(manifest, cursors=cursors))


def test_another_form_of_keys_is_another_naming() -> None:
    cursor = msgspec.msgpack.encode(ContainerCursor({"t": (3,)}, OPEN))

    assert cut_of(cursor) == Cut({"t": (3,)})
    assert renamed(cursor, OPEN) == ""
    assert (
        renamed(cursor, replace(OPEN, keys=KeyForm.BINARY)) == "its keys were text, and are binary"
    )
