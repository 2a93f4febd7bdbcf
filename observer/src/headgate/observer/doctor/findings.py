"""What a look at an observer's surroundings has found, in words and with the cure."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from confluent_kafka import KafkaError
from msgspec import Struct

from headgate.events import ObserverLease
from headgate.hbase import Dialect
from headgate.observer.config import AccessSettings


class FindingVerdict(StrEnum):
    """What a step has shown."""

    OK = "ok"
    NOTE = "note"
    """Neither right nor wrong, but good to know."""
    PROBLEM = "problem"


class Finding(Struct, frozen=True):
    """What one step has shown, and what to do about a problem."""

    step: str
    verdict: FindingVerdict
    text: str
    cure: str = ""


def ok(step: str, text: str) -> Finding:
    """Return that a step has shown nothing wrong."""
    return Finding(step, FindingVerdict.OK, text)


def problem(step: str, text: str, cure: str) -> Finding:
    """Return what is wrong and what to do about it."""
    return Finding(step, FindingVerdict.PROBLEM, text, cure)


def unreachable(step: str, error: OSError, seconds: float, *, served: bool) -> Finding:
    """Say why there was no connection within ``seconds``; ``served``: to HBase's own server."""
    what = "HBase's Thrift server" if served else "the observer"
    if isinstance(error, ConnectionRefusedError):
        text = "nobody listens there (connection refused)"
        return problem(step, text, f"start {what}, or correct the port")
    if isinstance(error, TimeoutError):
        text = f"no answer within {seconds:g} s"
        return problem(step, text, "a firewall may drop packets, or the host is down")
    return problem(step, f"cannot be reached: {error.strerror or error}", "check the network")


def dialect_finding(step: str, formats: str, found: Dialect, wanted: Dialect | None) -> Finding:
    """Compare the dialect that is spoken with the one that is expected; None: any."""
    text = f"speaks {found.value}, {formats}"
    if wanted is None or found is wanted:
        return ok(step, text)
    cure = f"point it at HBase's {wanted.value} server, or use [{found.value}]"
    return problem(step, f"{text}, but {wanted.value} is expected there", cure)


def between(step: str, found: str | None, wanted: str | None) -> Finding:
    """Compare who answers with who should; ``wanted``: "" any observer, None HBase itself."""
    if wanted is None:
        if found is None:
            return ok(step, "HBase itself answers")
        text = f"the observer {found} answers, not HBase itself"
        return problem(step, text, "an observer's upstream is HBase's own Thrift server")
    if found is None:
        text = "HBase itself answers: no observer is in between, so writes there make no events"
        return problem(step, text, "point clients at the observer's address")
    if wanted and found != wanted:
        text = f"the observer {found} answers, not {wanted}"
        return problem(step, text, "two observers want this address: give one another")
    return ok(step, f"the observer {found} stands in between")


def how_it_runs(step: str, *, compiled: bool) -> Finding:
    """Say whether the observer that answers runs compiled or interpreted."""
    if compiled:
        return ok(step, "its hot path is compiled")
    cure = "where it has much traffic, install the compiled wheel: `make wheel`, or the image"
    return Finding(step, FindingVerdict.NOTE, "its hot path is interpreted", cure)


def speaks_something_else(step: str, what: str, seconds: float) -> Finding:
    """Say what an address speaks in Thrift's place; nothing: it was silent for ``seconds``."""
    if what == "HTTP":
        cure = "turn hbase.regionserver.thrift.http off, or correct the port"
        return problem(step, "speaks HTTP, not Thrift over a socket", cure)
    if what == "SASL":
        cure = "unset hbase.thrift.security.qop: Kerberos is not supported here"
        return problem(step, "asks for SASL (Kerberos)", cure)
    if what.startswith("TLS"):
        cure = "name what it needs with --ca, --cert and --key"
        return problem(step, f"speaks {what}", cure)
    if what == "closed":
        text = "closes the connection on everything that is said"
        cure = (
            "is this a Thrift port? if it takes certain hosts only, this one may not be among them"
        )
        return problem(step, text, cure)
    if not what:
        text = f"connects, but answers nothing within {seconds:g} s"
        cure = "is this a Thrift port? if it is, the server hangs: look at its log"
        return problem(step, text, cure)
    return problem(step, f"sends {what}", "this is no Thrift port: correct the address")


