"""Who may do what with which table."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.events import Origin
from headgate.hbase import Dialect, Request, method_of
from headgate.observer.config import (
    AccessRule,
    AccessSettings,
    Allow,
    ClientCertificate,
    Identity,
    Listener,
)
from headgate.observer.monitoring.client_log import ClientLog, ListenerLog
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.security.access import ListenerGuard
from headgate.observer.security.permits import Permit
from headgate.wire import Message, MessageType, Transport

RUN = Origin("aqhi", "map", "run-1", 4)
ETL = Origin("", "", "", 0, "etl")


LOG = ClientLog(ListenerLog("thrift2", 1, lambda: 0.0))


class Gatekeeper:
    """A guard with its metrics, asked in few words."""

    def __init__(self, access: AccessSettings | None = None, **listener: Any) -> None:
        self.metrics = Metrics()
        self.now = 0.0
        self.guard = ListenerGuard(
            "thrift2",
            Listener("127.0.0.1:0", "127.0.0.1:1", **listener),
            access,
            metrics=self.metrics,
            clock=lambda: self.now,
        )

    def ask(
        self, method: str, *tables: str, permit: Permit | None = None, claims: Origin | None = None
    ) -> str | None:
        permit = permit or self.guard.permit(None) or Permit(None, ("*",))
        claimed = () if claims is None else (claims,)
        asked = method_of(Dialect.THRIFT2, method)
        refusal = self.guard.refusal(permit, asked, tables, claimed)
        if refusal is None:
            return None
        message = Message(b"", 0, method, MessageType.CALL, 0, Transport.BUFFERED)
        self.guard.note(refusal, Request(message, asked, tables), LOG)
        return refusal.text


def certificate(*, cn: str = "", dns: str = "", uri: str = "") -> dict[str, Any]:
    """A client's certificate as Python's ssl shows it."""
    names = tuple(pair for pair in (("DNS", dns), ("URI", uri)) if pair[1])
    subject = ((("organizationName", "Example"),), (("commonName", cn),))
    return {"subject": subject, "subjectAltName": names}


def origin_of(guard: ListenerGuard, shown: dict[str, Any] | None) -> Origin | None:
    """Return who a client is by its certificate, where that is asked."""
    permit = guard.permit(shown)
    assert permit is not None
    return permit.origin


# -- who it is


@pytest.mark.parametrize(
    ("entry", "shown", "fits"),
    [
        ({"common_name": "etl"}, {"cn": "etl"}, True),
        ({"common_name": "etl-*"}, {"cn": "etl-7"}, True),
        ({"common_name": "etl"}, {"cn": "ETL"}, False),
        ({"common_name": "etl"}, {"cn": "x", "dns": "etl"}, False),
        ({"dns": "*.etl.example"}, {"cn": "x", "dns": "a.etl.example"}, True),
        ({"uri": "spiffe://prod/etl"}, {"cn": "x", "uri": "spiffe://prod/etl"}, True),
        ({"uri": "spiffe://prod/etl"}, {"cn": "x", "dns": "spiffe://prod/etl"}, False),
    ],
)
def test_a_certificate_is_known_by_the_name_that_is_configured(
    entry: dict[str, Any], shown: dict[str, str], fits: bool
) -> None:
    access = AccessSettings(certificates=(ClientCertificate(**entry, writer="etl"),))
    origin = origin_of(Gatekeeper(access).guard, certificate(**shown))
    assert origin == (ETL if fits else None)


def test_a_certificate_is_stronger_than_the_port() -> None:
    access = AccessSettings(certificates=(ClientCertificate(common_name="etl", writer="etl"),))
    guard = Gatekeeper(access, origin=Identity(dataflow="aqhi", action="ingest")).guard
    assert origin_of(guard, certificate(cn="etl")) == ETL
    assert origin_of(guard, certificate(cn="other")) == Origin("aqhi", "ingest", "", 0)
    assert origin_of(guard, None) == Origin("aqhi", "ingest", "", 0)


def test_the_first_certificate_entry_that_fits_decides() -> None:
    entries = (
        ClientCertificate(common_name="etl", writer="etl"),
        ClientCertificate(common_name="*", writer="others"),
    )
    guard = Gatekeeper(AccessSettings(certificates=entries)).guard
    assert origin_of(guard, certificate(cn="etl")) == ETL


# -- what it may say that it is


@pytest.mark.parametrize(
    ("identity", "claimed", "passes"),
    [
        (Identity(dataflow="aqhi"), RUN, True),
        (Identity(dataflow="aqhi", action="map"), RUN, True),
        (Identity(dataflow="aqhi", action="ingest"), RUN, False),
        (Identity(dataflow="other"), RUN, False),
        (Identity(writer="etl"), RUN, False),
        (Identity(writer="etl", claims=("aqhi/*",)), RUN, True),
        (Identity(writer="etl", claims=("aqhi/*",)), Origin("aq", "map", "r", 1), False),
    ],
)
def test_a_request_may_claim_its_connections_own_dataflow_and_what_claims_say(
    identity: Identity, claimed: Origin, passes: bool
) -> None:
    gatekeeper = Gatekeeper(origin=identity)
    refusal = gatekeeper.ask("put", "t", claims=claimed)
    assert (refusal is None) is passes
    if refusal is not None:
        assert f"may not say that it is {claimed.name!r}" in refusal


def test_who_is_unknown_is_trusted_unless_claims_are_narrower() -> None:
    assert Gatekeeper(AccessSettings()).ask("put", "t", claims=RUN) is None
    strict = Gatekeeper(AccessSettings(claims=()))
    refusal = strict.ask("put", "t", claims=RUN)
    assert refusal is not None
    assert "connect with a certificate" in refusal
    assert strict.metrics.access_denied == {("thrift2", "unknown"): 1}


@pytest.mark.parametrize(
    "claimed",
    [
        Origin("aqhi", "map", "run-1", 4, "etl"),
        Origin("", "", "", 0, "aqhi/map"),
        Origin("aqhi/map", "x", "run-1", 4),
    ],
)
def test_an_origin_that_could_be_two_passes_nobody(claimed: Origin) -> None:
    assert Gatekeeper(AccessSettings()).ask("put", "t", claims=claimed) is not None


# -- what it may do

RULES = AccessSettings(
    default=Allow.READ,
    rules=(
        AccessRule(Allow.NOTHING, "*", ("secret",)),
        AccessRule(Allow.WRITE, "aqhi/*", ("aqhi_*", "ns:aqhi")),
        AccessRule(Allow.DEFINE, "aqhi/*", ("tmp_*",)),
        AccessRule(Allow.DEFINE, "admin"),
    ),
)


@pytest.mark.parametrize(
    ("method", "table", "allowed"),
    [
        ("get", "other", True),
        ("get", "secret", False),
        ("put", "aqhi_sensors", True),
        ("put", "ns:aqhi", True),
        ("put", "other", False),
        ("put", "secret", False),
        ("increment", "aqhi_sensors", True),
        ("deleteTable", "aqhi_sensors", False),
        ("createTable", "aqhi_sensors", False),
        ("deleteTable", "tmp_1", True),
        ("put", "tmp_1", True),
    ],
)
def test_the_first_rule_that_fits_decides(method: str, table: str, allowed: bool) -> None:
    gatekeeper = Gatekeeper(RULES, origin=Identity(dataflow="aqhi"))
    for _ in range(2):  # the second time from memory
        assert (gatekeeper.ask(method, table) is None) is allowed


def test_the_rules_go_by_the_run_that_a_request_names() -> None:
    gatekeeper = Gatekeeper(RULES)
    assert gatekeeper.ask("put", "aqhi_sensors") is not None
    assert gatekeeper.ask("put", "aqhi_sensors", claims=RUN) is None


def test_a_request_for_several_tables_needs_all_of_them() -> None:
    gatekeeper = Gatekeeper(RULES, origin=Identity(dataflow="aqhi"))
    assert gatekeeper.ask("put", "aqhi_a", "aqhi_b") is None
    assert gatekeeper.ask("put", "aqhi_a", "other") is not None


@pytest.mark.parametrize(
    ("who", "method", "allowed"),
    [
        ("etl", "getScannerRows", True),
        ("etl", "listNamespaces", True),
        ("etl", "createNamespace", False),
        ("etl", "whatComesNext", False),
        ("admin", "createNamespace", True),
        ("admin", "whatComesNext", True),
    ],
)
def test_what_belongs_to_no_table_needs_the_right_to_define_unless_it_reads(
    who: str, method: str, allowed: bool
) -> None:
    gatekeeper = Gatekeeper(RULES, origin=Identity(writer=who))
    assert (gatekeeper.ask(method) is None) is allowed


def test_who_may_read_nothing_sees_no_names_either() -> None:
    access = AccessSettings(Allow.NOTHING, rules=(AccessRule(Allow.READ, "reader"),))
    assert Gatekeeper(access).ask("listNamespaces") is not None
    assert Gatekeeper(access, origin=Identity(writer="reader")).ask("listNamespaces") is None


def test_a_write_that_names_no_table_needs_the_right_to_everything() -> None:
    """Its table was not understood here, but HBase may understand it."""
    assert Gatekeeper(RULES, origin=Identity(dataflow="aqhi")).ask("put") is not None
    assert Gatekeeper(RULES, origin=Identity(writer="admin")).ask("put") is None


def test_a_refusal_names_the_rule_and_the_cure() -> None:
    gatekeeper = Gatekeeper(RULES, origin=Identity(dataflow="aqhi", action="map"))
    assert gatekeeper.ask("deleteTable", "aqhi_x") == (
        "headgate: origin 'aqhi/map' may not define table aqhi_x: access.rules[1] (origin "
        "'aqhi/*', tables ['aqhi_*', 'ns:aqhi']) allows 'write'; to allow it, put a rule before "
        "it with allow = 'define' in the observer's configuration"
    )
    assert "no rule of [access] fits, and default is 'read'" in str(gatekeeper.ask("put", "x"))


def test_refusals_are_counted_by_origin() -> None:
    gatekeeper = Gatekeeper(RULES, origin=Identity(writer="etl"))
    for _ in range(50):
        gatekeeper.ask("put", "x")
    assert gatekeeper.metrics.access_denied == {("thrift2", "etl"): 50}


def test_invented_origins_do_not_grow_the_metrics_without_bound() -> None:
    gatekeeper = Gatekeeper(RULES)
    for number in range(2000):
        assert gatekeeper.ask("put", "x", claims=Origin(f"d{number}", "a", "r", 1)) is not None
    assert len(gatekeeper.metrics.access_denied) <= 501
    assert sum(gatekeeper.metrics.access_denied.values()) == 2000


# -- from where


@pytest.mark.parametrize(
    ("host", "admitted"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("192.168.1.1", False),
        ("::1", True),
        ("fe80::1%eth0", False),
    ],
)
def test_only_hosts_of_the_networks_are_admitted(host: str, admitted: bool) -> None:
    gatekeeper = Gatekeeper(networks=("10.0.0.0/8", "::1/128"))
    assert gatekeeper.guard.admits(host) is admitted
    assert gatekeeper.metrics.refusals == ({} if admitted else {"network": 1})


def test_nothing_configured_needs_no_guard() -> None:
    plain = Listener("127.0.0.1:0", "127.0.0.1:1")
    assert not ListenerGuard.needed(plain, None)
    assert ListenerGuard.needed(plain, AccessSettings())


def test_networks_alone_ask_nobody_who_it_is() -> None:
    assert Gatekeeper(networks=("10.0.0.0/8",)).guard.permit(None) is None


def test_names_that_clients_invent_take_little_memory() -> None:
    """Neither what is remembered of decisions nor what is said of them grows with the names."""
    keeper = Gatekeeper(
        AccessSettings(rules=(AccessRule(Allow.READ, tables=("a*",)),), default=Allow.NOTHING)
    )
    for number in range(60):
        long = "x" * (1 << 20) + str(number)
        text = keeper.ask("put", long, claims=Origin("", "", "", 0, long))
        assert text is not None
        assert len(text) < 1000
    for number in range(200):
        for table in range(200):
            keeper.ask("put", f"t{table}", claims=Origin("", "", "", 0, f"w{number}"))
    levels = keeper.guard._levels
    assert len(levels) <= 10_000
    assert sum(len(name) + len(table) for name, table in levels) < 100_000
    assert len(keeper.metrics.text()) < 200_000


# -- requests that show several tables


ONLY_A = AccessSettings(rules=(AccessRule(Allow.READ, tables=("a",)),), default=Allow.NOTHING)
ALL_BUT_A = AccessSettings(rules=(AccessRule(Allow.NOTHING, tables=("a",)),), default=Allow.READ)
ALL = AccessSettings(rules=(AccessRule(Allow.READ, tables=("*",)),), default=Allow.NOTHING)


@pytest.mark.parametrize(
    ("access", "tables", "passes"),
    [
        (ONLY_A, ("a",), True),
        (ONLY_A, ("a", "b"), False),
        (ALL_BUT_A, ("b",), True),
        (ALL_BUT_A, ("a",), False),
        (ALL_BUT_A, (), False),
        (ALL, (), True),
    ],
)
def test_a_list_of_descriptions_is_for_who_may_have_each(
    access: AccessSettings, tables: tuple[str, ...], passes: bool
) -> None:
    assert (Gatekeeper(access).ask("getTableDescriptors", *tables) is None) is passes


@pytest.mark.parametrize("by", ["Pattern", "Namespace"])
@pytest.mark.parametrize(("access", "passes"), [(ONLY_A, False), (ALL_BUT_A, False), (ALL, True)])
def test_descriptions_of_whatever_there_is_are_for_who_may_read_every_table(
    by: str, access: AccessSettings, passes: bool
) -> None:
    refusal = Gatekeeper(access).ask(f"getTableDescriptorsBy{by}")
    assert (refusal is None) is passes
    if refusal is not None:
        assert "may not read every table" in refusal
