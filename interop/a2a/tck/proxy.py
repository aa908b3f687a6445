"""Puts the id of a message in front of its text, and makes it unique: `proxy.py <port> <server>`.

The compatibility kit tells an agent what to do by the prefix of a message's id, which no model sees. It also sends
several messages under one id; here a message id is an idempotency key, and the second one would be a replay.
"""

import http.client
import itertools
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, SERVER = int(sys.argv[1]), sys.argv[2].removeprefix("http://")
NUMBERS = itertools.count()


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
            self.wfile.write(chunk)
            self.wfile.flush()
        self.close_connection = True

    do_GET = do_POST = do_PUT = do_DELETE = forward

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Proxy).serve_forever()
