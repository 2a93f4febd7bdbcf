import json

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
