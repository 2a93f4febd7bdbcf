from confluent_kafka import KafkaError
from structlog.testing import capture_logs

from headgate.observer.publishing.kafka import ErrorLog

REFUSED = KafkaError(KafkaError._TRANSPORT, "connection refused")
ALL_DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_each_kind_of_error_is_logged_once_in_ten_seconds_with_how_many_it_stands_for() -> None:
    clock = Clock()
    log = ErrorLog(clock)
    with capture_logs() as lines:
        for seconds, error in [
            (0.0, REFUSED),
            (0.1, REFUSED),
            (0.1, ALL_DOWN),
            (9.0, REFUSED),
            (0.9, REFUSED),
            (0.1, REFUSED),
        ]:
            clock.now += seconds
            log(error)
    assert [(line["code"], line["more"]) for line in lines] == [
        ("_TRANSPORT", 0),
        ("_ALL_BROKERS_DOWN", 0),
        ("_TRANSPORT", 2),
    ]
    assert lines[0]["reason"] == "connection refused"
