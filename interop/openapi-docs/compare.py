"""Compares the requests of http tools with what their OpenAPI descriptions describe.

    compare.py BOSUN FILE|FOLDER …

Each description is converted with `bosun convert --to ark-manifest --server` to a server of this script, `bosun serve` runs every tool once
with all of its arguments, and openapi-core reads the request by the description. What it reads must be what was given. At least 99.5 % must
be right; every request that is not is printed. TOOLS in the environment bounds the tools of one description, which are spread over it.
"""

import contextlib
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from urllib.error import HTTPError
from urllib.parse import parse_qsl, unquote, urlsplit
from urllib.request import Request, urlopen

import yaml
from openapi_core import Config, OpenAPI
from openapi_core.datatypes import RequestParameters
from werkzeug.datastructures import Headers, ImmutableMultiDict

METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}


class Recorder(http.server.BaseHTTPRequestHandler):
    """Answers everything with an empty object and keeps the last request."""

    last = None

    def answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        Recorder.last = (self.command, self.path, {name.title(): value for name, value in self.headers.items()}, self.rfile.read(length))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = answer

    def log_message(self, *_):
        pass


def sample(schema, root, name="x", depth=0):
    """A value that a schema accepts, with something to encode in its texts."""
    if not isinstance(schema, dict) or depth > 6:
        return "a b"
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].split("/")[1:]:
            target = target[part.replace("~1", "/").replace("~0", "~")]
        return sample(target, root, name, depth + 1)
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    if "default" in schema and schema["default"] is not None:
        return schema["default"]
    for keyword in ("oneOf", "anyOf"):
        if keyword in schema:
            return sample(schema[keyword][0], root, name, depth + 1)
    if "allOf" in schema:
        merged = {}
        for part in schema["allOf"]:
            value = sample(part, root, name, depth + 1)
            if isinstance(value, dict):
                merged.update(value)
        return merged or "a b"
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if kind == "object":
        members = schema.get("properties", {})
        required = set(schema.get("required", []))
        return {key: sample(value, root, key, depth + 1) for key, value in members.items() if depth < 2 or key in required}
    if kind == "array":
        return [sample(schema.get("items", {}), root, name, depth + 1) for _ in range(max(2, schema.get("minItems", 0)))][: schema.get("maxItems", 2)]
    if kind == "integer":
        return int(schema.get("minimum", 7)) + (1 if schema.get("exclusiveMinimum") else 0)
    if kind == "number":
        return schema.get("minimum", 2.5)
    if kind == "boolean":
        return True
    formats = {"date": "2026-11-17", "date-time": "2026-11-17T10:00:00Z", "uuid": "7f9c24e8-3b12-4d55-9b8e-1f2d3c4b5a69", "email": "a@example.com", "uri": "https://example.com/"}
    text = formats.get(schema.get("format"), "ab&c")
    if "pattern" in schema:
        tries = [text, "abc", "A", "a-b", *("7" * length for length in range(1, 20))]
        with contextlib.suppress(re.error):  # a pattern in the language of another library
            text = next((one for one in tries if re.search(schema["pattern"], one)), text)
    return text[: schema.get("maxLength", len(text))].ljust(schema.get("minLength", 0), "x")


class Received:
    """A request in the form that openapi-core takes."""

    def __init__(self, origin):
        method, target, headers, self.body = Recorder.last
        parts = urlsplit(target)
        self.host_url, self.method, self.path = origin, method.lower(), unquote(parts.path)
        query = ImmutableMultiDict(parse_qsl(parts.query, keep_blank_values=True))
        self.parameters = RequestParameters(query=query, header=Headers(headers), path={}, cookie=ImmutableMultiDict())
        self.content_type = headers.get("Content-Type", "")
        self.mimetype = self.content_type


def plain(value):
    """What openapi-core read, as JSON. Dates and their like become texts again."""
    if hasattr(value, "__dataclass_fields__"):
        return {key: plain(getattr(value, key)) for key in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "isoformat"):
        return value.isoformat().replace("+00:00", "Z")
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def operations(document):
    for path, item in (document.get("paths") or {}).items():
        for method, operation in (item or {}).items():
            if method in METHODS and isinstance(operation, dict):
                yield path, method, operation


