"""A chat-completions server in a thread that misbehaves as its script says, and remembers what it was asked."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Reply:
    """What the server sends: `body` as it stands, after `wait_s`; `hang_up` closes the connection instead."""

    code: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    hang_up: bool = False
    drip_s: float = 0.0  # pause between the bytes


def completion(content: object, finish: object = "stop", **changes: object) -> Reply:
    message = {"role": "assistant", "content": content}
    return Reply(body=json.dumps({"choices": [{"message": message, "finish_reason": finish}], **changes}).encode())


def picture_of(request: dict) -> bytes:
    url = request["messages"][0]["content"][0]["image_url"]["url"]
    return base64.b64decode(url.partition(",")[2])


class ChatDouble:
    """Answers with `script(request, number of requests for this picture so far)`; use it as a context.

    `models` is what it answers to every GET.
    """

    def __init__(self, script: Callable[[dict, int], Reply], models: Reply | None = None) -> None:
        self.requests: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.got: list[str] = []
        self.n_asked: Counter[bytes] = Counter()
        self.n_answered: Counter[bytes] = Counter()
        self.most_at_once = self._now = 0
        self._lock = threading.Lock()
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                picture = picture_of(request)
                with double._lock:
                    double.requests.append(request)
                    double.headers.append({key.lower(): value for key, value in self.headers.items()})
                    double.paths.append(self.path)
                    number = double.n_asked[picture]
                    double.n_asked[picture] += 1
                    double._now += 1
                    double.most_at_once = max(double.most_at_once, double._now)
                try:
                    self._send(script(request, number), picture)
                except OSError:  # the client has gone
                    self.close_connection = True

            def do_GET(self) -> None:
                reply = models or Reply(code=404)
                with double._lock:
                    double.got.append(self.path)
                time.sleep(reply.wait_s)
                self.send_response(reply.code)
                self.send_header("content-length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            def _send(self, reply: Reply, picture: bytes) -> None:
                try:
                    time.sleep(reply.wait_s)
                finally:
                    with double._lock:
                        double._now -= 1
                if reply.hang_up:
                    self.close_connection = True
                    return
                self.send_response(reply.code)
                for key, value in {"content-length": str(len(reply.body)), **reply.headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                if reply.drip_s:
                    for number in range(len(reply.body)):
                        self.wfile.write(reply.body[number : number + 1])
                        time.sleep(reply.drip_s)
                else:
                    self.wfile.write(reply.body)
                with double._lock:
                    double.n_answered[picture] += 1

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *args: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.02), daemon=True)

    def __enter__(self) -> ChatDouble:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
