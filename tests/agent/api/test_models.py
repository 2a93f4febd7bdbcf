"""What the API does about models of learned triggers, and what they were learned from."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from memory_agent import HostedFlow, MemoryAgent

from headgate.agent.api.access import Role
from headgate.agent.training.adviser import TrainingReport
from headgate.agent.training.knowledge import ModelMissing
from headgate.agent.training.pairs import PairKey, WavePairs
from headgate.agent.training.parquet import read_pairs
from headgate.agent.training.task import PackedPairs, Source, pack_pairs
from headgate.learning import FEATURES, version_of_model


class Trainings:
    used = version_of_model(b"0")

    def models(self) -> frozenset[str]:
        return frozenset({self.used})

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def train(
        self, outputs: tuple[str, ...], waves: int | None, settled: int, source: Source
    ) -> TrainingReport:
        self.asked.append((outputs, waves, settled, source))
        return TrainingReport(outputs, waves or 0)

    def training(self, number: int | None = None) -> TrainingReport:
        return TrainingReport(("map",), 24, 24, 30, 2.5, {"map": "1" * 16}, number=number or 9)


@pytest.fixture
def api(make_api: Callable[..., Any], agent: MemoryAgent, flow: HostedFlow) -> Any:
    flow.runtime.trainings = Trainings()
    flow.runtime.waves.settled = 7
    return make_api(agent=agent)


def pairs(wave: int = 3) -> WavePairs:
    shown = np.arange(2 * len(FEATURES), dtype=np.float32).reshape(2, -1)
    return WavePairs(PairKey("other", "map", "in", 5, wave), shown, np.array([0.1, 0.2]))


def test_a_training_is_asked_for_up_to_the_settled_wave(api: Any, flow: HostedFlow) -> None:
    answer = api.answer("POST", "/v1/flows/air/train", {"outputs": ["map"], "waves": 24})
    assert answer.status_code == 200
    assert answer.json()["seconds"] is None
    assert flow.runtime.trainings.asked == [(("map",), 24, 7, "recording")]
    api.answer("POST", "/v1/flows/air/train", {})
    assert flow.runtime.trainings.asked[-1] == ((), None, 7, "recording")
    api.answer("POST", "/v1/flows/air/train", {"source": "knowledge"})
    assert flow.runtime.trainings.asked[-1] == ((), None, 7, "knowledge")


def test_a_training_is_reported_on(api: Any) -> None:
    found = msgspec.convert(api.answer("GET", "/v1/flows/air/train").json(), TrainingReport)
    assert found == TrainingReport(("map",), 24, 24, 30, 2.5, {"map": "1" * 16}, number=9)
    assert api.answer("GET", "/v1/flows/air/train?number=3").json()["number"] == 3
    answer = api.answer("GET", "/v1/flows/air/train?number=x")
    assert answer.status_code == 400
    assert "number 'x'" in answer.json()["error"]


@pytest.mark.parametrize("waves", [0, 100_001, "many"])
def test_no_number_of_waves_is_refused(api: Any, waves: Any) -> None:
    answer = api.answer("POST", "/v1/flows/air/train", {"waves": waves})
    assert answer.status_code == 400
    assert "waves" in answer.json()["error"]


def test_pairs_are_kept_under_the_dataflows_name_and_come_back_as_parquet(api: Any) -> None:
    body = {"pairs": [pack_pairs(pairs(3)), pack_pairs(pairs(4))]}
    assert api.answer("POST", "/v1/flows/air/knowledge", body).json() == {"new": 2}
    assert api.answer("POST", "/v1/flows/air/knowledge", body).json() == {"new": 0}

    file = io.BytesIO(api.answer("GET", "/v1/flows/air/knowledge").content)
    found = list(read_pairs(file, "answer", "air"))
    assert [one.key for one in found] == [PairKey("air", "map", "in", 5, wave) for wave in (3, 4)]
    np.testing.assert_array_equal(found[0].features, pairs().features)
    np.testing.assert_array_equal(found[0].errors, pairs().errors)


@pytest.mark.parametrize(
    "packed",
    [
        PackedPairs(pairs().key, b"1234", b"12345678"),
        PackedPairs(pairs().key, b"", b"123"),
        PackedPairs(pairs().key, b"", b""),
    ],
)
def test_pairs_that_are_none_are_refused(api: Any, packed: PackedPairs) -> None:
    answer = api.answer("POST", "/v1/flows/air/knowledge", {"pairs": [packed]})
    assert answer.status_code == 400
    assert "the body has pairs that are none" in answer.json()["error"]


def test_pairs_are_kept_for_dataflows_that_there_are(api: Any) -> None:
    answer = api.answer("POST", "/v1/flows/no-such/knowledge", {"pairs": [pack_pairs(pairs())]})
    assert answer.status_code == 404


def test_older_pairs_are_deleted_and_models_that_decide_stay(api: Any, agent: MemoryAgent) -> None:
    api.answer(
        "POST", "/v1/flows/air/knowledge", {"pairs": [pack_pairs(pairs(3)), pack_pairs(pairs(4))]}
    )
    used, _, _ = (agent.knowledge.keep_model("air", "map", b"%d" % n) for n in range(3))
    assert used == Trainings.used
    answer = api.answer("POST", "/v1/flows/air/knowledge/trim", {"waves": 1})
    assert answer.json() == {"pairs": 1, "models": 1}
    assert agent.knowledge.model("air", "map", used) == b"0"
    assert api.answer("POST", "/v1/flows/air/knowledge/trim", {"waves": -1}).status_code == 400


@pytest.mark.parametrize(("query", "kept"), [("", 0), ("?knowledge=keep", 2)])
def test_what_was_learned_goes_with_the_dataflow_unless_it_is_kept(
    api: Any, agent: MemoryAgent, query: str, kept: int
) -> None:
    api.answer(
        "POST", "/v1/flows/air/knowledge", {"pairs": [pack_pairs(pairs(3)), pack_pairs(pairs(4))]}
    )
    wrong = api.answer("DELETE", "/v1/flows/air?knowledge=perhaps")
    assert (wrong.status_code, "as in ?knowledge=keep" in wrong.json()["error"]) == (400, True)
    assert api.answer("DELETE", f"/v1/flows/air{query}").status_code == 200
    assert len(list(agent.knowledge.pairs("air"))) == kept


def test_what_was_learned_goes_with_a_row_that_is_not_run(api: Any, agent: MemoryAgent) -> None:
    agent.save(name="idle")
    agent.memory.rows[b"flow/idle"][b"spec:seal"] = b"of somebody else"
    agent.knowledge.keep_model("idle", "map", b"model")
    assert api.answer("DELETE", "/v1/flows/idle").status_code == 200
    assert agent.knowledge.trim("idle", 0, ()).models == 0
    with pytest.raises(ModelMissing):
        agent.knowledge.model("idle", "map", version_of_model(b"model"))


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("GET", "train", Role.READ),
        ("POST", "train", Role.OPERATE),
        ("GET", "knowledge", Role.READ),
        ("POST", "knowledge", Role.DEFINE),
        ("POST", "knowledge/trim", Role.DEFINE),
    ],
)
def test_who_may_ask(
    api: Any, token_of: Mapping[Role, str], method: str, path: str, role: Role
) -> None:
    for one in Role:
        ask = api.ask(method, f"/v1/flows/air/{path}", token=token_of[one], content=b'{"pairs":[]}')
        assert (asyncio.run(ask).status_code == 403) == (not one.covers(role))
