"""Who may do what with which table: decided as far as possible when a client connects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import structlog

from headgate.events import Origin, fits_table
from headgate.hbase import Effect, Method, Pattern, Request, TableIn, Write
from headgate.observer.config import (
    UNKNOWN_WRITER,
    AccessSettings,
    Allow,
    ClientCertificate,
    Identity,
    Listener,
)
from headgate.observer.monitoring.client_log import ClientLog
from headgate.observer.monitoring.excerpts import LABEL, excerpt
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.security.permits import Permit, Refusal
from headgate.observer.security.state_tables import StateTables
from headgate.settings import LogRate, canonical_ip, canonical_network

_log = structlog.get_logger("headgate.observer.security.access")

_LEVELS: Final = {Allow.NOTHING: 0, Allow.READ: 1, Allow.WRITE: 2, Allow.DEFINE: 3}
_ALLOWS: Final = tuple(_LEVELS)
_DEEDS: Final = ("", "read", "write to", "define")
_NEEDED: Final = {
    Effect.READ: 1,
    Effect.WRITE: 2,
    Effect.DEFINE: 3,
    Effect.ADMIN: 3,
    # What is not known may do anything.
    Effect.UNKNOWN: 3,
}
_MAX_KNOWN: Final = 10_000  # decisions remembered: origins and tables are clients' to invent


class ListenerGuard:
    """Applies networks, identities and rules for one listener."""

    def __init__(
        self,
        name: str,
        listener: Listener,
        access: AccessSettings | None,
        *,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        """Apply the configuration; ``clock`` is any time in seconds."""
        self._name = name
        self._metrics = metrics
        self._rate = LogRate(clock)
        self._networks = tuple(map(canonical_network, listener.networks))
        self._asks_who = access is not None or listener.origin is not None
        self._access = access or AccessSettings()
        self._levels: dict[tuple[str, str], int] = {}
        self._state = StateTables(self._access)
        self._has_rules = bool(self._access.rules) or self._access.default is not Allow.DEFINE
        self._port = _permit(listener.origin) if listener.origin is not None else None
        self._cleared: dict[Permit, set[Pattern]] = {}

    @staticmethod
    def needed(listener: Listener, access: AccessSettings | None) -> bool:
        """Return whether anything is configured that a guard would apply."""
        return access is not None or listener.origin is not None or bool(listener.networks)

    def admits(self, host: str) -> bool:
        """Return whether a host may connect; a refusal is logged and counted."""
        if not self._networks:
            return True
        # An IPv4 client of a socket for both comes as ::ffff:10.0.0.1, and v6 may name a scope.
        address = canonical_ip(host.partition("%")[0])
        if any(address in network for network in self._networks):
            return True
        self._metrics.count_refusal("network")
        left_out = self._rate.admit()
        if left_out is not None:
            _log.warning(
                "client refused: it is in none of the listener's networks",
                listener=self._name,
                client=host,
                left_out=left_out,
            )
        return False

    def permit(self, certificate: Mapping[str, Any] | None) -> Permit | None:
        """Return what is known of a client, by its verified certificate if it showed one.

        None: nothing hangs on who it is, and its requests need not be looked at.
        """
        if not self._asks_who:
            return None
        if certificate:
            for entry in self._access.certificates:
                if _is_of(certificate, entry):
                    return _permit(entry)
        return self._port or Permit(None, self._access.claims)

    def cleared(self, permit: Permit) -> set[Pattern]:
        """Return the kinds of request that passed once for a permit, so that they always will.

        Requests of one kind are for one method and table, name no origin, and differ in nothing but
        strings and numbers: all that is judged is the same. Other rules come with another guard.
        """
        return self._cleared.setdefault(permit, set())

    def judge(self, permit: Permit, request: Request) -> Refusal | None:
        """Return why a request of a connection with the permit is refused; None: it may pass."""
        method, tables = request.method, request.tables
        write = request.change if isinstance(request.change, Write) else None
        claimed: Sequence[Origin | None] = ()
        if write is not None:
            if write.origin_error:
                return _refusal(
                    permit.origin,
                    "headgate: nobody can tell in whose name this request would write: "
                    f"{write.origin_error}; send it as headgate's own clients do",
                )
            # An agent's proof names nobody: its writes are judged by who connects.
            claimed = [
                None if origin is None or origin.nameless else origin for origin in write.origins
            ]
        if self._state.concern(permit.origin, method, tables):
            text = self._state.refusal(permit.origin, method, tables, write)
            if text:
                return _refusal(permit.origin, text)
        return self.refusal(permit, method, tables, claimed)

    def refusal(
        self,
        permit: Permit,
        method: Method,
        tables: Sequence[str],
        claimed: Sequence[Origin | None],
    ) -> Refusal | None:
        """Return why a request is refused; None when it may pass.

        Args:
            permit: the connection's.
            method: what is asked for.
            tables: those that the request names.
            claimed: the origins that the request names; None among them for parts without any.
        """
        for origin in claimed:
            if origin is not None and not permit.may_claim(origin):
                return _refusal(permit.origin, _no_claim(permit, origin))
        if not self._has_rules:
            return None
        needed = _NEEDED[method.effect]
        for each in claimed or (None,):
            who = permit.origin if each is None else each
            name = UNKNOWN_WRITER if who is None else who.name
            if not tables and method.table in (TableIn.PATTERN, TableIn.NAMES):
                # It shows whatever tables there are.
                if self._reads_everything(name):
                    continue
                text = (
                    f"headgate: origin {excerpt(name)!r} may not read every table, and "
                    f"{method.name} shows whatever there is; name tables that it may read, or "
                    "put a rule before all others of it with allow = 'read' and tables = ['*'] in "
                    "the observer's configuration"
                )
                return _refusal(who, text)
            if not tables and method.effect is Effect.READ:
                # Of an open scanner, or lists of names: for whom reading is allowed anywhere.
                if self._reads_anything(name):
                    continue
                return _refusal(who, self._not_allowed(name, "", needed))
            for table in tables or ("",):
                if self._level(name, table) < needed:
                    return _refusal(who, self._not_allowed(name, table, needed))
        return None

    def note(self, refusal: Refusal, request: Request, log: ClientLog) -> None:
        """Count and log that a request was refused; ``log`` is its connection's."""
        self._metrics.count_denied(self._name, refusal.origin)
        log.warning(
            "request refused",
            method=request.message.name,
            request=request.message.seqid,
            tables=list(request.tables),
            origin=refusal.origin,
            reason=refusal.text,
        )

    def _level(self, name: str, table: str) -> int:
        level = self._levels.get((name, table))
        if level is None:
            number = self._rule(name, table)
            rules = self._access.rules
            allow = self._access.default if number is None else rules[number].allow
            level = _LEVELS[allow]
            if len(name) <= LABEL and len(table) <= LABEL:
                if len(self._levels) >= _MAX_KNOWN:
                    self._levels.clear()
                self._levels[name, table] = level
        return level

    def _rule(self, name: str, table: str) -> int | None:
        for number, rule in enumerate(self._access.rules):
            if fnmatchcase(name, rule.origin) and any(
                fits_table(pattern, table) for pattern in rule.tables
            ):
                return number
        return None

    def _reads_anything(self, name: str) -> bool:
        readable = _LEVELS[Allow.READ]
        return _LEVELS[self._access.default] >= readable or any(
            _LEVELS[rule.allow] >= readable and fnmatchcase(name, rule.origin)
            for rule in self._access.rules
        )

    def _reads_everything(self, name: str) -> bool:
        readable = _LEVELS[Allow.READ]
        for rule in self._access.rules:
            if fnmatchcase(name, rule.origin):
                if _LEVELS[rule.allow] < readable:
                    return False
                if "*" in rule.tables:
                    return True
        return _LEVELS[self._access.default] >= readable

    def _not_allowed(self, name: str, table: str, needed: int) -> str:
        number = self._rule(name, table)
        if number is None:
            why = f"no rule of [access] fits, and default is {self._access.default.value!r}"
        else:
            rule = self._access.rules[number]
            why = (
                f"access.rules[{number}] (origin {rule.origin!r}, tables {list(rule.tables)}) "
                f"allows {rule.allow.value!r}"
            )
        what = f"table {excerpt(table)}" if table else "what belongs to no single table"
        return (
            f"headgate: origin {excerpt(name)!r} may not {_DEEDS[needed]} {what}: {why}; to allow "
            f"it, put a rule before it with allow = {_ALLOWS[needed].value!r} in the observer's "
            "configuration"
        )


