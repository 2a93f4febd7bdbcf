"""What probes answer of an agent's troubles."""

from __future__ import annotations

import pytest

from headgate.agent.api.health import code_of, health, liveness
from headgate.agent.api.messages import Health, Liveness

STUCK = ("the thread of dataflow air has ended", "the loop of dataflow fire has not turned")


@pytest.mark.parametrize(
    ("stuck", "probe", "code"),
    [
        ((), Liveness("ok", ""), 200),
        (STUCK[:1], Liveness("stuck", STUCK[0]), 503),
        (STUCK, Liveness("stuck", f"{STUCK[0]}; {STUCK[1]}"), 503),
    ],
)
def test_an_agent_with_a_stuck_dataflow_is_to_be_started_again(
    stuck: tuple[str, ...], probe: Liveness, code: int
) -> None:
    assert liveness(stuck) == probe
    assert code_of(probe) == code


@pytest.mark.parametrize(
    ("trouble", "stuck", "status", "words", "code"),
    [
        (None, (), "ok", "", 200),
        ("", (), "ok", "", 200),
        ("HBase is away", (), "impaired", "HBase is away", 503),
        (None, STUCK[:1], "impaired", STUCK[0], 503),
        ("HBase is away", STUCK, "impaired", f"HBase is away; {STUCK[0]}; {STUCK[1]}", 503),
    ],
)
def test_an_agent_in_trouble_is_impaired_and_names_all_of_it(
    trouble: str | None, stuck: tuple[str, ...], status: str, words: str, code: int
) -> None:
    probe = health(trouble, stuck, 3, {"b": 1, "a": 2})
    assert probe == Health(status, words, 3, ("b", "a"))
    assert code_of(probe) == code