def tls_problem(step: str, error: OSError, host: str) -> Finding:
    """Say why TLS' handshake failed, and which option cures it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message
        cure = "name the authority that signed it with --ca"
        if "expired" in reason:
            cure = "renew the certificate"
        elif "mismatch" in reason.lower():
            cure = f"use a name that is in the certificate, or make one for {host}"
        return problem(step, f"speaks TLS, but its certificate is not good: {reason}", cure)
    reason = getattr(error, "reason", None) or error.strerror or str(error)
    if "CERTIFICATE_REQUIRED" in str(reason):
        cure = "show a client certificate: --cert and --key"
        return problem(step, "speaks TLS and wants a client certificate", cure)
    cure = "check --ca, --cert and --key"
    return problem(step, f"speaks TLS, but the handshake fails: {reason}", cure)


def namesakes(live: Iterable[ObserverLease]) -> Iterator[Finding]:
    """Yield a problem for each name that more than one live observer has."""
    epochs: dict[str, set[tuple[int, str]]] = {}
    for lease in live:
        epochs.setdefault(lease.observer, set()).add((lease.epoch, lease.address))
    for name, found in sorted(epochs.items()):
        if len(found) > 1:
            said = ", ".join(
                f"epoch {epoch} at {at or 'no address'}" for epoch, at in sorted(found)
            )
            yield problem(
                f"observer {name}",
                f"{len(found)} observers of this name are alive: {said}",
                "end one of them, or give each its own name: agents wait for only one of two",
            )


def state_tables(access: AccessSettings | None) -> Finding:
    """Say who may change the tables in which agents keep what they run and have learned."""
    access = access or AccessSettings()
    named = ", ".join(access.agent_tables)
    step = f"agents' tables {named}"
    if not access.state_tables:
        return Finding(
            step, FindingVerdict.NOTE, "access.state_tables names none: everybody may change them"
        )
    if access.guards_state:
        return ok(step, "only agents may change them")
    return Finding(
        step,
        FindingVerdict.NOTE,
        "whoever may write here may change them, and only the agents' signatures protect what they "
        "run; to refuse others, set access.agents_key_file to the agents' key",
    )


_KAFKA_CURES: Final = {
    "_RESOLVE": ("a broker's name has no address", "correct [kafka] bootstrap, or DNS"),
    "_SSL": (
        "TLS fails",
        "does its listener speak TLS? then correct ssl.ca.location and its like in the properties",
    ),
    "_AUTHENTICATION": (
        "the brokers do not accept who this is",
        "correct sasl.mechanism, sasl.username and sasl.password in the properties",
    ),
    "_TRANSPORT": (
        "no connection",
        "is it running? if so, correct security.protocol in the properties: {security} was spoken",
    ),
    "_TIMED_OUT": (
        "no answer",
        "is bootstrap right? brokers' advertised.listeners must be reachable from here too",
    ),
}


def kafka_problem(
    step: str, errors: Mapping[int, KafkaError], last: KafkaError, security: str
) -> Finding:
    """Say why Kafka does not answer.

    ``errors`` are those of the connections by their code, ``last`` is that of the request;
    ``security`` is the protocol that was spoken.
    """
    by_name = {error.name(): error for error in errors.values()}
    for name, (what, cure) in _KAFKA_CURES.items():
        error = by_name.get(name)
        if error is not None:
            return problem(step, f"{what}: {error.str()}", cure.format(security=security))
    error = next(iter(by_name.values()), last)
    what, cure = _KAFKA_CURES.get(last.name(), ("Kafka refuses", "look at the broker's log"))
    return problem(step, f"{what}: {error.str()}", cure.format(security=security))
