import io
import json
import sys

import pytest
import structlog

from headgate.settings import LogLevel, configure_log, set_log_level


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
