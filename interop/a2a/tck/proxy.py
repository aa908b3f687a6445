"""Puts the id of a message in front of its text, and makes it unique: `proxy.py <port> <server> <version>`.

The compatibility kit tells an agent what to do by the prefix of a message's id, which no model sees; answers do not show
what was put there. The kit also sends several messages under one id; here a message id is an idempotency key, and the
second one would be a replay. And the kit of 1.0 asks for the card without a version, which means 0.3, and checks it as one of 1.0.
"""

import http.client
import itertools
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, SERVER, VERSION = int(sys.argv[1]), sys.argv[2].removeprefix("http://"), sys.argv[3]
NUMBERS = itertools.count()
ADDED = re.compile(rb'"(?:tck|test)-[\w-]+: ')


def named(body):
    """The body with the message's id in its first text, and a number behind the id."""
    try:
        request = json.loads(body)
        message = request.get("params", request)["message"]
        for part in message["parts"]:
            if "text" in part:
                part["text"] = f"{message['messageId']}: {part['text']}"
                message["messageId"] += f"-{next(NUMBERS)}"
                return json.dumps(request).encode()
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    return body


class Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def forward(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        body = named(body) if body else body
        headers = {name: value for name, value in self.headers.items() if name.lower() != "content-length"}
        if self.path.startswith("/.well-known/"):
            headers.setdefault("A2A-Version", VERSION)
        upstream = http.client.HTTPConnection(SERVER)
        upstream.request(self.command, self.path, body=body or None, headers=headers)
        answer = upstream.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        while chunk := answer.read1(65536):
            self.wfile.write(ADDED.sub(b'"', chunk))
            self.wfile.flush()
        self.close_connection = True

    do_GET = do_POST = do_PUT = do_DELETE = forward

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Proxy).serve_forever()
