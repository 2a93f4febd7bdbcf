"""Who may ask the API for what: every route, by role and by where the request comes from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import product
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from headgate.agent.api.access import CertificateGrant, Role, guard
from headgate.agent.api.access.guard import OPEN_PATHS, host_name
from headgate.agent.api.routes import PROBES, ROUTES, ApiRoute, make_application

BODIES = {
    "/v1/flows": b'{"source": "x"}',
    "/v1/flows/{name}/run": b'{"action": "a"}',
    "/v1/flows/{name}/cancel": b'{"action": "a"}',
    "/v1/flows/{name}/stages/rebuild": b'{"action": "a"}',
    "/v1/flows/{name}/stages/compact": b'{"action": "a"}',
    "/v1/flows/{name}/waves": b"{}",
    "/v1/flows/{name}/knowledge/trim": b'{"waves": 1}',
    "/v1/flows/{name}/sign": b'{"value": "", "seal": ""}',
}
QUERIES = {"/v1/flows/{name}/logs": "?of=a"}
_NAMED = "agent-1.example:7680"
ORIGINS: dict[str, tuple[dict[str, str], bool]] = {
    "a command": ({}, True),
    "a page of the agent's own": ({"origin": "http://127.0.0.1:7680"}, True),
    "the same by name": ({"origin": f"http://{_NAMED}", "host": _NAMED}, True),
    "an address typed in": ({"sec-fetch-site": "none"}, True),
    "a fetch of its own page": ({"sec-fetch-site": "same-origin"}, True),
    "another page": ({"origin": "https://evil.example"}, False),
    "a file or a sandbox": ({"origin": "null"}, False),
    "another port of this machine": ({"origin": "http://127.0.0.1:8080"}, False),
    "another scheme": ({"origin": "https://127.0.0.1:7680"}, False),
    "a form of another page": ({"sec-fetch-site": "cross-site"}, False),
    "a page of a neighbour": ({"sec-fetch-site": "same-site"}, False),
    "a name that was bound anew": ({"host": "evil.example:7680"}, False),
    "such a page's own origin": (
        {"host": "evil.example:7680", "origin": "http://evil.example:7680"},
        False,
    ),
}
"""Headers by which a request says where it comes from, and whether it passes."""


def path_of(route: ApiRoute) -> str:
    path = route.path.replace("{name}", "air").replace("{wave:int}", "3")
    return path + QUERIES.get(route.path, "")


def body_of(route: ApiRoute) -> bytes | None:
    return BODIES.get(route.path) if route.method == "POST" else None


def case(route: ApiRoute) -> str:
    return f"{route.method} {route.path}"


@pytest.mark.parametrize("route", ROUTES, ids=case)
def test_a_route_does_what_its_role_allows_whoever_asks_and_from_wherever(
    api: Any, token_of: Mapping[Role, str], own_token: str, route: ApiRoute
) -> None:
    async def ask(token: str | None, headers: dict[str, str]) -> tuple[int, bool]:
        api.agent.found.clear()
        answer = await api.ask(
            route.method, path_of(route), headers, token=token, content=body_of(route)
        )
        return answer.status_code, bool(api.agent.found)

    async def ask_all() -> None:
        for (role, token), (origin, (headers, own)) in product(token_of.items(), ORIGINS.items()):
            status, came_through = await ask(token, headers)
            assert came_through is (own and role.covers(route.role)), (role, origin, status)
            if not own:
                assert status in {403, 421}, (role, origin)
            elif not came_through:
                assert status == 403, (role, origin)
        for origin, (headers, own) in ORIGINS.items():
            for strange in (None, "headgate_nobody-knows-this-token", ""):
                status, came_through = await ask(strange, headers)
                assert not came_through, (origin, strange)
                assert status == 401 if own else status in {403, 421}, (origin, strange)
        assert (await ask(own_token, {}))[1]

    asyncio.run(ask_all())


def test_the_roles_are_what_is_documented() -> None:
    changes = {
        role: {
            "submit" if case(route) == "POST /v1/flows" else case(route).rpartition("/")[2]
            for route in ROUTES
            if route.role is role and route.method != "GET"
        }
        for role in Role
    }
    assert changes == {
        Role.READ: set(),
        Role.OPERATE: {
            *("pause", "resume", "run", "cancel", "retry", "release", "waves", "train"),
            *("rebuild", "compact"),
        },
        Role.DEFINE: {"submit", "update", "sign", "knowledge", "trim", "{name}"},
    }
    assert {route.path for route in PROBES} == OPEN_PATHS


@pytest.mark.parametrize("path", sorted(OPEN_PATHS))
def test_probes_need_neither_token_nor_host(api: Any, path: str) -> None:
    answer = asyncio.run(api.ask("GET", path, {"host": "10.1.2.3:7680"}))
    assert answer.status_code == 200


@pytest.mark.parametrize("path", sorted(OPEN_PATHS))
def test_probes_can_be_kept_from_strangers(
    make_api: Callable[..., Any], token_of: Mapping[Role, str], path: str
) -> None:
    api = make_api(open_probes=False)
    assert asyncio.run(api.ask("GET", path)).status_code == 401
    assert asyncio.run(api.ask("GET", path, token=token_of[Role.READ])).status_code == 200


def test_what_is_no_probe_is_none_by_another_spelling(api: Any) -> None:
    for path in ("/healthz/", "/healthz/../v1/flows", "/metrics%2f..%2fv1/flows", "/nowhere"):
        assert asyncio.run(api.ask("GET", path)).status_code == 401, path
    assert api.agent.found == []


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"]
)
def test_a_body_that_is_not_json_is_refused(
    api: Any, token_of: Mapping[Role, str], kind: str
) -> None:
    headers = {"content-type": kind}
    body = b'{"source": "x"}'
    answer = asyncio.run(
        api.ask("POST", "/v1/flows", headers, token=token_of[Role.DEFINE], content=body)
    )
    assert answer.status_code == 415
    assert "application/json" in answer.json()["error"]
    assert api.agent.found == []


class Dripping:
    """A body that counts how much of it was taken."""

    def __init__(self, size: int) -> None:
        self.taken = 0
        self._size = size

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.taken < self._size:
            self.taken += 1024
            yield bytes(1024)


def test_a_body_that_says_it_is_too_long_is_not_read(
    api: Any, token_of: Mapping[Role, str]
) -> None:
    body = Dripping(300 << 20)
    headers = {"content-length": str(300 << 20)}
    answer = asyncio.run(
        api.ask("POST", "/v1/flows", headers, token=token_of[Role.DEFINE], content=body)
    )
    assert answer.status_code == 413
    assert "access.body_bytes" in answer.json()["error"]
    assert answer.headers["connection"] == "close"
    assert body.taken == 0


def test_a_body_that_does_not_say_how_long_it_is_is_read_to_the_limit(
    api: Any, token_of: Mapping[Role, str]
) -> None:
    body = Dripping(300 << 20)
    headers = {"transfer-encoding": "chunked"}
    answer = asyncio.run(
        api.ask("POST", "/v1/flows", headers, token=token_of[Role.DEFINE], content=body)
    )
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
    assert body.taken == 4096 + 1024


def test_a_body_that_does_not_come_is_not_waited_for(
    api: Any, token_of: Mapping[Role, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    monkeypatch.setattr(guard, "_BODY_SECONDS", 0.0)
    headers = {"transfer-encoding": "chunked"}
    answer = asyncio.run(
        api.ask("POST", "/v1/flows", headers, token=token_of[Role.DEFINE], content=never())
    )
    assert answer.status_code == 408
    assert answer.headers["connection"] == "close"


def test_without_its_guard_the_api_answers_probes_alone(api: Any) -> None:
    async def ask(path: str) -> int:
        application = make_application(api.agent, None)  # type: ignore[arg-type]
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.get(path)).status_code

    assert asyncio.run(ask("/healthz")) == 200
    assert asyncio.run(ask("/v1/flows")) == 401
    assert api.agent.found == []


def test_nothing_is_read_of_a_stranger(api: Any, token_of: Mapping[Role, str]) -> None:
    headers = {"transfer-encoding": "chunked"}
    for token in (None, token_of[Role.READ]):
        body = Dripping(300 << 20)
        answer = asyncio.run(api.ask("POST", "/v1/flows", headers, token=token, content=body))
        assert answer.status_code == (401 if token is None else 403)
        assert answer.headers["connection"] == "close"
        assert body.taken == 0


def test_who_shows_no_token_is_told_where_there_is_one(api: Any) -> None:
    answer = asyncio.run(api.ask("GET", "/v1/flows"))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    for cure in ("HEADGATE_TOKEN", "--token-file", "headgate token"):
        assert cure in answer.json()["error"]


def test_a_change_is_written_to_the_audit_with_who_what_and_from_where(
    api: Any, token_of: Mapping[Role, str]
) -> None:
    body = b'{"action": "a"}'
    with capture_logs() as lines:
        asyncio.run(
            api.ask("POST", "/v1/flows/air/run", token=token_of[Role.OPERATE], content=body)
        )
        asyncio.run(api.ask("DELETE", "/v1/flows/air", token=token_of[Role.READ]))
        asyncio.run(api.ask("GET", "/v1/flows", token=token_of[Role.READ]))
    done, refused = lines
    assert (done["who"], done["role"], done["source"]) == ("'operate'", "operate", "192.0.2.7")
    assert (done["dataflow"], done["action"]) == ("'air'", "'a'")
    assert done["request"] == "'POST /v1/flows/air/run'"
    assert (refused["who"], refused["status"]) == ("'read'", 403)
    assert refused["event"] == "change refused"


def test_strangers_are_told_of_in_the_log_without_filling_it(api: Any) -> None:
    with capture_logs() as lines:
        for _ in range(50):
            asyncio.run(api.ask("POST", "/v1/flows/a%0Ab", token="headgate_guessed-by-a-stranger"))
    assert 0 < len(lines) < 50
    assert {(line["reason"], line["source"]) for line in lines} == {("token", "192.0.2.7")}
    assert "guessed" not in str(lines)


def test_whoever_asks_writes_no_line_of_the_audit(api: Any, token_of: Mapping[Role, str]) -> None:
    path = "/v1/flows/a%0Aevent=forged/run"
    body = b'{"action": "b\\nevent=forged"}'
    with capture_logs() as lines:
        asyncio.run(api.ask("POST", path, token=token_of[Role.OPERATE], content=body))
    (line,) = lines
    assert "\n" not in "".join(str(value) for value in line.values())


def test_no_secret_is_in_a_log_an_answer_or_a_metric(
    api: Any, token_of: Mapping[Role, str], own_token: str
) -> None:
    shown = [*token_of.values(), own_token, "headgate_a-token-that-was-mistyped"]
    requests: list[tuple[str, str, bytes | None]] = [
        ("POST", "/v1/flows", b'{"source": "x"}'),
        ("POST", "/v1/flows", b'{"source": 1}'),
        ("GET", "/v1/flows/air", None),
        ("DELETE", "/v1/flows/air", None),
        ("GET", "/nowhere", None),
    ]
    with capture_logs() as lines:
        answers = [
            asyncio.run(api.ask(method, path, token=token, content=content))
            for token in shown
            for method, path, content in requests
        ]
    seen = [str(lines), api.agent.metrics.text().decode(), str(api.denied)]
    seen += [answer.text + str(answer.headers) for answer in answers]
    assert len(lines) > 0
    for secret in shown:
        assert not any(secret in each for each in seen)


def test_a_token_is_taken_back_without_a_restart(api: Any, token_of: Mapping[Role, str]) -> None:
    token, other = token_of[Role.DEFINE], "headgate_the-token-of-another"
    assert asyncio.run(api.ask("GET", "/v1/flows", token=token)).status_code == 200
    api.write_tokens({"other": (Role.READ, other)})
    assert asyncio.run(api.ask("GET", "/v1/flows", token=token)).status_code == 401
    assert asyncio.run(api.ask("GET", "/v1/flows", token=other)).status_code == 200


def test_a_file_that_was_spoiled_changes_nothing(api: Any, token_of: Mapping[Role, str]) -> None:
    for spoiled in ("[[tokens", '[[tokens]]\nname = "x"\n'):
        api.tokens_file.write_text(spoiled)
        answer = asyncio.run(api.ask("GET", "/v1/flows", token=token_of[Role.READ]))
        assert answer.status_code == 200, spoiled
    # An empty file is no spoiled one: nobody has a token any more.
    api.tokens_file.write_text("")
    assert asyncio.run(api.ask("GET", "/v1/flows", token=token_of[Role.READ])).status_code == 401


def test_the_agents_own_token_is_changed_with_both_valid_for_a_while(
    api: Any, own_token: str
) -> None:
    new = "headgate_the-next-of-the-agents"
    for content, valid in (
        (f"{own_token}\n{new}\n", {own_token, new}),
        (f"{new}\n", {new}),
        ("short\n", {new}),
    ):
        api.own_file.write_text(content)
        for token in (own_token, new):
            answer = asyncio.run(api.ask("GET", "/v1/flows", token=token))
            assert (answer.status_code == 200) is (token in valid), (content, token)


def standing_for(name: str, role: str) -> dict[str, str]:
    return {"headgate-caller": name, "headgate-role": role}


def test_an_agent_asks_in_the_place_of_a_caller_with_no_more_rights_than_both(
    api: Any, token_of: Mapping[Role, str], own_token: str
) -> None:
    async def removes(token: str, said: str) -> bool:
        api.agent.found.clear()
        await api.ask("DELETE", "/v1/flows/air", standing_for("eve", said), token=token)
        return bool(api.agent.found)

    async def ask_all() -> None:
        assert await removes(own_token, "define")
        assert not await removes(own_token, "operate")
        assert not await removes(own_token, "read")
        assert not await removes(token_of[Role.READ], "define")
        assert not await removes(token_of[Role.OPERATE], "define")

    with capture_logs() as lines:
        asyncio.run(ask_all())
    assert [(line["who"], line["via"]) for line in lines] == [
        ("'eve'", via) for via in ("'agent'", "'agent'", "'agent'", "'read'", "'operate'")
    ]


@pytest.mark.parametrize(
    "said", [("eve", "root"), ("eve", ""), ("e\tve", "read"), ("e" * 101, "read")]
)
def test_a_caller_that_is_told_wrongly_is_refused(
    api: Any, own_token: str, said: tuple[str, str]
) -> None:
    answer = asyncio.run(api.ask("GET", "/v1/flows", standing_for(*said), token=own_token))
    assert answer.status_code == 400


GRANTS = (
    CertificateGrant("alice", Role.OPERATE, common_name="alice"),
    CertificateGrant("build", Role.DEFINE, uri="spiffe://site/build"),
    CertificateGrant("dash", Role.READ, dns="dash.example"),
)


@pytest.mark.parametrize(
    ("certificate", "status", "who"),
    [
        ({"subject": ((("commonName", "alice"),),)}, 403, "alice"),
        ({"subject": (), "subjectAltName": (("URI", "spiffe://site/build"),)}, 404, "build"),
        ({"subject": (), "subjectAltName": (("DNS", "dash.example"),)}, 403, "dash"),
        # What a certificate says in one place counts for nothing in another.
        ({"subject": ((("commonName", "dash.example"),),)}, 401, None),
        ({"subject": (), "subjectAltName": (("DNS", "alice"),)}, 401, None),
        ({"subject": ((("organizationName", "alice"),),)}, 401, None),
    ],
)
def test_a_client_certificate_has_the_role_of_its_name(
    make_api: Callable[..., Any], certificate: Any, status: int, who: str | None
) -> None:
    api = make_api(certificates=GRANTS)
    with capture_logs() as lines:
        answer = asyncio.run(api.ask("DELETE", "/v1/flows/air", certificate=certificate))
    assert answer.status_code == status
    assert [line["who"] for line in lines if "who" in line] == ([repr(who)] if who else [])


@pytest.mark.parametrize(
    "name", ["host", "authorization", "origin", "content-length", "headgate-caller"]
)
def test_a_header_that_is_there_twice_is_refused(api: Any, own_token: str, name: str) -> None:
    headers = [("authorization", f"Bearer {own_token}"), ("host", "127.0.0.1")]
    more = [(name, value) for key, value in headers if key == name] or [(name, "0")]
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/flows",
        "raw_path": b"/v1/flows",
        "scheme": "http",
        "query_string": b"",
        "headers": [(k.encode(), v.encode()) for k, v in (*headers, *more, more[0])],
    }
    asyncio.run(api.guard(scope, None, send))
    assert sent[0]["status"] in {400, 403}
    assert api.agent.found == []


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("127.0.0.1:7680", "127.0.0.1"),
        ("[::1]:7680", "::1"),
        ("Agent-1.Example.:7680", "agent-1.example"),
        ("localhost", "localhost"),
        ("localhost.evil.example", "localhost.evil.example"),
        ("", ""),
    ],
)
def test_the_host_is_a_name_without_its_port(written: str, name: str) -> None:
    assert host_name(written) == name


def test_behind_a_proxy_the_scheme_of_a_page_is_the_proxys(
    make_api: Callable[..., Any], own_token: str
) -> None:
    headers = {"origin": "https://agent-1.example", "host": "agent-1.example"}
    proxied, plain = make_api(proxied=True), make_api()
    assert asyncio.run(proxied.ask("GET", "/v1/flows", headers, token=own_token)).is_success
    assert asyncio.run(plain.ask("GET", "/v1/flows", headers, token=own_token)).status_code == 403


def test_a_fault_of_the_agents_own_is_told_without_its_words(api: Any, own_token: str) -> None:
    def fail(_: str) -> Any:
        raise ValueError("the password is swordfish")

    api.agent.row = fail
    with capture_logs():
        answer = asyncio.run(api.ask("GET", "/v1/flows/air", token=own_token))
    assert answer.status_code == 500
    assert "ValueError" in answer.json()["error"]
    assert "swordfish" not in answer.text


@pytest.mark.parametrize(
    ("trouble", "stuck", "statuses"),
    [
        (None, (), {"/livez": 200, "/readyz": 200, "/healthz": 200}),
        (None, ("the loop of air",), {"/livez": 503, "/readyz": 503, "/healthz": 503}),
        # A restart would not bring HBase back, and would end what runs.
        ("HBase is away", (), {"/livez": 200, "/readyz": 503, "/healthz": 503}),
    ],
)
def test_a_loop_that_does_not_turn_makes_the_agent_unhealthy(
    api: Any, trouble: str | None, stuck: tuple[str, ...], statuses: Mapping[str, int]
) -> None:
    api.agent.troubled, api.agent.not_turning = trouble, stuck
    for path, status in statuses.items():
        answer = asyncio.run(api.ask("GET", path))
        assert answer.status_code == status, path
        assert all(each in answer.text for each in stuck) or status == 200
