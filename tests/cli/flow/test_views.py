"""Dataflows and runs as text: nothing is wider than the terminal, and nothing is lost."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from headgate.cli.flow.views import Row, attempt_words, list_lines, show_lines, table

CAUSE = (
    "bound `readings`: 1,204 updates of 1,000; bound `other`: relative divergence of 7.1 % of 5 % "
    "(end of the wave of `feed`)"
)
REASON = "ValueError: row d-0001, column s:o3: b'12,5' is no double in codec number"
RUN: dict[str, Any] = {
    "run": "air-quality-of-a-city-18c0f3a2b1d-zones-12",
    "action": "zones-of-the-inner-city",
    "attempt": 2,
    "cause": CAUSE,
    "outcome": "failed",
    "launched": 1_700_000_000.0,
    "started": 1_700_000_001.0,
    "ended": 1_700_000_003.5,
    "reason": REASON,
    "detail": "Traceback (most recent call last):\n" + "  File " + "x" * 120,
    "undecoded": 3,
    "undecodable": "row d-0002, column s:o3: b'' is no double in codec number",
    "code": "0123456789abcdef" * 4,
}
VIEW: dict[str, Any] = {
    "flow": {"name": "air-quality-of-a-city", "owner": "agent-of-host-17-4711"},
    "status": {
        "phase": "running",
        "epoch": 3,
        "waves": 300,
        "settled": 300,
        "consumed": 123_456,
        "lag": 0,
        "words": "in quarantine: zones; `headgate flow release air` lets them run again",
        "worker": {"words": "warm, Spark 4.3.0, process 12345"},
        "actions": [
            {"name": "feed", "role": "input", "state": "idle", "runs": 0, "skipped": 0}
            | {"last": None},
            {"name": RUN["action"], "role": "step", "state": "quarantined", "runs": 22}
            | {"skipped": 278, "last": RUN},
        ],
    },
    "runs": [RUN, {**RUN, "detail": "", "reason": "", "outcome": "committed", "undecoded": 0}],
}
LISTED = {
    "name": "air-quality-of-a-city",
    "state": "elsewhere",
    "profile": "cheap-at-night",
    "owner": "agent-of-host-17-4711",
    "revision": 12,
    "submitted": 1_700_000_000.0,
    "words": "worker: starting its Spark session, which takes long on a machine that is busy",
}


def text_of(lines: object) -> str:
    return "\n".join(line.text for line in lines)  # type: ignore[attr-defined]


def joined(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("width", [60, 80, 132])
def test_a_dataflow_fits_the_terminal_and_tells_all(width: int) -> None:
    text = text_of(show_lines(VIEW, width))

    shown, _, trace = text.partition("Traceback")
    assert max(map(cell_len, shown.splitlines())) <= width
    for words in (CAUSE, REASON, RUN["run"], "278", "and 2 more", "22"):
        assert words in joined(shown)
    assert "x" * 120 in trace


@pytest.mark.parametrize("time", [0.0, 1_000_000_000.0, 253_402_214_399.0])
def test_the_time_of_the_last_wave_is_shown_with_its_year(time: float) -> None:
    view = {**VIEW, "status": {**VIEW["status"], "wave_time": time}, "runs": []}
    date = datetime.fromtimestamp(time, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    assert f"waves 300 of 300 settled (the last of {date})," in joined(
        text_of(show_lines(view, 80))
    )
    assert "the last of" not in text_of(show_lines({**VIEW, "runs": []}, 80))


def test_a_cause_takes_few_lines() -> None:
    assert len(list(show_lines({**VIEW, "runs": []}, 80))) <= 12


@pytest.mark.parametrize("width", [60, 80])
def test_a_list_fits_the_terminal_and_tells_all(width: int) -> None:
    text = text_of(list_lines([LISTED, {**LISTED, "words": "", "profile": None}], width))

    assert max(map(cell_len, text.splitlines())) <= width
    for words in (LISTED["name"], LISTED["owner"], LISTED["words"]):
        assert str(words) in joined(text)


def test_wide_is_one_line_a_row_with_whole_dates() -> None:
    lines = [line.text for line in list_lines([LISTED, LISTED], None)]

    assert len(lines) == 3
    assert re.search(r"2023-11-1\d \d\d:\d\d:\d\d", lines[1])
    assert str(LISTED["words"]) in lines[1]
    assert "code 0123456789ab" in text_of(show_lines(VIEW, None))


def test_an_attempt_is_told_with_the_hash_of_its_code() -> None:
    assert attempt_words(RUN).endswith("zones-12: failed, code 0123456789ab")
    assert attempt_words({**RUN, "code": ""}).endswith("zones-12: failed")


WORDS = st.text(
    st.characters(codec="latin-1", exclude_categories=("C", "Z")), min_size=1, max_size=60
)
ROWS = st.lists(st.builds(Row, st.tuples(WORDS, WORDS, WORDS), st.tuples(WORDS)), max_size=4)


@given(rows=ROWS, width=st.integers(40, 120))
def test_any_cells_fit_and_what_is_cut_stands_below(rows: list[Row], width: int) -> None:
    lines = [line.text for line in table(("one", "two", "three"), rows, width)]

    assert all(cell_len(line) <= width for line in lines)
    whole = "".join("".join(lines).split())
    for row in rows:
        for cell in (*row.cells, *row.details):
            assert cell in whole


def test_a_stage_is_shown_with_what_waits_for_it() -> None:
    waits = "2 of 100 increments of `links` (parse.links) wait; held by `count`"
    action = {**VIEW["status"]["actions"][0], "name": "parse", "flows": waits}
    status = {**VIEW["status"], "actions": [action]}
    assert any(waits in line.text for line in show_lines({**VIEW, "status": status}, None))


def test_a_run_of_a_stage_is_shown_with_the_rows_that_it_has_made() -> None:
    run = {**RUN, "outcome": "committed", "made": {"links": 12_345, "visited": 0}}
    text = joined(text_of(show_lines({**VIEW, "runs": [run]}, 80)))
    assert "rows of its increments: links 12,345, visited 0" in text
    assert "rows of its" not in text_of(show_lines(VIEW, 80))