def complete(document):
    """Adds what the second reader insists on: an answer for every operation, and a parameter for every slot of a path."""
    document.pop("security", None)
    for path, item in list((document.get("paths") or {}).items()):
        item = document["paths"][path] = dict(follow(document, item) or {})
        item.pop("servers", None)
        for method in METHODS & set(item or {}):
            operation = follow(document, item[method])
            if not isinstance(operation, dict) or "$ref" in operation:
                del item[method]
                continue
            operation = {key: value for key, value in operation.items() if key not in {"servers", "security", "callbacks"}}
            known = {(follow(document, one) or {}).get("name") for one in (item.get("parameters") or []) + (operation.get("parameters") or [])}
            assumed = [{"name": slot, "in": "path", "required": True, "schema": {"type": "string"}} for slot in re.findall(r"\{([^}]*)\}", path) if slot not in known]
            operation["parameters"] = (operation.get("parameters") or []) + assumed
            item[method] = {"responses": {"200": {"description": "An answer"}}, **operation}


def follow(root, value):
    for _ in range(16):
        if not isinstance(value, dict) or not str(value.get("$ref", "")).startswith("#/"):
            break
        target = root
        for part in value["$ref"].split("/")[1:]:
            target = (target or {}).get(part.replace("~1", "/").replace("~0", "~"))
        value = target
    return value


