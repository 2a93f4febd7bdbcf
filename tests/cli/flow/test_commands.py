"""What the commands of ``headgate flow`` ask of an agent, and how they tell its answers."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from headgate.agent import Seals
from headgate.cli.flow import commands
from headgate.cli.flow.commands import app
from headgate.settings import read_keys

FILE = """\
name: air
containers: {readings: detectors}
actions:
  feed: {input: readings}
  zones: {step: "steps:zones", when: {readings: {sequence: 5}}}
profiles:
  cheap: {zones: {readings: {sequence: 50}}}
"""
ROW = {
    "name": "bob",
    "revision": 2,
    "owner": "one",
    "state": "running",
    "profile": "cheap",
    "submitted": 0.0,
    "words": "",
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "air.yaml"
    path.write_text(FILE)
    return path


def test_a_submit_hands_over_the_file_its_profile_and_the_name_of_the_instance(agent, file):
    agent.answers = ROW
    told = agent.run("submit", str(file), "--as", "bob", "--profile", "cheap", "--shadow")

    ((method, path, body),) = agent.asked
    assert (method, path) == ("POST", "/v1/flows")
    assert (body["source"], body["directory"]) == (FILE, str(file.parent))
    assert (body["name"], body["profile"], body["shadow"]) == ("bob", "cheap", True)
    assert told == "Dataflow bob, revision 2, runs with agent one.\n"


def test_a_file_that_is_not_in_order_is_not_handed_over(agent, file):
    agent.status = 422
    file.write_text(FILE.replace("sequence: 5", "sequenze: 5"))

    assert "did you mean `sequence`?" in agent.run("submit", str(file))
    assert "did you mean `sequence`?" in agent.run("update", "bob", str(file))
    assert agent.asked == []


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ((), {}),
        (("--profile", "cheap"), {"profile": "cheap"}),
        (("--no-profile",), {"profile": None}),
        (("--shadow",), {"shadow": True}),
        (("--launch", "--reload"), {"shadow": False, "reload": True}),
        (("--allow-missing-tables",), {"allow_missing_tables": True}),
    ],
)
def test_an_update_asks_for_what_is_to_be_another_and_no_more(agent, options, body):
    agent.answers = {"flow": ROW, "changes": []}
    told = agent.run("update", "bob", *options)

    ((method, path, asked),) = agent.asked
    nothing = {"shadow": None, "reload": False, "allow_missing_tables": False}
    assert (method, path) == ("POST", "/v1/flows/bob/update")
    assert asked == {**nothing, **body}
    assert told == "Dataflow bob, revision 2, nothing is another than before.\n"


def test_an_update_by_a_file_hands_it_over_and_tells_what_is_another(agent, file):
    change = {"kind": "changed", "part": "bound `k` of `a`", "words": "sequence 5 → sequence 9"}
    agent.answers = {"flow": ROW, "changes": [change]}
    told = agent.run("update", "bob", str(file))

    assert agent.asked[0][2]["source"] == FILE
    assert told == (
        "bound `k` of `a`: changed, sequence 5 → sequence 9\nDataflow bob, revision 2.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "request_", "answers", "told"),
    [
        (("pause", "bob"), ("POST", "/pause", None), {}, "is paused; updates are counted"),
        (("resume", "bob"), ("POST", "/resume", None), {}, "is resumed"),
        (("remove", "bob"), ("DELETE", "", None), {}, "is removed"),
        (
            ("run", "bob", "a"),
            ("POST", "/run", {"action": "a"}),
            {"action": "a", "run": "bob-a-7", "waits": "", "follows": False},
            "a of bob is launched as bob-a-7",
        ),
        (
            ("run", "bob", "a"),
            ("POST", "/run", {"action": "a"}),
            {"action": "a", "run": None, "waits": "run bob-a-7 is active", "follows": True},
            "a of bob runs again as soon as it can: run bob-a-7 is active",
        ),
        (
            ("retry", "bob"),
            ("POST", "/retry", {"action": None}),
            {"actions": ["a", "b"]},
            "Tried again: a, b.",
        ),
        (
            ("retry", "bob", "a"),
            ("POST", "/retry", {"action": "a"}),
            {"actions": ["a"]},
            "Tried again: a.",
        ),
        (
            ("release", "bob"),
            ("POST", "/release", {"action": None}),
            {"actions": ["a"]},
            "Released: a.",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_command_is_one_request(agent, arguments, request_, answers, told):
    agent.answers = answers
    method, path, body = request_

    assert told in agent.run(*arguments)
    assert agent.asked == [(method, f"/v1/flows/bob{path}", body)]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_run_that_cannot_come_now_says_why_and_is_no_success(agent, options):
    agent.answers = {"action": "a", "run": None, "waits": "`feed` has not run yet"}
    agent.answers["follows"] = False

    assert "`feed` has not run yet" in agent.run("run", "bob", "a", *options, status=3)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_wave_that_left_a_step_in_quarantine_is_no_success(agent, options):
    trouble = "`a` is in quarantine (ValueError)"
    agent.answers = {"wave": 4, "settled": True, "waiting": "", "troubles": [trouble]}

    assert trouble in agent.run("mark", "bob", "--wait", "5", *options, status=3)


def test_a_wave_that_does_not_settle_in_time_is_no_success(agent):
    agent.answers = {"wave": 4, "settled": False, "waiting": "a (running)", "troubles": []}

    assert "waiting for a (running)" in agent.run("mark", "bob", "--wait", "5", status=3)
    assert "Wave 4 of bob has ended" in agent.run("mark", "bob")


def test_a_wave_that_is_done_is_settled(agent):
    agent.answers = {"wave": 4, "settled": True, "waiting": "", "troubles": []}

    assert agent.run("mark", "bob", "--wait", "5") == "Wave 4 of bob is settled.\n"


@pytest.mark.parametrize(
    ("when", "seconds"),
    [
        ((), None),
        (("--time", "2026-01-31T12:00:00Z"), 1_769_860_800.0),
        (("--time", "2026-01-31T13:00:00.25+01:00"), 1_769_860_800.25),
        (("--time", "20260131T120000Z"), 1_769_860_800.0),
        (("--time", "1769860800.123456"), 1_769_860_800.123456),
        (("--time=-1",), -1.0),
    ],
)
def test_a_wave_is_marked_with_its_own_time(agent, when, seconds):
    agent.answers = {"wave": 4, "time": 7.5}
    told = json.loads(agent.run("mark", "bob", "feed", *when, "--json"))

    asked = {"actions": ["feed"]} | ({} if seconds is None else {"time": seconds})
    assert agent.asked == [("POST", "/v1/flows/bob/waves", asked)]
    assert (told["wave"], told["time"], told["settled"]) == (4, 7.5, False)


def test_the_time_of_a_wave_that_is_waited_for_is_printed_too(monkeypatch):
    answers: dict[str, dict[str, Any]] = {
        "POST": {"wave": 4, "time": 7.5},
        "GET": {"wave": 4, "settled": True, "waiting": "", "troubles": []},
    }
    monkeypatch.setattr(commands, "ask", lambda method, *_, **__: answers[method])
    result = CliRunner().invoke(app, ["mark", "bob", "--wait", "5", "--json"])
    assert json.loads(result.output) == answers["POST"] | answers["GET"]


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("2026-01-31T12:00:00", "as in 2026-01-31T12:00:00Z or 2026-01-31T12:00:00+01:00"),
        ("2026-01-31", "as in 2026-01-31T00:00:00Z"),
        ("yesterday", "write a time as 2026-01-31T12:00:00Z"),
        ("2026-02-30T12:00:00Z", "write a time as 2026-01-31T12:00:00Z"),
        ("nan", "or Unix seconds"),
        ("inf", "or Unix seconds"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_what_is_no_moment_marks_no_wave(agent, when, words, options):
    told = agent.run("mark", "bob", "--time", when, *options, status=1)
    assert f"--time {when}: " in told
    assert words in told
    assert agent.asked == []


def test_what_a_check_warns_of_a_submit_and_an_update_warn_of(agent, file):
    file.write_text(FILE.replace("profiles:", "  lonely: {step: 'steps:lonely'}\nprofiles:"))
    agent.answers = ROW | {"flow": ROW, "changes": []}

    for command in (("submit", str(file)), ("update", "bob", str(file))):
        assert "nothing starts it" in agent.run(*command)
        (warning,) = json.loads(agent.run(*command, "--json"))["warnings"]
        assert warning["severity"] == "warning"
        assert "headgate flow run" in warning["cure"]


def test_an_answer_is_printed_as_it_is_with_json(agent):
    agent.answers = {"actions": ["a"]}

    assert json.loads(agent.run("retry", "bob", "--json")) == {"actions": ["a"]}


def test_a_list_shows_which_profile_applies(agent):
    agent.answers = [ROW]

    assert "cheap" in agent.run("list")


def test_a_refusal_is_told(agent):
    agent.status = 409
    agent.answers = {"error": "nothing failed of any action of bob", "problems": []}

    assert agent.run("retry", "bob") == "headgate flow: nothing failed of any action of bob\n"


def signing(source: str) -> tuple[bytes, dict[str, Any]]:
    """Return a definition's bytes, and how an agent hands them out."""
    definition = {"name": "bob", "source": source, "directory": "/d", "revision": 4, "submitted": 0}
    value = msgspec.msgpack.encode(definition)
    return value, {"table": "headgate", "value": b64encode(value).decode()} | ROW


