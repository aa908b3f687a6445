"""The compatibility kit's way to the server over HTTP: `proxy.py <port> <server> <version> [<port of grpc_proxy.py>]`.

See kit_messages.py for what it does to messages. The kit of 1.0 also asks for the card without a version, which means
0.3, and checks it as one of 1.0; and over gRPC it goes where the card says, which must be the other proxy. The kit of 0.3
reads the context of a task over HTTP as `context_id` (tck/message_utils.py), which is not its name; it is added here.
"""

import http.client
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import kit_messages

PORT, SERVER, VERSION = int(sys.argv[1]), sys.argv[2].removeprefix("http://"), sys.argv[3]
GRPC_PROXY = sys.argv[4] if len(sys.argv) > 4 else None
ADDED = re.compile(rb'"(?:tck|test)-[\w-]+: ')
CONTEXT = re.compile(rb'"contextId":("[^"]*")')


def named(body, path):
    """The body with the message's id in its first text and a number behind the id, and the path of its agent."""
    try:
        request = json.loads(body)
        message = request.get("params", request)["message"]
        message_id = message["messageId"]
        message["messageId"] = kit_messages.unique(message_id)
        agent = kit_messages.agent_of(message_id)
        if agent:
            path = path.replace("/a2a", f"/a2a/agents/default/{agent}", 1)
        texts = [part for part in message["parts"] if "text" in part]
        if texts:
            texts[0]["text"] = f"{message_id}: {texts[0]['text']}"
        return json.dumps(request).encode(), path
    except (ValueError, LookupError, TypeError, AttributeError):
        return body, path


class Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def forward(self):
        body, path = self.rfile.read(int(self.headers.get("content-length", 0))), self.path
        if body:
            body, path = named(body, path)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "content-length"}
        is_card = path.startswith("/.well-known/")
        if is_card:
            headers.setdefault("A2A-Version", VERSION)
        upstream = http.client.HTTPConnection(SERVER)
        upstream.request(self.command, path, body=body or None, headers=headers)
        answer = upstream.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        if is_card and GRPC_PROXY:
            self.wfile.write(re.sub(rb'"[^"]*:\d+","protocolBinding":"GRPC"',
                                    b'"127.0.0.1:%s","protocolBinding":"GRPC"' % GRPC_PROXY.encode(), answer.read()))
        while chunk := answer.read1(65536):
            if VERSION == "0.3" and "/v1/" in path:
                chunk = CONTEXT.sub(rb'\g<0>,"context_id":\1', chunk)
            self.wfile.write(ADDED.sub(b'"', chunk))
            self.wfile.flush()
        self.close_connection = True

    do_GET = do_POST = do_PUT = do_DELETE = forward

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Proxy).serve_forever()
