import pytest

from headgate.settings import parse_address, write_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9190", ("localhost", 9190)),
        ("[::1]:80", ("::1", 80)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
    ],
)
def test_an_address_is_read_and_written(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address
    assert write_address(*address) == text


@pytest.mark.parametrize("text", ["", "9190", ":9190", "host:", "host:port", "host:65536", "h:١"])
def test_what_is_no_address_is_told_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        parse_address(text)