def _refusal(who: Origin | None, text: str) -> Refusal:
    return Refusal(UNKNOWN_WRITER if who is None else who.name, text)


def _no_claim(permit: Permit, claimed: Origin) -> str:
    own = permit.origin
    if own is None:
        return (
            "headgate: a client without certificate may not say that it is "
            f"{excerpt(claimed.name)!r}; connect with a certificate of [[access.certificates]], or "
            "add it to access.claims"
        )
    return (
        f"headgate: a client that is {own.name!r} may not say that it is "
        f"{excerpt(claimed.name)!r}; connect as that one, or add it to this client's claims in the "
        "observer's configuration"
    )


def _permit(identity: Identity | ClientCertificate) -> Permit:
    origin = Origin(identity.dataflow, identity.action, "", 0, identity.writer)
    own = () if identity.writer else (f"{identity.dataflow}/{identity.action or '*'}",)
    return Permit(origin, (*own, *identity.claims))


def _is_of(certificate: Mapping[str, Any], entry: ClientCertificate) -> bool:
    """Return whether a certificate, as Python's ``getpeercert`` gives it, bears the name."""
    if entry.common_name:
        names = [
            value
            for relative in certificate.get("subject", ())
            for kind, value in relative
            if kind == "commonName"
        ]
        return any(fnmatchcase(name, entry.common_name) for name in names)
    names = certificate.get("subjectAltName", ())
    if entry.uri:
        return any(kind == "URI" and fnmatchcase(name, entry.uri) for kind, name in names)
    # Names of hosts have no case.
    pattern = entry.dns.lower()
    return any(kind == "DNS" and fnmatchcase(name.lower(), pattern) for kind, name in names)
