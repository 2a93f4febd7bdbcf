"""What the commands of ``headgate stage`` ask of an agent, and what they read themselves."""

from __future__ import annotations

import csv
import json
import os
import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from answering import Agent
from msgspec.structs import replace
from scripted_runs import ScriptedFlow
from typer.testing import CliRunner

from headgate.cli.stage.commands import app
from headgate.cli.stage.writing import csv_text, plain
from headgate.engine import FileFormat, FilesSpec, RunPurpose
from headgate.events import key_bytes, key_text
from headgate.incremental import InputFlow, Stage, StateFlow, TopicCursor
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import Sending, read_manifest, write_manifest
from headgate.spark import decode_result

READ = pa.schema({"key": pa.string(), "n": pa.int64()})


def _sum(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
    n = sum(row["n"] for name in flows for row in flows[name])
    return {"state": [{"n": n}], "sums": [{"key": key, "n": n}]}


COUNT = Stage(
    "count",
    inputs={"pages": InputFlow("key")},
    outputs={"sums": READ},
    translate=_sum,
    state=StateFlow(pa.schema({"n": pa.int64()})),
)


@pytest.fixture
def flow(tmp_path: Path) -> ScriptedFlow:
    """Two epochs of a stage, as ``count`` of dataflow ``flow``."""
    flow = ScriptedFlow(tmp_path / "state", ("pages", "sums"), READ)
    for n in (1, 2):
        flow.containers["pages"] += [{"key": key, "n": n} for key in "abc"[: n + 1]]
        flow.run("count", COUNT, flow.request())
    return flow


def status(flow: ScriptedFlow, **changes: Any) -> dict[str, Any]:
    result = decode_result(flow.results["count"])
    assert result is not None
    return {
        "action": "count",
        "state": "idle",
        "location": str(flow.path),
        "manifest": result.manifest,
        "on_change": "refuse",
        "flows": [],
        "held_by": [],
        "wanted": "advance",
        "awaits": [],
        "failure": "",
        **changes,
    }


def run(*arguments: str, exits: int = 0) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == exits, result.output
    return result.output


def run_there(agent: Agent, *arguments: str, exits: int = 0) -> str:
    return run(*arguments, "--agent", agent.address, exits=exits)


def in_folder(flow: ScriptedFlow, *arguments: str, exits: int = 0) -> str:
    return run(*arguments, "--state", str(flow.path), exits=exits)


# -- show ----------------------------------------------------------------------------------------


def test_a_stage_is_shown_as_the_agent_and_its_manifest_say(
    agent: Agent, flow: ScriptedFlow
) -> None:
    waiting = {
        "flow": "units",
        "source": "parse.all",
        "waiting": 3,
        "unread": 2,
        "rows": 70,
        "backlog": 100,
    }
    agent.answers = [status(flow, flows=[waiting], held_by=["next"], wanted="rebuild")]
    told = run_there(agent, "show", "flow")
    assert agent.asked == [("GET", "/v1/flows/flow/stages", None)]
    for words in (
        "flow/count",
        "idle, held by next, asked for: rebuild",
        "parse.all",
        "epoch 2",
        "version '1'",
        "state: n int64 (matched by group)",
        "out `sums`: key string, n int64; 3 rows in the last epoch",
        "in `pages`: read up to pages to offset 5",
    ):
        assert words in told


def test_files_that_were_read_and_those_that_are_published_are_shown(
    agent: Agent, flow: ScriptedFlow, tmp_path: Path
) -> None:
    place, out = tmp_path / "in", tmp_path / "out"
    place.mkdir()
    spec = FilesSpec(str(place), FileFormat.JSON, {"key": "string", "n": "int64"})
    request = flow.request(sources={"pages": spec}, sinks={"sums": FilesSpec(str(out))})
    flow.results.clear()
    flow.run("count", COUNT, request)
    agent.answers = [status(flow)]
    assert f"in `pages`: read up to no file of {place} yet" in run_there(agent, "show", "flow")

    (place / "a").write_text('{"key": "k", "n": 1}\n')
    os.utime(place / "a", (0, 1_700_000_000.25))
    flow.run("count", COUNT, request)
    agent.answers = [status(flow)]
    told = run_there(agent, "show", "flow")
    assert "read up to the file of 2023-11-14T22:13:20.250+00:00" in told
    assert "1 known by name, 0 there are older" in told
    assert "files of `sums`: 1 rows, " in told
    assert f"as increment 4 in {out}" in told


def test_topics_that_were_read_and_those_that_are_written_are_shown(
    agent: Agent, flow: ScriptedFlow
) -> None:
    store = FileStore.at(flow.path)
    result = decode_result(flow.results["count"])
    assert result is not None
    manifest = read_manifest(store, result.manifest)
    files = manifest.outputs["sums"]
    cursor = TopicCursor("shop.pages", "id", {1: 7, 0: 12})
    group = "headgate/flow/count/sums"
    sending = Sending("shop.sums", group, 4, "flow/count", "sums", key="", whole=False, files=files)
    changed = replace(
        manifest, sendings=(sending,), cursors={"pages": msgspec.msgpack.encode(cursor)}
    )
    name = f"{result.manifest.removesuffix('.manifest')}2.manifest"
    write_manifest(store, name, changed)
    agent.answers = [status(flow, manifest=name)]
    told = run_there(agent, "show", "flow")
    assert "in `pages`: read up to topic shop.pages, partitions to offsets: 0 to 12, 1 to 7" in told
    assert "messages of `sums`: 3 as increment 4 to topic shop.sums; group headgate/flow" in told


def test_a_state_that_is_elsewhere_is_not_taken_for_none(agent: Agent, flow: ScriptedFlow) -> None:
    agent.answers = [status(flow, location="/nowhere/at/all")]
    told = run_there(agent, "show", "flow", "count")
    assert "is missing" in told
    assert "a path of the machine where steps run" in told


def test_a_stage_without_state_says_so(agent: Agent, flow: ScriptedFlow) -> None:
    agent.answers = [status(flow, manifest="")]
    assert "no run of it has committed" in run_there(agent, "show", "flow")
    assert "no run of it has committed" in run_there(agent, "state", "flow", "count", exits=1)


def test_a_stage_that_is_not_there_is_told_with_those_that_are(
    agent: Agent, flow: ScriptedFlow
) -> None:
    agent.answers = [status(flow)]
    told = run_there(agent, "show", "flow", "cuont", exits=1)
    assert "headgate stage: dataflow flow has no stage 'cuont', but count" in told


def test_a_folder_is_shown_without_an_agent(flow: ScriptedFlow) -> None:
    (told,) = json.loads(in_folder(flow, "show", "flow", "count", "--json"))
    state = told["state"]
    assert (state["epoch"], state["columns"], state["outputs"]["sums"]["rows"]) == (
        2,
        {"n": "int64"},
        3,
    )
    assert told["status"] is None


# -- state ---------------------------------------------------------------------------------------


def test_rows_are_shown_as_a_table_or_as_documents(flow: ScriptedFlow) -> None:
    told = in_folder(flow, "state", "flow", "count")
    assert sorted(told.splitlines()[1:]) == ["a     3", "b     3", "c     2"]
    rows = json.loads(in_folder(flow, "state", "flow", "count", "--json"))
    assert sorted(rows, key=lambda row: row["_key"])[2] == {"_key": "c", "n": 2}


def test_groups_are_found_by_their_keys(flow: ScriptedFlow) -> None:
    told = in_folder(flow, "state", "flow", "count", "--key", "c", "--key", "z", "--format", "csv")
    assert told == '"_key","n"\n"c",2\n'


def test_groups_of_rows_of_all_bytes_are_shown_and_found(flow: ScriptedFlow) -> None:
    random_ = random.Random(1)
    rows = {random_.randbytes(random_.choice((1, 2, 3, 30))) for _ in range(1_000)}
    flow.containers["pages"] += [{"key": key_text(row), "n": 1} for row in rows]
    flow.run("count", COUNT, flow.request())

    shown = json.loads(in_folder(flow, "state", "flow", "count", "--limit", "2000", "--json"))
    assert {key_bytes(row["_key"]) for row in shown} == rows | {b"a", b"b", b"c"}
    found = sorted(rows)[::50]
    spelled = ["".join(f"\\x{byte:02x}" for byte in row) for row in found]
    asked = [part for text in spelled for part in ("--key", text)]
    told = json.loads(in_folder(flow, "state", "flow", "count", *asked, "--json"))
    assert {key_bytes(row["_key"]) for row in told} == set(found)


def test_groups_of_binary_columns_are_found_by_text(tmp_path: Path) -> None:
    cells = pa.schema({"key": pa.binary(), "n": pa.int64()})
    flow = ScriptedFlow(tmp_path / "state", ("pages", "sums"), cells)
    stage = Stage(
        "count",
        inputs={"pages": InputFlow(("key", "n"))},
        outputs={"sums": cells},
        translate=lambda _key, _flows: {"state": [{"value": b"\xff"}]},
        state=StateFlow(pa.schema({"value": pa.binary()})),
    )
    flow.containers["pages"] += [{"key": b"\xff\\", "n": 7}]
    flow.run("count", stage, flow.request())

    asked = ("--key", json.dumps(["\\xff\\x5c", 7]))
    (row,) = json.loads(in_folder(flow, "state", "flow", "count", *asked, "--json"))
    told = in_folder(flow, "state", "flow", "count", *asked, "--format", "csv")

    assert row["value"] == "\\xFF"
    assert told.splitlines()[1:] == ['"(b\'\\xff\\\\\', 7)","\\xFF"']


def test_bytes_are_texts_of_keys_wherever_they_stand_in_a_row() -> None:
    kind = pa.map_(pa.binary(), pa.list_(pa.struct([("b", pa.binary())])))
    rows = pa.table({"all": pa.array([[(b"\xff", [{"b": b"\\"}])]], kind)})
    said = [["\\xFF", [{"b": "\\x5C"}]]]
    assert plain(rows) == [{"all": said}]
    (line,) = csv.DictReader(csv_text(rows).decode().splitlines())
    assert json.loads(line["all"]) == said


def test_a_limit_is_kept_and_told(flow: ScriptedFlow) -> None:
    told = in_folder(flow, "state", "flow", "count", "--limit", "2")
    assert "The first 2 rows" in told
    assert len(told.splitlines()) == 4


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_all_rows_go_to_a_file(flow: ScriptedFlow, tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"rows.{kind}"
    assert "3 rows" in in_folder(flow, "state", "flow", "count", "-o", str(file))
    if kind == "parquet":
        assert sorted(pq.read_table(file).column("_key").to_pylist()) == ["a", "b", "c"]
    else:
        assert len(file.read_text().splitlines()) == 3 + (kind == "csv")


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_a_file_that_cannot_be_written_whole_leaves_what_was_there(
    flow: ScriptedFlow, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "out" / f"rows.{kind}"
    file.parent.mkdir()
    file.write_text("before")
    for each in flow.path.rglob("*.arrow"):
        each.unlink()
    assert "is missing" in in_folder(flow, "state", "flow", "count", "-o", str(file), exits=1)
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    assert file.read_text() == "before"


def test_a_file_whose_name_says_no_format_is_refused(flow: ScriptedFlow, tmp_path: Path) -> None:
    told = in_folder(flow, "state", "flow", "count", "-o", str(tmp_path / "rows"), exits=1)
    assert "end it with .csv, .json or .parquet" in told


# -- verify --------------------------------------------------------------------------------------


def test_a_whole_state_is_verified(agent: Agent, flow: ScriptedFlow) -> None:
    agent.answers = [status(flow)]
    assert "are as they were written" in run_there(agent, "verify", "flow", "count")


def damage(flow: ScriptedFlow, how: str) -> str:
    """Damage a file that the last manifest names; return its path."""
    told = json.loads(in_folder(flow, "verify", "flow", "count", "--json"))
    files = [path for path in flow.path.rglob("*.arrow") if path.stat().st_size]
    manifest = flow.path / told["manifest"]
    [one, *_] = [path for path in files if path.name.encode() in manifest.read_bytes()]
    if how == "missing":
        one.unlink()
    elif how == "short":
        one.write_bytes(one.read_bytes()[:-10])
    else:
        content = bytearray(one.read_bytes())
        content[len(content) // 2] ^= 1
        one.write_bytes(content)
    return str(one)


@pytest.mark.parametrize("how", ["missing", "short", "altered"])
def test_what_is_damaged_is_named_with_the_cure(flow: ScriptedFlow, how: str) -> None:
    path = damage(flow, how)
    told = in_folder(flow, "verify", "flow", "count", exits=4)
    assert path in told
    assert "`headgate stage rebuild flow count --with-sources` makes the state anew" in told
    document = json.loads(in_folder(flow, "verify", "flow", "count", "--json", exits=4))
    assert [one["file"] for one in document["damaged"]] == [path]


def test_a_damaged_manifest_is_named(flow: ScriptedFlow) -> None:
    for manifest in flow.path.rglob("*.manifest"):
        manifest.write_bytes(manifest.read_bytes()[:40])
    told = in_folder(flow, "verify", "flow", "count", exits=1)
    assert "headgate stage rebuild flow count" in told


def test_a_folder_without_the_stage_is_no_empty_state(flow: ScriptedFlow) -> None:
    assert "has no state of `flow/other`" in in_folder(flow, "verify", "flow", "other", exits=1)


# -- compare -------------------------------------------------------------------------------------


def test_a_state_is_compared_with_the_one_before(agent: Agent, flow: ScriptedFlow) -> None:
    flow.run("count", COUNT, flow.request(purpose=RunPurpose.REBUILD))
    agent.answers = [status(flow)]
    told = run_there(agent, "compare", "flow", "count", "previous")
    assert "All of 3 groups are the same in both." in told
    flow.containers["pages"] += [{"key": "a", "n": 5}, {"key": "d", "n": 6}]
    flow.run("count", COUNT, flow.request())
    agent.answers = [status(flow)]
    told = run_there(agent, "compare", "flow", "count", "previous", exits=4)
    assert "'a'\n  is  (n=8)\n  was (n=3)\n" in told
    assert "'d'\n  is  (n=6)\n  was not there\n" in told
    assert "2 of 4 groups differ." in told


def test_differences_are_a_document(flow: ScriptedFlow) -> None:
    before = json.loads(in_folder(flow, "verify", "flow", "count", "--json"))["manifest"]
    flow.containers["pages"] += [{"key": "a", "n": 5}]
    flow.run("count", COUNT, flow.request())
    told = json.loads(in_folder(flow, "compare", "flow", "count", before, "--json", exits=4))
    assert told["other"] == before != told["manifest"]
    assert (told["groups"], told["different"]) == (3, 1)
    assert told["examples"] == [{"key": "a", "rows": [{"n": 8}], "other": [{"n": 3}]}]


def test_what_cannot_be_compared_is_said(flow: ScriptedFlow) -> None:
    told = in_folder(flow, "compare", "flow", "count", "count/none.manifest", exits=1)
    assert "none.manifest" in told
    assert "the last two are kept" in told


# -- what agents do ------------------------------------------------------------------------------


def test_a_rebuild_tells_which_stages_begin_anew(agent: Agent) -> None:
    agent.answers = {
        "actions": ["parse", "count"],
        "runs": {"parse": "r7"},
        "waits": {"count": "its state is made anew after that of parse"},
    }
    told = run_there(agent, "rebuild", "flow", "count", "--with-sources")
    body = {"action": "count", "with_sources": True}
    assert agent.asked == [("POST", "/v1/flows/flow/stages/rebuild", body)]
    assert "parse of flow begins with nothing in run r7." in told
    assert "count of flow is rebuilt as soon as it can: its state is made anew after" in told


def test_a_rebuild_that_waits_says_so_by_its_exit_status(agent: Agent) -> None:
    agent.answers = {"actions": ["a"], "runs": {}, "waits": {"a": "the dataflow is paused"}}
    assert "the dataflow is paused" in run_there(agent, "rebuild", "flow", "a", exits=3)


def test_a_compaction_tells_its_run(agent: Agent) -> None:
    agent.answers = {"action": "count", "run": "r8", "waits": "", "follows": False}
    assert "count of flow is compacted by r8" in run_there(agent, "compact", "flow", "count")
    assert agent.asked == [("POST", "/v1/flows/flow/stages/compact", {"action": "count"})]


def test_what_an_agent_refuses_is_told_in_its_words(agent: Agent) -> None:
    agent.status, agent.answers = 409, {"error": "'count' of flow has no state yet"}
    told = run_there(agent, "compact", "flow", "count", exits=1)
    assert "headgate stage: 'count' of flow has no state yet" in told


def test_a_rebuild_says_what_becomes_of_cells_that_are_not_written_any_more(
    agent: Agent, flow: ScriptedFlow
) -> None:
    answer = {"actions": ["count"], "runs": {"count": "r1"}, "waits": {}}
    answer |= {"written": {"count": ["sums"]}, "location": str(flow.path)}
    result = decode_result(flow.results["count"])
    assert result is not None
    agent.answers = answer | {"manifests": {"count": result.manifest}}
    told = " ".join(run_there(agent, "rebuild", "flow", "count").split())
    assert "Cells that count has written to sums and does not write any more are removed" in told
    assert "Of count" not in told, "all of it is known"

    known = read_manifest(flow.store, result.manifest)
    for written, words in (
        ({}, "Of count, nothing is known of what it has written to `sums`"),
        (
            {"sums": replace(known.written["sums"], since=1.0)},
            "Of count, what it wrote to `sums` before 1970-01-01 00:00:01+00:00 is not all known",
        ),
    ):
        name = result.manifest.replace(".manifest", f"{len(written)}.manifest")
        write_manifest(flow.store, name, replace(known, written=written))
        agent.answers = answer | {"manifests": {"count": name}}
        told = run_there(agent, "rebuild", "flow", "count")
        assert words in " ".join(told.split())

    agent.answers = answer | {"manifests": {"count": "not-there.manifest"}}
    told = run_there(agent, "rebuild", "flow", "count")
    assert "it cannot be said here whether all is known" in " ".join(told.split())
    agent.answers = answer
    assert "Of count" not in run_there(agent, "rebuild", "flow", "count"), "it has no state yet"
