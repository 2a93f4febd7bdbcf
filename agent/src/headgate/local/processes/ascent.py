"""The way up: parts side by side, each as soon as those before it are ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from headgate.local.errors import PartFailedError
from headgate.local.places import InstancePlaces
from headgate.local.processes import processes
from headgate.local.processes.launch import PartLauncher
from headgate.local.processes.parts import Part, PartPlan, log_says
from headgate.local.processes.ports import HOST, Port
from headgate.local.processes.processes import Children, ProcessIdentity
from headgate.local.processes.recovery import RecoveryState
from headgate.local.processes.zookeeper import remove_dead_servers
from headgate.local.progress import Listener, Progress

_POLL_SECONDS = 0.1
_ADOPTED_SECONDS = 20.0  # for a part that ran before to find the others again, else it is restarted
_LOG_TAIL_LINES = 25
_JAVA_CRASHED = b"A fatal error has been detected by the Java Runtime Environment"


class Ascent:
    """Brings the parts up side by side, each as soon as those before it are ready."""

    def __init__(
        self,
        places: InstancePlaces,
        plans: Mapping[Part, PartPlan],
        launcher: PartLauncher,
        ports: Mapping[str, int],
        before: Mapping[Part, ProcessIdentity],
        children: Children,
        listen: Listener,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._places = places
        self._plans = plans
        self._children = children
        self._launcher = launcher
        self._ports = ports
        self._listen = listen
        self._clock = clock
        self._pause = pause
        self._adopted = dict(before)
        self._running = dict(before)
        self._moved: dict[Part, float] = {}
        self._recovery: dict[Part, RecoveryState] = {}
        self._ready: set[Part] = set()
        self._expelled: ProcessIdentity | None = None

    def run(self) -> None:
        """Return when all parts are ready."""
        while len(self._ready) < len(self._plans):
            for plan in self._plans.values():
                if plan.part not in self._ready and self._ready.issuperset(plan.after):
                    self._advance(plan)
            if len(self._ready) < len(self._plans):
                self._children.reap()
                self._pause(_POLL_SECONDS)

    def _advance(self, plan: PartPlan) -> None:
        part = plan.part
        now = self._clock()
        if part not in self._running:
            self._listen(Progress(subject=part.value, text="starting"))
            self._running[part] = self._launcher.start(plan)
            self._moved[part] = now
            self._recovery.pop(part, None)
            return
        self._moved.setdefault(part, now)
        port = self._ports[plan.ports[0].key]
        if plan.is_ready(self._running[part], self._places.log(part.value), port):
            self._launcher.mark_initialised(part)
            self._ready.add(part)
            verb = "runs" if part in self._adopted else "ready"
            self._listen(Progress(subject=part.value, text=f"{verb} at {HOST}:{port}"))
            return
        self._follow_recovery(plan, now)
        waited = now - self._moved[part]
        if part is Part.HBASE:
            self._expel_its_dead_forerunner(plan)
        if part in self._adopted:
            self._renew_if_lost(plan, waited)
        elif not self._running[part].lives():
            if log_says(self._places.log(part.value), _JAVA_CRASHED):
                self._launcher.forget_archive(plan)  # of all that it loads, this alone is unchecked
            raise PartFailedError(self._failure(plan, "ended while it was starting"))
        elif waited > plan.start_seconds:
            what = f"did not answer within {plan.start_seconds:g} s"
            if self._recovers(part):
                what = f"stood still for {plan.start_seconds:g} s while it recovered its data"
            raise PartFailedError(self._failure(plan, what))

    def _follow_recovery(self, plan: PartPlan, now: float) -> None:
        """Count a part's patience from its last step; how long all of them take is its data's."""
        if plan.recovery is None:
            return
        part = plan.part
        state = plan.recovery.state(self._places.log(part.value))
        before = self._recovery.get(part)
        self._recovery[part] = state
        if before is None or state == before:
            return
        self._moved[part] = now
        if state.is_under_way and (state.done, state.total) != (before.done, before.total):
            text = "recovering its logs after an end in disorder"
            self._listen(
                Progress(subject=part.value, text=text, done=state.done, total=state.total)
            )

    def _recovers(self, part: Part) -> bool:
        return self._recovery.get(part, RecoveryState()).is_under_way

    def _expel_its_dead_forerunner(self, plan: PartPlan) -> None:
        if self._expelled == self._running[plan.part]:
            return
        try:
            paths = remove_dead_servers(
                self._ports[Port.ZOOKEEPER.key], self._running[plan.part].started
            )
        except OSError:
            return  # ZooKeeper does not listen yet: the next round asks again
        self._expelled = self._running[plan.part]
        if paths:
            self._listen(
                Progress(subject=plan.part.value, text="taking over from one that was killed")
            )

    def _renew_if_lost(self, plan: PartPlan, waited: float) -> None:
        """Restart a part that ran before but does not find its way back, or died meanwhile."""
        identity = self._running[plan.part]
        # One whose starter was killed may still be starting.
        young = time.time() - identity.started < plan.start_seconds
        patience = plan.start_seconds if self._recovers(plan.part) else _ADOPTED_SECONDS
        if identity.lives() and (young or waited <= patience):
            return
        self._listen(Progress(subject=plan.part.value, text="does not answer, restarting"))
        processes.end([identity], 0, self._children.reap)
        del self._adopted[plan.part]
        del self._running[plan.part]

    def _failure(self, plan: PartPlan, what: str) -> str:
        log = self._places.log(plan.part.value)
        lines = log.read_text(errors="backslashreplace").splitlines() if log.exists() else []
        tail = "\n".join(f"  {line[:300]}" for line in lines[-_LOG_TAIL_LINES:])
        return f"{plan.part.value} {what}; the end of {log}:\n{tail}"
