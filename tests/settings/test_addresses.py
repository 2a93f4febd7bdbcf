from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.settings import (
    canonical_address,
    canonical_host,
    canonical_network,
    is_loopback,
    parse_address,
    write_address,
)


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


hosts = st.one_of(
    st.ip_addresses(v=4).map(lambda a: (str(a), f"::ffff:{a}")),
    st.ip_addresses(v=6).map(lambda a: (str(a), a.exploded.upper())),
    st.from_regex(r"[a-z]([a-z0-9\-]{0,8}[a-z0-9])?(\.[a-z]{2,5})?", fullmatch=True).map(
        lambda name: (name, name.upper())
    ),
)


@given(hosts, st.integers(0, 65535))
def test_spellings_of_one_host_are_one_address(spellings: tuple[str, str], port: int) -> None:
    first, second = ((f"[{s}]" if ":" in s else s) + f":{port:05}" for s in spellings)
    assert canonical_address(first) == canonical_address(second)
    assert parse_address(canonical_address(first)) == parse_address(second)


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_a_network_of_mapped_addresses_is_one_of_ipv4(address: IPv4Address, length: int) -> None:
    network = canonical_network(
        f"{IPv4Address(int(address) >> (32 - length) << (32 - length))}/{length}"
    )
    mapped = IPv6Address((0xFFFF << 32) + int(network.network_address))
    assert canonical_network(f"{mapped}/{96 + length}") == network


@pytest.mark.parametrize("host", ["::ffff:127.0.0.1", "LOCALHOST", "localhost.", "0:0:0:0:0:0:0:1"])
def test_this_machine_is_known_by_every_spelling(host: str) -> None:
    assert is_loopback(host)
    assert not is_loopback("::ffff:10.0.0.1")
    assert canonical_host("no address") == "no address"
