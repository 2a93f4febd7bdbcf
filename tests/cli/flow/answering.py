"""An agent that answers commands as a test says."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from typer.testing import CliRunner

from headgate.cli.flow.commands import app


class Agent:
    """Answers every request with what it is told, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.answers: Any = {}
        self.status = 200
        agent = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("content-length", 0))
                body = self.rfile.read(length)
                agent.asked.append((self.command, self.path, json.loads(body) if body else None))
                content = json.dumps(agent.answers).encode()
                self.send_response(agent.status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815 -- the server looks for these names

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        # Whoever closes it waits for so many seconds at most.
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def run(self, *arguments: str, status: int = 0) -> str:
        result = CliRunner().invoke(app, [*arguments, "--agent", self.address])
        expected = status if self.status == 200 else 1
        assert result.exit_code == expected, result.output
        return result.output