def test_sign_shows_what_would_be_run_and_sends_a_signature_of_exactly_that(agent, tmp_path):
    value, agent.answers = signing("program: \x1b[2Jevil")
    key = tmp_path / "key"
    key.write_text("0123456789" * 4)
    told = agent.run("sign", "bob", "--yes", "--key-file", str(key))

    (_, (method, path, body)) = agent.asked
    assert (method, path) == ("POST", "/v1/flows/bob/sign")
    assert b64decode(body["value"]) == value
    seals = Seals(read_keys(key), "headgate")
    assert seals.holds(b"flow/bob", b"spec:definition", value, b64decode(body["seal"]))
    assert "program: '\\x1b'[2Jevil" in told


def test_nothing_is_signed_without_a_yes(agent, tmp_path):
    _, agent.answers = signing("text")
    key = tmp_path / "key"
    key.write_text("0123456789" * 4)
    arguments = ["sign", "bob", "--key-file", str(key), "--agent", agent.address]
    assert CliRunner().invoke(app, arguments, input="n\n").exit_code == 1
    assert [method for method, _, _ in agent.asked] == ["GET"]


def test_sign_without_a_key_says_where_it_looked(agent, tmp_path, monkeypatch):
    _, agent.answers = signing("text")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["sign", "bob", "--yes", "--agent", agent.address])
    assert result.exit_code == 1
    assert str(tmp_path / "headgate" / "key") in result.output


def test_a_row_of_a_stranger_is_listed_as_text(agent):
    agent.answers = [ROW | {"name": "[red]evil", "state": "unsigned", "words": "[b]sign it"}]
    told = agent.run("list")
    assert "[red]evil" in told.replace("\n", "")


def test_an_explanation_tells_the_reads_of_what_each_action_watches(agent):
    action: dict[str, Any] = {"state": "idle", "policy": None, "adjusted": []}
    watched = [{"container": "readings", "table": table} for table in ("t", "u")]
    agent.answers = {
        "actions": [
            {"action": "feed", "words": "It is an input.", "updates": [], **action},
            {"action": "zones", "words": "It ran.", "updates": watched, **action},
        ],
        "containers": [],
        "reads": [
            {"container": "readings", "words": "`readings` was read."},
            {"container": "others", "words": "`others` was read."},
        ],
    }
    told = agent.run("explain", "air")
    assert told.splitlines()[-3:] == ["zones (idle)", "  It ran.", "  `readings` was read."]
    assert told.count("was read") == 1
    del agent.answers["reads"]
    assert "was read" not in agent.run("explain", "air")
