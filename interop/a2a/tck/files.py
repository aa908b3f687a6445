"""An MCP server over standard input and output whose tools make files: one with its bytes, one as a link."""

import base64
import json
import sys

FILE = {
    "type": "resource",
    "resource": {"uri": "file:///output.txt", "mimeType": "text/plain", "blob": base64.b64encode(b"Generated").decode()},
}
LINK = {"type": "resource_link", "uri": "https://example.com/output.txt", "name": "output.txt", "mimeType": "text/plain"}
BLOCKS = {"make-file": FILE, "link-file": LINK}


def answer(method, params):
    if method == "initialize":
        server = {"name": "files", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        schema = {"type": "object", "properties": {}}
        return {"tools": [{"name": name, "description": "Makes a file", "inputSchema": schema} for name in BLOCKS]}
    if method == "tools/call":
        return {"content": [BLOCKS[params["name"]]]}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request.get("method"), request.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
