"""A rebuild removes from the tables what the stage has written and does not write any more."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from scripted_runs import ScriptedFlow
from tests.seeds import seeds

from headgate.engine import OnChange, RunPurpose
from headgate.incremental import InputFlow, Stage, StateFlow
from headgate.incremental.state.manifest import Manifest, read_manifest, write_manifest
from headgate.spark import decode_result

READ = pa.schema({"key": pa.string(), "n": pa.int64()})
OUT = {"row": "string", "n": "int64", "twice": "int64"}
Cells = dict[tuple[bytes, bytes], bytes]


class Killed(Exception):
    """The process of an attempt is gone, whatever it was doing."""


def put_out(modulus: int) -> Callable[[Any, Any], dict[str, list[dict[str, Any]]]]:
    """A translation that puts out sums that the modulus does not divide, and no others."""

    def translate(key: str, flows: Any) -> dict[str, list[dict[str, Any]]]:
        n = sum(row["n"] for name in ("state", "in") for row in flows[name])
        twice = None if n % 2 else 2 * n
        shown = [{"row": f"{key}{n % 3}", "n": n, "twice": twice}] if n % modulus else []
        return {"state": [{"n": n}], "out": shown, "also": shown}

    return translate


def stage(modulus: int, *flows: str) -> Stage:
    flows = flows or ("out",)
    translate = put_out(modulus)
    return Stage(
        "sums",
        inputs={"in": InputFlow("key")},
        outputs=dict.fromkeys(flows, OUT),
        translate=lambda key, given: {
            flow: rows for flow, rows in translate(key, given).items() if flow in (*flows, "state")
        },
        state=StateFlow(pa.schema({"n": pa.int64()})),
        version=str(modulus),
    )


@pytest.fixture
def flow(tmp_path: Path) -> ScriptedFlow:
    return ScriptedFlow(tmp_path, ("in", "out", "also"), READ)


def come(flow: ScriptedFlow, **numbers: int) -> None:
    flow.containers["in"] += [{"key": key, "n": n} for key, n in numbers.items()]


def rebuild(flow: ScriptedFlow, made: Stage, action: str = "sums") -> None:
    flow.run(action, made, flow.request(purpose=RunPurpose.REBUILD))


def anew(flow: ScriptedFlow, made: Stage, folder: Path) -> Cells:
    """Return what the stage writes that is begun now, to an empty table."""
    other = ScriptedFlow(folder, tuple(flow.containers), READ)
    other.containers = flow.containers
    other.run("sums", made, other.request())
    return other.hbase.get("out", {})


def manifest(flow: ScriptedFlow, action: str = "sums") -> tuple[str, Manifest]:
    result = decode_result(flow.results[action])
    assert result is not None
    return result.manifest, read_manifest(flow.store, result.manifest)


def test_rows_and_cells_that_are_not_written_any_more_are_removed(
    flow: ScriptedFlow, capsys: pytest.CaptureFixture[str]
) -> None:
    come(flow, a=3, b=4, c=5)
    flow.run("sums", stage(7), flow.request())
    assert {row for row, _ in flow.hbase["out"]} == {b"a0", b"b1", b"c2"}
    rebuild(flow, stage(3))
    assert flow.hbase["out"] == {
        (b"b1", b"f:n"): b"4",
        (b"b1", b"f:twice"): b"8",
        (b"c2", b"f:n"): b"5",
    }
    assert "1 cells of `out` were removed that are not written any more" in capsys.readouterr().out


def test_what_somebody_else_has_written_since_stays_and_is_named(
    flow: ScriptedFlow, capsys: pytest.CaptureFixture[str]
) -> None:
    come(flow, a=3, b=6)
    flow.run("sums", stage(7), flow.request())
    flow.hbase["out"][b"a0", b"f:n"] = b"a stranger's"
    flow.hbase["out"][b"other", b"f:n"] = b"3"
    rebuild(flow, stage(3))
    assert flow.hbase["out"] == {
        (b"a0", b"f:n"): b"a stranger's",
        (b"other", b"f:n"): b"3",
    }
    told = capsys.readouterr().out
    assert "1 of `out` stay, since somebody else has written them since (such as a0 f:n)" in told


def test_what_another_stage_writes_to_the_same_row_stays(flow: ScriptedFlow) -> None:
    come(flow, a=3)
    flow.run("sums", stage(7), flow.request())
    flow.run("others", stage(5), flow.request())
    rebuild(flow, stage(3))
    assert flow.hbase["out"] == {(b"a0", b"f:n"): b"3"}, "`others` has put it out too"
    rebuild(flow, stage(3), "others")
    assert flow.hbase["out"] == {}, "nobody puts it out any more"


def test_what_another_flow_of_the_stage_writes_to_the_same_table_stays(
    flow: ScriptedFlow,
) -> None:
    flow.tables["also"] = "out"
    come(flow, a=3)
    flow.run("sums", stage(7, "out", "also"), flow.request())
    rebuild(flow, stage(7, "also"))
    assert flow.hbase["out"] == {(b"a0", b"f:n"): b"3"}


def test_a_stage_that_began_before_accounts_were_kept_says_what_it_does_not_know(
    flow: ScriptedFlow, capsys: pytest.CaptureFixture[str]
) -> None:
    come(flow, a=3)
    flow.run("sums", stage(7), flow.request())
    name, known = manifest(flow)
    flow.store.remove(name)
    write_manifest(flow.store, name, replace(known, written={}))
    come(flow, b=6)
    flow.run("sums", stage(7), flow.request())
    rebuild(flow, stage(3))
    assert set(flow.hbase["out"]) == {(b"a0", b"f:n")}, "b is known of, and a is not"
    assert "what it wrote to `out` before" in (told := capsys.readouterr().out)
    assert "is not all known" in told
    rebuild(flow, stage(3))
    assert "is not all known" in capsys.readouterr().out, "it is not known later on either"


def test_a_state_that_cannot_be_read_has_its_rows_stay_and_says_so(
    flow: ScriptedFlow, capsys: pytest.CaptureFixture[str]
) -> None:
    come(flow, a=3)
    flow.run("sums", stage(7), flow.request())
    name, _ = manifest(flow)
    flow.store.remove(name)
    rebuild(flow, stage(3))
    assert set(flow.hbase["out"]) == {(b"a0", b"f:n")}
    assert "what it wrote to `out` before" in capsys.readouterr().out
    assert manifest(flow)[1].written["out"].since > 0


def test_a_changed_stage_that_says_rebuild_removes_likewise(flow: ScriptedFlow) -> None:
    come(flow, a=3)
    flow.run("sums", stage(7), flow.request())
    flow.run("sums", stage(3), flow.request(on_change=OnChange.REBUILD))
    assert flow.hbase["out"] == {}


def test_a_container_in_another_table_leaves_the_first_one_alone_and_says_so(
    flow: ScriptedFlow, capsys: pytest.CaptureFixture[str]
) -> None:
    come(flow, a=3)
    flow.run("sums", stage(7), flow.request())
    flow.tables["out"] = "elsewhere"
    rebuild(flow, stage(7))
    assert set(flow.hbase["out"]) == set(flow.hbase["elsewhere"]) == {(b"a0", b"f:n")}
    assert "what was written to table out as `out` stays" in capsys.readouterr().out


def test_the_account_is_of_cells_that_are_there_however_many_runs_wrote_it(
    flow: ScriptedFlow,
) -> None:
    for _ in range(40):
        come(flow, a=1, b=2)
        flow.run("sums", stage(50), flow.request())
    cells = manifest(flow)[1].written["out"].cells
    assert len(cells.files) < 16
    rebuild(flow, stage(1))
    assert flow.hbase["out"] == {}


@pytest.mark.parametrize("seed", seeds(8, 200))
def test_whatever_is_killed_a_rebuilt_stage_has_put_out_what_one_begun_anew_does(
    seed: int, flow: ScriptedFlow, tmp_path: Path
) -> None:
    """Strangers write beside it and over it; attempts are killed between any two writes."""
    drawn = random.Random(seed)
    strangers: Cells = {}
    modulus = 7
    for number in range(6):
        come(flow, **{drawn.choice("abcdef"): drawn.randrange(1, 9) for _ in range(3)})
        rebuilt = number == 5 or drawn.random() < 0.3
        if rebuilt:
            modulus = drawn.choice((2, 3, 4, 5))
        purpose = RunPurpose.REBUILD if rebuilt else RunPurpose.ADVANCE
        made = stage(modulus)
        while drawn.random() < 0.6:
            left = iter(range(drawn.randrange(1, 12)))

            def call(left: Any = left) -> None:
                if next(left, None) is None:
                    raise Killed

            flow.hbase_calls = call
            attempt: Any = flow.attempt("sums", flow.request(purpose=purpose))
            with suppress(Killed):
                made(attempt)
            flow.hbase_calls = lambda: None
        flow.run("sums", made, flow.request(purpose=purpose))
        table = flow.hbase["out"]
        for _ in range(drawn.randrange(3)):
            place = drawn.choice([*sorted(table), (b"strange", b"f:n")])
            strangers[place] = table[place] = f"stranger {number}".encode()
        strangers = {place: value for place, value in strangers.items() if table[place] == value}
    wanted = anew(flow, stage(modulus), tmp_path / "anew")
    assert flow.hbase["out"] == wanted | strangers
