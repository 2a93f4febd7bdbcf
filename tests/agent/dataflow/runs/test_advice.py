"""The command that a failed stage advises does what it says, and then the stage goes on.

The command line asks a real runtime over HTTP, whose worker runs the stages on files.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa
import pytest
import simulation.agent
from simulation import World
from simulation.worker import ScriptedWorker
from typer.testing import CliRunner

from headgate.agent.errors import Refused
from headgate.cli.app import app
from headgate.flows import parse_dataflow
from headgate.incremental import InputFlow, Stage, StateFlow
from headgate.spark import Claimed, Ending, Run, StepEnded, StepRequest, StepStarted, decode_result

INCREMENTAL = str(Path(__file__).resolve().parents[3] / "incremental")
if INCREMENTAL not in sys.path:
    sys.path.append(INCREMENTAL)

from scripted_runs import ScriptedFlow  # noqa: E402

FLOW = """
name: my-flow
containers:
  input: in c:v
  output: out c:v
actions:
  feed: {input: input}
  first:
    stage: stages:first
    reads: input
    out: units
    when: {input: {sequence: 1}}
    evaluate: write
    retries: 1
  second: {stage: stages:second, in: {units: first.units}, writes: output, retries: 1}
"""
READ = pa.schema({"key": pa.string(), "n": pa.int64()})


def summing(source: str, flow: str, version: str = "1") -> Stage:
    def add(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
        new = sum(row["n"] for row in flows[source])
        n = new + sum(row["n"] for row in flows["state"])
        return {"state": [{"n": n}], flow: [{"key": key, "n": new if flow == "units" else n}]}

    return Stage(
        flow,
        inputs={source: InputFlow("key")},
        outputs={flow: READ},
        translate=add,
        state=StateFlow(pa.schema({"n": pa.int64()})),
        version=version,
    )


class Bench:
    """A world of an agent whose worker runs stages, and the command line before it."""

    def __init__(self, folder: Path) -> None:
        StageWorker.bench = self
        self.flow = ScriptedFlow(folder, ("input", "output"), READ)
        self.stages = {"first": summing("input", "units"), "second": summing("units", "output")}
        self.failed: list[str] = []
        self.world = World(parse_dataflow(FLOW, "test"))
        self.world.start_agent()
        self.world.run(lambda: True)

    def come(self, **numbers: int) -> None:
        self.flow.containers["input"] += [{"key": key, "n": n} for key, n in numbers.items()]
        self.world.write("in", b"r", b"c:v", str(numbers).encode())
        self.rest()

    def rest(self) -> None:
        self.world.run(lambda: not self.world.agents[-1].runtime.state.engine.busy)

    def answer(self, path: str, body: Any) -> Any:
        """Do what the routes do for a request."""
        runtime: Any = self.world.agents[-1].runtime
        now, asked = self.world.now, path.partition("/my-flow/")[2]
        if asked == "stages/rebuild":
            with_sources = body["with_sources"]
            return runtime.stages.rebuild(body["action"], with_sources=with_sources, now=now)
        if asked == "stages/compact":
            return runtime.stages.compact(body["action"], now)
        assert asked in {"release", "retry"}, path
        return {"actions": getattr(runtime.commands, asked)(body["action"], now)}

    def command(self, line: str, exits: int = 0) -> str:
        """Run a command as a shell does; it asks the agent over HTTP."""
        bench = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, answer = 200, b""
                try:
                    answer = msgspec.json.encode(bench.answer(self.path, body))
                except Refused as error:
                    status, answer = 409, msgspec.json.encode({"error": str(error)})
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            program, *words = shlex.split(line)
            assert program == "headgate"
            address = f"127.0.0.1:{server.server_port}"
            result = CliRunner().invoke(app, [*words, "--agent", address])
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
        assert result.exit_code == exits, (line, result.output)
        self.rest()
        return result.output

    @property
    def sums(self) -> dict[str, int]:
        return {row["key"]: row["n"] for row in self.flow.outputs.get("output", ())}


class StageWorker(ScriptedWorker):
    """Runs the stages of a bench."""

    bench: Bench

    def _run(self, request: StepRequest) -> Iterator[None]:
        claim = self._world.ledger.claim(request.key, request.attempt, request.token, "worker")
        assert isinstance(claim, Claimed)
        self._report(StepStarted(request.run, request.attempt))
        yield
        flow = self.bench.flow
        assert request.stage is not None
        stage = msgspec.structs.replace(request.stage, location=str(flow.path))
        run: Any = flow.attempt(request.action, stage, request.attempt)
        run.id, run.token, run.previous = request.run, request.token, request.previous
        run.dataflow = request.dataflow
        which = (request.run, request.attempt)
        try:
            self.bench.stages[request.action](cast(Run, run))
        except Exception as error:  # noqa: BLE001 - as a worker does
            self.bench.failed.append(str(error))
            final = not getattr(error, "repeatable", True)
            self._request = None
            self._report(StepEnded(*which, Ending.FAILED, 0.0, reason=str(error), final=final))
            return
        self._world.ledger.commit(request.key, claim, run.result)
        flow.commit(run)
        self._world.commits.append(request)
        self._request = None
        self._report(StepEnded(*which, Ending.COMMITTED, 0.0, result=run.result))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(simulation.agent, "ScriptedWorker", StageWorker)
    made = Bench(tmp_path)
    made.come(a=1, b=2)
    assert made.sums == {"a": 1, "b": 2}
    return made


def change(bench: Bench) -> None:
    bench.stages["second"] = summing("units", "output", version="2")


def lose_manifest(bench: Bench) -> None:
    result = decode_result(bench.flow.results["second"])
    assert result is not None
    (bench.flow.path / result.manifest).unlink()


def lose_rows(bench: Bench) -> None:
    for path in (bench.flow.path / "my-flow%2Fsecond").glob("*.arrow"):
        path.unlink()


@pytest.mark.parametrize("harm", [change, lose_manifest, lose_rows])
def test_what_a_failed_stage_advises_is_done_by_the_command(
    bench: Bench, harm: Callable[[Bench], None]
) -> None:
    harm(bench)
    bench.come(a=5)
    assert bench.failed, "the stage does not go on by itself"
    pattern = r"headgate stage rebuild \S+ \w+(?: --with-sources)?"
    [advised] = re.findall(pattern, bench.failed[-1])

    bench.command(advised)
    assert bench.sums == {"a": 6, "b": 2}
    bench.failed.clear()
    bench.come(b=1)
    assert bench.sums == {"a": 6, "b": 3}
    assert not bench.failed


def test_what_the_command_itself_advises_is_done_by_it(bench: Bench) -> None:
    change(bench)
    bench.come(a=5)
    told = " ".join(bench.command("headgate stage rebuild my-flow second", exits=1).split())
    assert "rebuild `first` too, by `--with-sources`" in told
    told = " ".join(bench.command("headgate stage compact my-flow second", exits=1).split())
    _, release, rebuild = re.findall(r"`(headgate [^`]*)`", told)

    bench.command(release)
    bench.failed.clear()
    bench.command(rebuild)
    bench.come(b=1)
    assert bench.sums == {"a": 6, "b": 3}
    assert not bench.failed
