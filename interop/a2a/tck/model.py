"""The model of the agent that the compatibility kit talks to: `model.py <port> <version>`, behind OpenAI's chat
completions.

What it does depends on the kit's message id, which the proxies put in front of the text: of the first message, or of the
latest one that put an open call aside. The kit of 0.3 expects tasks that go on, so there the agent always asks.
"""

import json
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, VERSION = int(sys.argv[1]), sys.argv[2]


def latest(messages):
    """The id that the kit gave its latest message."""
    texts = "\n".join(str(message.get("content")) for message in messages)
    found = re.findall(r"\b(?:tck|test)-[\w-]+(?=: )", texts)
    return found[-1] if found else ""


def call(messages, tool):
    """A call of a tool."""
    function = {"name": tool, "arguments": "{}"}
    return {"tool_calls": [{"index": 0, "id": f"call_{len(messages)}", "type": "function", "function": function}]}


def deltas(messages):
    """The pieces of the answer, each with the time before it."""
    latest_id = latest(messages)
    has_result = messages[-1]["role"] == "tool"
    if latest_id.startswith("test-resubscribe-message-id"):
        yield 4, {"content": "Here I am."}
    elif VERSION == "0.3" or latest_id.startswith("tck-input-required"):
        yield 0, call(messages, "ask-user")
    elif latest_id.startswith("tck-artifact-file-url") and not has_result:
        yield 0, call(messages, "files-link-file")
    elif latest_id.startswith(("tck-artifact-file", "tck-stream-artifact-file")) and not has_result:
        yield 0, call(messages, "files-make-file")
    elif latest_id.startswith("tck-artifact-data"):
        yield 0, {"content": json.dumps({"key": "value", "count": 42})}
    elif latest_id.startswith("tck-message-response"):
        yield 0, {"content": "Direct message response"}
    elif latest_id.startswith("tck-stream"):
        for word in ("Generated ", "text ", "content"):
            yield 0.1, {"content": word}
    else:
        yield 0, {"content": "Generated text content"}


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        reason = "stop"
        for pause, delta in deltas(request["messages"]):
            time.sleep(pause)
            reason = "tool_calls" if "tool_calls" in delta else reason
            self.send({"choices": [{"index": 0, "delta": {"role": "assistant", **delta}}]})
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        self.send({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        self.send({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def send(self, chunk):
        envelope = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "kit"}
        self.wfile.write(f"data: {json.dumps({**envelope, **chunk})}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Model).serve_forever()
