from collections.abc import Callable

import pytest

Workflow = Callable[..., str]


@pytest.fixture
def workflow() -> Workflow:
    """A workflow's XML with these nodes, from ``start`` to ``end`` with one ``kill``."""

    def text(*nodes: str, start: str = "a", version: str = "0.2", name: str = "w") -> str:
        inner = "\n".join(f"  {node}" for node in nodes)
        return (
            f'<workflow-app name="{name}" xmlns="uri:oozie:workflow:{version}">\n'
            f'  <start to="{start}"/>\n{inner}\n'
            '  <kill name="failed"><message>failed</message></kill>\n  <end name="end"/>\n'
            "</workflow-app>\n"
        )

    return text


@pytest.fixture
def action() -> Callable[..., str]:
    """An action's XML, in one line."""

    def text(
        name: str,
        ok: str = "end",
        *,
        qod: str = "",
        error: str = "failed",
        body: str = "<java><main-class>M</main-class></java>",
        more: str = "",
    ) -> str:
        return (
            f'<action name="{name}"{more}>{qod}{body}<ok to="{ok}"/><error to="{error}"/></action>'
        )

    return text
