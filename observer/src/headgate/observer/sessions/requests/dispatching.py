"""What becomes of a client's requests: each is refused, held, or goes on now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from headgate.events import Gate
from headgate.hbase import Effect, Pattern, Request, Write
from headgate.observer.monitoring.client_log import ClientLog
from headgate.observer.recording.journal_errors import JournalError, JournalFull
from headgate.observer.security.permits import Permit
from headgate.observer.sessions.connection_pair import HELD, ConnectionPair
from headgate.observer.sessions.endpoint import Endpoint
from headgate.observer.sessions.exchange import Exchange
from headgate.observer.sessions.holdings import UNANSWERED
from headgate.observer.sessions.requests.answers import Answers
from headgate.observer.sessions.requests.forwarding import Forwarder
from headgate.observer.sessions.write_rules import (
    Hold,
    JournalAndForward,
    Refuse,
    Wait,
    judge,
)

_MOST_CLEARED: Final = 4096  # kinds of request remembered for one client: one listener has as many


@final
class RequestDispatcher:
    """Does with each request what the rules say at the moment, and again when one goes on.

    Gates and the journal's admission know it as the one whose request they hold.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        log: ClientLog,
        connections: ConnectionPair,
        forwarder: Forwarder,
        answers: Answers,
        go_on_after: Callable[[int], None],
    ) -> None:
        """Begin with a client of which nothing is known.

        ``go_on_after`` gets why requests were paused, and takes those behind a held one.
        """
        self._endpoint = endpoint
        self._log = log
        self._connections = connections
        self._forwarder = forwarder
        self._answers = answers
        self._go_on_after = go_on_after
        self.facts = endpoint.facts()
        """What the client's requests are judged by."""
        self.permit: Permit | None = None
        """What the guard knows of the client; None where nothing hangs on that."""
        self.cleared: set[Pattern] = set()
        """Kinds of request that the guard lets this client make."""
        self._waiting: Request | None = None
        """What waits for room in the journal."""
        self._at_gate: Request | None = None
        self._behind_delete: Request | None = None
        """Request that waits until no delete can hide it; None if there is none."""

    def identify(self) -> None:
        """Ask the guard what is known of the client, and whether it may be here at all."""
        client, endpoint = self._connections.client, self._endpoint
        guard = endpoint.guard
        if client is None or guard is None:
            self.permit = None
            self.facts = endpoint.facts()
            return
        peer = self._log.peer
        if peer and not guard.admits(peer[0]):
            self._connections.abort()
            return
        permit = self.permit = guard.permit(client.get_extra_info("peercert"))
        if permit is not None:
            self.cleared = guard.cleared(permit)
        self.facts = endpoint.facts(permit)

    def holds(self) -> bool:
        """Return whether a request is held."""
        held = (self._waiting, self._at_gate, self._behind_delete)
        return any(each is not None for each in held)

    @property
    def held_bytes(self) -> int:
        """How long the request is that is held; 0 if there is none."""
        held = self._waiting or self._at_gate
        return 0 if held is None else len(held.message.raw)

    def let_go(self, reason: str) -> None:
        """Answer the request that is held with an IOError that may be retried."""
        text = f"headgate: {reason}"
        self._endpoint.admission.leave(self)
        self._endpoint.gates.leave(self)
        self.give_up(text)
        self.turn_away(text)

    def leave(self) -> None:
        """Hold nothing any more: the client is gone."""
        self._endpoint.admission.leave(self)
        self._endpoint.gates.leave(self)
        self._waiting = self._at_gate = self._behind_delete = None

    def take(self, request: Request) -> JournalFull | JournalError | None:
        """Do with a request what is right now; return why it must wait for room in the journal."""
        judgement = judge(request, self.facts)
        if isinstance(judgement, Refuse):
            self._answers.turn_down(request, judgement)
            return None
        message = request.message
        if not self._forwarder.has_room(len(message.raw)):
            self._endpoint.metrics.count_request(self._endpoint.name, message.name, "blocked")
            self._answers.io_error(message, UNANSWERED)
            return None
        if self.permit is not None:
            self._clear(request)
        if isinstance(judgement, Hold):
            self._at_gate = request
            self._connections.pause(HELD)
            self._endpoint.gates.hold(self, judgement.gate)
            return None
        if isinstance(judgement, Wait):
            self._behind_delete = request
            self._connections.pause(HELD)
            self._endpoint.loop.call_later(judgement.seconds, self._delete_is_over)
            return None
        if isinstance(judgement, JournalAndForward):
            return self._record(request, judgement.tables)
        if request.method.effect is Effect.READ and request.tables:
            self._endpoint.count_read(request.tables[0], request.message)
        self._forwarder.forward(request.message, self._unrecorded(request))
        return None

    def _unrecorded(self, request: Request) -> Exchange:
        """Return the exchange of a request that nobody records."""
        exchange = Exchange(request.method, request.tables, None)
        change, order = request.change, self._endpoint.order
        if isinstance(change, Write):
            deletion = order.begin(change)
            if deletion is not None:
                exchange.waiters = [lambda: order.deletes.answered(deletion)]
        return exchange

    def _delete_is_over(self) -> None:
        """Take the request that waited for a delete as if it came now."""
        request, self._behind_delete = self._behind_delete, None
        if request is not None:
            self._go_on_with(request)

    def _clear(self, request: Request) -> None:
        """Note that the guard lets this client make requests of the kind."""
        pattern = self._endpoint.patterns.find(request.message.raw)
        if pattern is not None:
            if len(self.cleared) >= _MOST_CLEARED:
                # Most of them are not remembered any more.
                self.cleared.clear()
            self.cleared.add(pattern)

    def _record(
        self, request: Request, tables: tuple[str, ...]
    ) -> JournalFull | JournalError | None:
        """Write a request down for its watched tables, and forward it; return why that waits."""
        endpoint, connections = self._endpoint, self._connections
        origin = self.facts.origin
        try:
            journalled = endpoint.recorder.begin(endpoint.dialect, request, tables)
        except (JournalFull, JournalError) as error:
            if not endpoint.admission.may_pass(tables):
                return error
            endpoint.admission.let_pass(tables)
            self._forwarder.forward_watched(request, self._unrecorded(request), origin)
            return None
        journalled.origin = origin
        exchange = Exchange(request.method, request.tables, journalled)
        if connections.held_replies is not None:
            connections.held_replies.hold(journalled.intent)
        if endpoint.admission.syncs_each:
            connections.pause(HELD)
            endpoint.admission.when_synced(lambda: self._synced(request, exchange))
        else:
            self._forwarder.forward_watched(request, exchange, origin)
        return None

    def _synced(self, request: Request, exchange: Exchange) -> None:
        connections = self._connections
        if connections.upstream is None or connections.client is None:
            self._forwarder.cancel(exchange)
            return
        facts = self.facts
        judgement = judge(request, facts)
        journalled = exchange.journalled
        if (
            isinstance(judgement, JournalAndForward)
            and journalled is not None
            and judgement.tables == journalled.tables
        ):
            self._forwarder.forward_watched(request, exchange, facts.origin)
            self._go_on_after(HELD)
            return
        # What is right for it is not any more what it was before it was on the disk.
        self._forwarder.cancel(exchange)
        self._go_on_with(request)

    def _go_on_with(self, request: Request) -> None:
        """Take a request that was held as if it came now, and then what came behind it."""
        self._connections.lift(HELD)
        try:
            self.wait_for_room(request, self.take(request))
        except Exception as error:  # noqa: BLE001 - a stranger's bytes must not end the process
            self._connections.give_up_on(error)
            return
        self._let_go()

    def _let_go(self) -> None:
        """Read what came behind a request that was held, unless something else holds it now."""
        if not self._connections.paused & HELD:
            self._connections.restore(HELD)
            self._go_on_after(HELD)

    # -- room in the journal

    def wait_for_room(self, request: Request, why: JournalFull | JournalError | None) -> None:
        """Hold a request if there is a reason, until there is room for it in the journal."""
        if why is not None:
            message, table = request.message, request.tables[0]
            about = {"table": table} if table else {}
            self._log.warning(
                "a write waits for room in the journal",
                method=message.name,
                request=message.seqid,
                **about,
                reason=str(why),
            )
            self._waiting = request
            self._connections.pause(HELD)
            self._endpoint.admission.wait(self, why)

    def try_again(self) -> bool:
        """Take what waits for room as if it came now; return whether it waits no more."""
        request = self._waiting
        if request is None:
            return True
        self._waiting = None
        self._connections.lift(HELD)
        if self.take(request) is not None:
            self._waiting = request
            self._connections.restore(HELD)
            return False
        self._let_go()
        return True

    def give_up(self, reason: str) -> None:
        """Answer the waiting request with an IOError that may be retried."""
        if self._waiting is None:
            return
        message = self._waiting.message
        self._waiting = None
        self._endpoint.metrics.count_request(self._endpoint.name, message.name, "blocked")
        self._answers.io_error(message, reason)
        self._go_on_after(HELD)

    # -- gates

    def client_is_gone(self) -> bool:
        """Return whether nobody waits for the answer to the request that a gate holds."""
        connections = self._connections
        client = connections.client
        return client is None or connections.eof or self._endpoint.has_left(client)

    def gate_in_the_way(self) -> Gate | None:
        """Return the gate that is closed to the request that a gate held."""
        if self._at_gate is None:
            return None
        judgement = judge(self._at_gate, self.facts)
        return judgement.gate if isinstance(judgement, Hold) else None

    def go_on(self) -> None:
        """Take the request that a gate held as if it came now."""
        request, self._at_gate = self._at_gate, None
        if request is not None:
            self._go_on_with(request)

    def turn_away(self, reason: str) -> None:
        """Answer the request that a gate holds with an IOError that may be retried."""
        request, self._at_gate = self._at_gate, None
        if request is None:
            return
        message = request.message
        self._endpoint.metrics.count_request(self._endpoint.name, message.name, "gated")
        self._answers.io_error(message, reason)
        self._go_on_after(HELD)

    def drop(self, reason: str) -> None:
        """Answer the request that a gate holds, should anybody listen, and end the connection."""
        self._connections.closing = True
        self.turn_away(reason)
        self._answers.close_when_answered()
