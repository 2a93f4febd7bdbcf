import io
import json
import logging
import sys

import pytest
import structlog

from headgate.settings import LogLevel, configure_log, set_log_level
from headgate.settings.log import FloodGuard, LibraryLines


@pytest.fixture(autouse=True)
def _as_it_was():
    yield
    structlog.reset_defaults()


def test_the_level_can_change_while_loggers_are_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    log = structlog.get_logger("x")
    configure_log(as_json=True, level=LogLevel.WARNING, fields={"worker": 2})
    log.info("hidden")
    set_log_level(LogLevel.INFO)
    log.info("shown", key=1)

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    for line in lines:
        assert line.pop("timestamp")
    assert lines == [{"event": "shown", "level": "info", "key": 1, "worker": 2}]


@pytest.mark.parametrize("as_json", [False, True])
def test_local_variables_stay_out_of_the_log(
    capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    configure_log(as_json=as_json)
    password = "pass" + "-phrase"
    try:
        [].pop(len(password))
    except IndexError:
        structlog.get_logger("test").exception("it failed")
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert password not in said


@pytest.mark.parametrize("as_json", [False, True])
def test_a_line_and_its_end_are_one_write(monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    """Standard error may be unbuffered, and the file be others' too."""

    class Unbuffered(io.StringIO):
        def write(self, text: str) -> int:
            written.append(text)
            return len(text)

    written: list[str] = []
    monkeypatch.setattr(sys, "stderr", Unbuffered())
    configure_log(as_json=as_json)
    structlog.get_logger("test").info("first")
    structlog.get_logger("test").info("second")
    assert len(written) == 2
    assert all(text.endswith("\n") for text in written)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def passed(guard: FloodGuard, method: str = "warning", **event: object) -> dict[str, object] | None:
    try:
        return dict(guard(None, method, dict(event)))
    except structlog.DropEvent:
        return None


def test_no_event_floods_the_log_and_what_is_left_out_is_counted() -> None:
    clock = Clock()
    guard = FloodGuard(clock, always=("change",))
    lines = []
    for _ in range(6_000):
        clock.now += 0.01
        lines.append(passed(guard, event="a request cannot be translated"))
        assert passed(guard, event="change") is not None
        assert passed(guard, "critical", event="ending") is not None
    clock.now += 10.0
    lines.append(passed(guard, event="a request cannot be translated", left_out=2))

    said = [line for line in lines if line is not None]
    assert len(said) <= 141  # in a minute, of 6,000
    assert sum(int(str(line.get("left_out", 0))) for line in said) == 6_001 - len(said) + 2
    assert "left_out" not in (passed(guard, event="another") or {})


def test_events_with_texts_of_strangers_are_counted_together_in_the_end() -> None:
    guard = FloodGuard(Clock())
    lines = [passed(guard, event=f"text {number}") for number in range(20_000)]

    assert sum(line is not None for line in lines) < 1_100


def test_warnings_of_libraries_are_lines_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    configure_log(as_json=True)
    for number in range(1_000):
        logging.getLogger("urllib3.connectionpool").warning("Invalid request %d", number)
        logging.getLogger("urllib3.connectionpool").info("hidden")

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert len(lines) == 20
    assert lines[0]["event"] == "Invalid request 0"
    assert (lines[0]["level"], lines[0]["logger"]) == ("warning", "urllib3.connectionpool")
    assert "template" not in lines[0]


def test_a_librarys_line_of_a_level_of_its_own_or_with_wrong_values_breaks_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_log(as_json=True)
    for level, text, values in ((35, "between", ()), (30, "%d of these", ("none",))):
        record = logging.LogRecord("odd", level, "odd.py", 1, text, values, None)
        LibraryLines().handle(record)  # not pytest's own, which raises

    said = capsys.readouterr().err
    assert json.loads(said.splitlines()[0])["level"] == "warning"
    assert "%d of these" in said
