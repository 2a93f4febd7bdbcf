"""Whatever is killed, and whenever: after each commit a stage equals what the paper says."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mortal_files import Killed, Ledger, Lives, MortalStore
from msgspec.structs import replace
from reference import ReferenceStage, bag, canonical
from scripted_runs import ScriptedFlow
from stages_of_tests import by_stream, counter, forwarding, pages

from headgate.incremental import Outer, Stage
from headgate.incremental.epochs.writing import reader_of
from headgate.incremental.running import StageRun
from headgate.incremental.stages.specification import StageSpec
from headgate.incremental.state import BatchFile, FileStore, Manifest, key_value, read_manifest
from headgate.spark import decode_result

KEYED = pa.schema({"key": pa.int64(), "n": pa.int64()})
URLS = pa.schema({"key": pa.string(), "url": pa.string(), "n": pa.int64()})
Unit = Callable[[random.Random], dict[str, Any]]


def keyed(drawn: random.Random) -> dict[str, Any]:
    return {"key": drawn.randrange(7), "n": drawn.randrange(-2, 5)}


def url(drawn: random.Random) -> dict[str, Any]:
    return {"key": drawn.choice("ab"), "url": drawn.choice("uvwxyz"), "n": drawn.randrange(-2, 5)}


SHAPES: dict[str, tuple[Callable[[], Stage], pa.Schema, Unit]] = {
    "counter": (counter, KEYED, keyed),
    "pages": (lambda: pages(Outer.RIGHT), URLS, url),
    "forwarding": (forwarding, KEYED, keyed),
    "pages, by streams": (lambda: by_stream(pages(Outer.RIGHT)), URLS, url),
}
RUNS = 10


def state_of(spec: StageSpec, folder: Path, manifest: Manifest) -> dict[Any, list[str]]:
    """The state that a manifest names, by key."""
    found: dict[Any, list[dict[str, Any]]] = {}
    for bucket in manifest.buckets:
        reader = reader_of(spec, FileStore.at(folder), bucket)
        assert reader is not None
        for batch in reader.everything():
            for row in batch.to_pylist():
                own = {name: v for name, v in row.items() if not name.startswith("_")}
                found.setdefault(canonical(key_value(row["_key"])), []).append(own)
    return {key: bag(rows) for key, rows in found.items()}


class World:
    """Runs of one stage whose attempts are killed, and overtaken by later ones."""

    def __init__(self, shape: str, folder: Path, seed: int) -> None:
        make, self.schema, self.unit = SHAPES[shape]
        self.stage = make()
        self.expected = ReferenceStage(SHAPES[shape.partition(", by")[0]][0]())
        self.folder = folder
        self.flow = ScriptedFlow(folder, ["in"], self.schema)
        self.drawn = random.Random(seed)
        self.ledger = Ledger()
        self.token = 0
        self.killed = 0
        (self.output,) = self.stage.spec.outputs
        self.spec = replace(self.stage.spec, name="flow/action")

    def attempt(self, run: str, lives: Lives) -> tuple[int, str]:
        """Claim a run and carry it out up to its commit; return its token and what it names."""
        self.token += 1
        assert self.ledger.claim(run, self.token)
        request = self.flow.request(out=[self.output])
        scripted: Any = self.flow.attempt("action", request, self.token)
        store = MortalStore(self.folder, lives)
        StageRun(self.stage.spec, scripted, request, store).carry_out()
        return self.token, scripted.result

    def manifest(self, result: str) -> Manifest:
        """The manifest that a commit has named."""
        named = decode_result(result)
        assert named is not None
        return read_manifest(FileStore.at(self.folder), named.manifest)

    def check(self, result: str, made: list[dict[str, Any]]) -> None:
        """Compare what a commit has named with what the paper says."""
        manifest = self.manifest(result)
        expected = {key: bag(rows) for key, rows in self.expected.state.items()}
        assert state_of(self.spec, self.folder, manifest) == expected
        store = FileStore.at(self.folder)
        files = [BatchFile(store, ref, "flow/action") for ref in manifest.outputs[self.output]]
        rows = [row for file in files for batch in file.batches() for row in batch.to_pylist()]
        assert bag(rows) == bag(made)

    def epoch(self, number: int) -> None:
        """Have a run committed, whatever happens to its attempts, and look at what it is."""
        run = f"r{number}"
        units = [self.unit(self.drawn) for _ in range(self.drawn.randrange(0, 12))]
        self.flow.containers["in"] += units
        while True:
            fate = self.drawn.choice(("lives", "killed", "killed", "overtaken", "unheard"))
            lives = Lives(self.drawn.randrange(0, 40) if fate == "killed" else None)
            try:
                token, result = self.attempt(run, lives)
            except Killed:
                self.killed += 1
                continue
            if fate == "overtaken":
                self.attempt(run, Lives(None))
                assert not self.ledger.commit(run, token, result), "a zombie committed"
                continue
            assert self.ledger.commit(run, token, result)
            break
        # Whoever comes back after an agent's end has only the ledger to ask.
        assert self.ledger.result(run) == result
        self.flow.results["action"] = result
        self.check(result, self.expected.epoch({"in": units})[self.output])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(2))
def test_killed_attempts_and_zombies_leave_no_trace(shape: str, seed: int, tmp_path: Path) -> None:
    world = World(shape, tmp_path, seed)
    for number in range(RUNS):
        world.epoch(number)
    assert world.killed, "nobody was killed"


@pytest.mark.soak
@pytest.mark.parametrize("shape", SHAPES)
def test_500_seeds_of_killed_attempts(shape: str, tmp_path: Path) -> None:
    for seed in range(2, 502):
        folder = tmp_path / str(seed)
        world = World(shape, folder, seed)
        for number in range(RUNS):
            world.epoch(number)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_kill_at_any_write_leaves_the_epoch_before(shape: str, tmp_path: Path) -> None:
    points = 0
    world = World(shape, tmp_path, 1)
    world.epoch(0)
    units = [world.unit(world.drawn) for _ in range(12)]
    world.flow.containers["in"] += units
    before = world.flow.results["action"]
    while True:
        try:
            token, result = world.attempt("last", Lives(points))
        except Killed:
            points += 1
            assert world.manifest(before).epoch == 1
            continue
        break
    assert world.ledger.commit("last", token, result)
    assert points >= 10
    world.check(result, world.expected.epoch({"in": units})[world.output])
