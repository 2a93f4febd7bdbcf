"""What outputs reflect: which runs, and through them which updates, are in what they hold."""

from headgate.temporal.reflections import ReflectedRun, Reflections, Span
from headgate.temporal.tracker import ReflectionTracker, Sources

__all__ = ["ReflectedRun", "ReflectionTracker", "Reflections", "Sources", "Span"]
