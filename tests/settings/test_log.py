import json

import pytest
import structlog

from headgate.settings import LogLevel, configure_log


@pytest.fixture(autouse=True)
def _as_it_was():
    yield
    structlog.reset_defaults()


def test_the_level_can_change_while_loggers_are_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    log = structlog.get_logger("x")
    configure_log(as_json=True, level=LogLevel.WARNING)
    log.info("hidden")
    configure_log(as_json=True, level=LogLevel.INFO)
    log.info("shown", key=1)

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["event"], line["level"], line["key"]) for line in lines] == [("shown", "info", 1)]