def compare(bosun, file, origin, counts, places):
    text = file.read_text()
    document = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    if not isinstance(document, dict) or "openapi" not in document:
        counts["skipped: not OpenAPI 3"] += 1
        return
    own = ((document.get("servers") or [{}])[0] or {}).get("url", "")
    base = own.rstrip("/") if own.startswith("/") else ""
    document["servers"] = [{"url": origin + base}]
    complete(document)
    try:
        api = OpenAPI.from_dict(document, config=Config(spec_validator_cls=None))
    except Exception as error:  # a description that the second reader does not take tells nothing
        counts["skipped: openapi-core does not take the description"] += 1
        places["skipped"].append(f"{file.name}: {str(error)[:200]}")
        return
    with tempfile.TemporaryDirectory() as folder:
        manifests = pathlib.Path(folder, "agents")
        manifests.mkdir()
        converted = subprocess.run([bosun, "convert", file, "--to", "ark-manifest", "--server", origin], capture_output=True, text=True, check=False)
        tools = [tool for tool in yaml.safe_load_all(converted.stdout) if tool]
        pathlib.Path(manifests, "tools.yaml").write_text(converted.stdout)
        for tool in tools:
            request = tool["spec"]["http"]
            for source in request.get("headers", []) + request.get("bodyParameters", []):
                source = source.get("value", source)
                reference = isinstance(source, dict) and source.get("valueFrom", {}).get("secretKeyRef")
                if reference:
                    secret = pathlib.Path(folder, "secrets", "default", reference["name"], reference["key"])
                    secret.parent.mkdir(parents=True, exist_ok=True)
                    secret.write_text("Basic dXNlcjpwYXNz")
        most = int(os.environ.get("TOOLS", len(tools)))
        tools = tools[:: max(1, -(-len(tools) // most))]
        if not tools:
            counts["skipped: no tool moves"] += 1
            return
        with Server(bosun, folder) as server:
            if not server.address:
                counts["the manifests are refused"] += 1
                places["wrong"].append(f"{file}: {server.log()[-600:]}")
                return
            for tool in tools:
                call(server, file, document, api, origin, base, tool, counts, places)


class Server:
    """`bosun serve` over a folder of manifests and secrets."""

    def __init__(self, bosun, folder):
        self.folder = folder
        self.log_file = open(f"{folder}/log", "w")
        command = [bosun, "serve", "--listen", "127.0.0.1:0", "--data", f"{folder}/data", "--manifests", f"{folder}/agents"]
        command += ["--secrets", f"{folder}/secrets", "--confirm", "never"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log_file, text=True)
        found = re.match(r"listening on (http\S+)", self.process.stdout.readline())
        self.address = found and found[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log_file.close()

    def log(self):
        return pathlib.Path(self.folder, "log").read_text()

    def run(self, name, arguments):
        body = {"input": json.dumps(arguments), "target": {"type": "tool", "name": name}}
        request = Request(f"{self.address}/v1/queries?wait=20s", json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urlopen(request) as response:
                return response.read().decode()
        except HTTPError as error:
            return error.read().decode()


def call(server, file, document, api, origin, base, tool, counts, places):
    name, spec = tool["metadata"]["name"], tool["spec"]
    where = f"{file}: {name}"
    schema = spec["inputSchema"]
    arguments = {key: sample(value, schema, key) for key, value in schema.get("properties", {}).items()}
    Recorder.last = None
    answer = server.run(name, arguments)
    if Recorder.last is None:
        counts["refused with a message"] += 1
        places["refused with a message"].append(f"{where}: {answer[:400]}")
        return
    counts["sent"] += 1
    found = operation_of(document, base, spec["http"])
    if found is None:
        counts["no operation found for the tool"] += 1
        places["wrong"].append(f"{where}: no operation found for {spec['http']['url']}")
        return
    path, operation = found
    if "#" in path:
        counts["skipped: openapi-core does not know fragments of paths"] += 1
        return
    received = Received(origin)
    try:
        result = api.unmarshal_request(received)
        result.raise_for_errors()
    except Exception as error:
        # A style that the second reader has no deserializer for, and label and matrix in a path.
        is_unread = re.search(r"\('(form|deepObject|spaceDelimited|pipeDelimited|label|matrix|simple)', ", f"{error} {error.__cause__}")
        if is_unread or "Missing required path parameter" in str(error):
            counts["not compared: openapi-core does not read the style"] += 1
            return
        counts["wrong"] += 1
        places["wrong"].append(f"{where}: {Recorder.last[1]}: {type(error).__name__}: {error}: {error.__cause__}"[:500])
        return
    read = {}
    item = document["paths"][path]
    for parameter in [follow(document, one) for one in (item.get("parameters") or []) + (operation.get("parameters") or [])]:
        values = getattr(result.parameters, parameter["in"])
        if parameter["name"] in values and parameter["name"] in arguments:
            read[parameter["name"]] = plain(values[parameter["name"]])
    # A parameter may have the name of the body already.
    body = "request_body" if "request_body" in arguments and "body" in read else "body"
    if body in arguments and body not in read and result.body is not None:
        read[body] = plain(result.body)
    missing = [key for key in arguments if key not in read]
    different = [key for key in read if read[key] != arguments[key]]
    if different or missing:
        counts["wrong"] += 1
        shown = {key: (arguments[key], read.get(key)) for key in different + missing}
        places["wrong"].append(f"{where}: {Recorder.last[1]} {shown}"[:600])
    else:
        counts["right"] += 1


def operation_of(document, base, request):
    """The operation with the method and the path of a tool; a slot is a slot, whatever its name and style."""
    address = re.sub(r"^https?://[^/]*", "", request["url"]).split("?")[0]
    shape = re.sub(r"[.;]?(\w+=)?\{\{?[^}]*\}\}?", "{}", address)
    for path, method, operation in operations(document):
        own = re.sub(r"\{[^}]*\}", "{}", base + path.split("#")[0].split("?")[0])
        if method == request["method"].lower() and re.sub(r"[.;]\{\}", "{}", own) == shape:
            return path, operation
    return None


def main():
    bosun, *inputs = sys.argv[1:]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    origin = f"http://127.0.0.1:{server.server_port}"
    counts, places = Counter(), {"wrong": [], "refused with a message": [], "skipped": []}
    for path in map(pathlib.Path, inputs):
        files = sorted(path.rglob("*.in.*")) if path.is_dir() else [path]
        files = files or sorted(one for one in path.rglob("*") if one.suffix in {".json", ".yaml", ".yml"})
        for file in files:
            try:
                compare(bosun, file, origin, counts, places)
            except (yaml.YAMLError, json.JSONDecodeError, UnicodeDecodeError, AttributeError, TypeError) as error:
                counts["skipped: not readable"] += 1
                places["skipped"].append(f"{file}: {str(error)[:200]}")
    for cause, count in counts.most_common():
        print(f"{count:6} {cause}")
    for cause, list_ in places.items():
        for place in list_ if cause == "wrong" else list_[:20]:
            print(f"{cause}: {place}")
    sent = counts["right"] + counts["wrong"]
    share = 100 * counts["right"] / sent if sent else 0.0
    print(f"{counts['right']} of {sent} requests are right ({share:.2f} %)")
    sys.exit(0 if sent and share >= 99.5 else 1)


main()
