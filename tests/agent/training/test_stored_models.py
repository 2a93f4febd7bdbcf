"""Models of recorded decisions, as a replay finds them where agents have kept them."""

from __future__ import annotations

import pytest
from kept import knowledge
from simulation.rows import SEALS, MemoryRows

from headgate.agent.configuration import HBase
from headgate.agent.errors import Unreachable
from headgate.agent.state.sealed import Seals
from headgate.agent.training.knowledge import models_of, stored_models
from headgate.replay import ModelKey, UnknownModel
from headgate.settings import KeyRing

OTHER = KeyRing([b"the key of some other agents, elsewhere"])


def test_the_models_that_decided_are_found_by_output_and_version() -> None:
    rows = MemoryRows()
    kept = {
        ModelKey(output, knowledge(rows).keep_model("air", output, model)): model
        for output, model in (("index", b"one"), ("index", b"another"), ("map", b"one"))
    }
    assert models_of(knowledge(rows), "air", kept) == kept
    [first, *_] = kept
    assert models_of(knowledge(rows), "air", [first]) == {first: b"one"}
    assert models_of(knowledge(rows), "air", []) == {}


def test_a_model_that_is_gone_or_damaged_is_named_with_what_to_do() -> None:
    rows = MemoryRows()
    version = knowledge(rows).keep_model("air", "index", b"a model")
    gone = ModelKey("index", "0123456789abcdef")
    with pytest.raises(UnknownModel) as refusal:
        models_of(knowledge(rows), "air", [ModelKey("index", version), gone])
    assert str(refusal.value) == (
        "model 0123456789abcdef of index is not in the knowledge table, and it decided on 'air' "
        "while that was recorded; to record anew, remove and submit air"
    )
    [row] = rows.rows
    rows.rows[row][b"models:00000"] = b"another model"
    with pytest.raises(UnknownModel, match=f"model {version} of index is damaged in the knowl"):
        models_of(knowledge(rows), "air", [ModelKey("index", version)])


def test_a_model_that_others_have_signed_asks_for_the_key_of_the_agents() -> None:
    rows = MemoryRows()
    version = knowledge(rows).keep_model("air", "index", b"a model")
    strange = knowledge(rows, seals=Seals(OTHER, SEALS.table))
    with pytest.raises(UnknownModel, match=r"signed by no agent with .* share with --key-file"):
        models_of(strange, "air", [ModelKey("index", version)])


def test_where_no_hbase_answers_that_is_said_soon() -> None:
    wanted = [ModelKey("index", "0123456789abcdef")]
    with pytest.raises(Unreachable, match=r"HBase does not answer at 127\.0\.0\.1:1"):
        stored_models(HBase("127.0.0.1:1"), OTHER, "air", wanted, patience=0.1)
