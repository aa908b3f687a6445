"""Compares the requests of http tools with what their OpenAPI descriptions describe.

    compare.py BOSUN FILE|FOLDER …

Each description is converted with `bosun convert --to ark-manifest --server` to a server of this script, `bosun serve` runs every tool twice,
with all of its arguments and with the required ones, and openapi-core, or bravado-core for Swagger 2, reads the requests by the description. What it reads must be what was
given, and nothing else. At least 99.5 % must be right, the others must have a warning of the converter; every one of them is printed. TOOLS in the environment bounds the tools of one
description, which are spread over it.
"""

import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import traceback
from collections import Counter
from urllib.error import HTTPError
from urllib.parse import parse_qsl, unquote
from urllib.request import Request, urlopen

import swagger
import yaml
from jsonschema import Draft202012Validator
from openapi_core import Config, OpenAPI
from openapi_core.datatypes import RequestParameters
from sample import sample
from second import bundled, complete, deserializers, follow, is_json, operations, plain
from werkzeug.datastructures import Headers, ImmutableMultiDict



class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Dates, `off` and `=` are texts, as in YAML 1.2."""


OLDER = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool", "tag:yaml.org,2002:value"}
Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in OLDER] for first, resolvers in Loader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))


class Recorder(http.server.BaseHTTPRequestHandler):
    """Answers everything with an empty object and keeps the last request."""

    last = None

    def answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        # As it was sent: `self.path` has one slash where the target begins with several.
        target = self.requestline.split(" ")[1]
        Recorder.last = (self.command, target, {name.title(): value for name, value in self.headers.items()}, self.rfile.read(length))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = answer

    def log_message(self, *_):
        pass


class Received:
    """A request in the form that openapi-core takes."""

    def __init__(self, origin):
        method, target, headers, self.body = Recorder.last
        path, _, query = target.partition("?")
        # The path stays encoded, so that a value with a slash is one segment; values are decoded when they are read.
        self.host_url, self.method, self.path = origin, method.lower(), path
        self.pairs = parse_qsl(query, keep_blank_values=True)
        self.parameters = RequestParameters(query=ImmutableMultiDict(self.pairs), header=Headers(headers), path={}, cookie=ImmutableMultiDict())
        self.content_type = headers.get("Content-Type", "")
        self.mimetype = self.content_type
        self.body = self.body or None


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


class Tally:
    """Counts by cause, and what to print of each."""

    def __init__(self):
        self.counts, self.places = Counter(), {}

    def add(self, cause, place=None):
        self.counts[cause] += 1
        if place is not None:
            self.places.setdefault(cause, []).append(place[:700])

    def print(self):
        for cause, count in self.counts.most_common():
            print(f"{count:6} {cause}")
        for cause, places in self.places.items():
            for place in places if cause == "wrong" else places[:20]:
                print(f"{cause}: {place}")
        told = self.counts["not as described, with a warning"]
        right, sent = self.counts["right"], self.counts["right"] + self.counts["wrong"] + told
        share = 100 * right / sent if sent else 0.0
        print(f"{right} of {sent} requests are right ({share:.2f} %)")
        return share >= 99.5 and not self.counts["wrong"] and not self.counts["the manifests are refused"]


def load(file):
    text = file.read_text()
    return json.loads(text) if text.lstrip().startswith("{") else yaml.load(text, Loader)


def server_of(document):
    """The URL of the server that a description names, with the defaults of its variables; "" without one."""
    if "swagger" in document:
        host, base = document.get("host"), (document.get("basePath") or "").rstrip("/")
        schemes = document.get("schemes") or ["https"]
        return f"{'https' if 'https' in schemes else schemes[0]}://{host}{base}" if host else base
    server = (document.get("servers") or [{}])[0] or {}
    variables = server.get("variables") or {}
    url = re.sub(r"\{([^}]*)\}", lambda found: str((variables.get(found[1]) or {}).get("default", "{}")), server.get("url", ""))
    return (f"https:{url}" if url.startswith("//") else url).rstrip("/")


def compare_servers(bosun, file, document, tools, origin, tally):
    """Without `--server`, the tools have the server of the description; whether it is an address is decided by the converter."""
    servers = {server_of(one) for one in [document, *servers_below(document)]}
    converted = subprocess.run([bosun, "convert", file, "--to", "ark-manifest"], capture_output=True, text=True, check=False)
    paths = {tool["metadata"]["name"]: tool["spec"]["http"]["url"].removeprefix(origin) for tool in tools}
    for tool in filter(None, yaml.load_all(converted.stdout, Loader)):
        name, url = tool["metadata"]["name"], tool["spec"]["http"]["url"]
        path = paths.get(name)
        if path is not None and not any(url == server + path.removeprefix(server if server.startswith("/") else "") for server in servers):
            tally.add("wrong", f"{file}: {name}: {url} is not at {servers}")


def servers_below(document):
    """Paths and operations that have servers of their own."""
    for item in (document.get("paths") or {}).values():
        item = follow(document, item)
        yield from (one for one in [item, *(item or {}).values()] if isinstance(one, dict) and one.get("servers"))


def compare(bosun, file, origin, tally):
    document = load(file)
    if not isinstance(document, dict) or not {"openapi", "swagger"} & set(document):
        return tally.add("skipped: no description of an API")
    document = bundled(document, file, load)
    own = server_of(document)
    base = own if re.match(r"/(?!/)", own) else ""
    is_swagger = "swagger" in document
    (swagger.complete if is_swagger else complete)(document)
    # A test of its own compares the servers, before they are replaced.
    original = bundled(load(file), file, load)
    document["servers"] = [{"url": origin + base}]
    with tempfile.TemporaryDirectory() as folder:
        manifests = pathlib.Path(folder, "agents")
        manifests.mkdir()
        converted = subprocess.run([bosun, "convert", file, "--to", "ark-manifest", "--server", origin], capture_output=True, text=True, check=False)
        tools = [tool for tool in yaml.load_all(converted.stdout, Loader) if tool]
        pathlib.Path(manifests, "tools.yaml").write_text(converted.stdout)
        for tool in tools:
            write_secrets(tool["spec"]["http"], folder)
        compare_servers(bosun, file, original, tools, origin, tally)
        most = int(os.environ.get("TOOLS", len(tools)))
        tools = tools[:: max(1, -(-len(tools) // most))] if tools else []
        if not tools:
            return tally.add("skipped: no tool moves", f"{file}: {converted.stderr[:300]}")
        tally.counts["descriptions"] += 1
        with Server(bosun, folder) as server:
            if not server.address:
                return tally.add("the manifests are refused", f"{file}: {server.log()[-600:]}")
            for tool in tools:
                kind = SwaggerComparison if is_swagger else Comparison
                kind(server, file, document, origin, base, tool, converted.stderr, tally).run()


def write_secrets(request, folder):
    for source in request.get("headers", []) + request.get("bodyParameters", []):
        source = source.get("value", source)
        reference = isinstance(source, dict) and source.get("valueFrom", {}).get("secretKeyRef")
        if reference:
            secret = pathlib.Path(folder, "secrets", "default", reference["name"], reference["key"])
            secret.parent.mkdir(parents=True, exist_ok=True)
            secret.write_text("Basic dXNlcjpwYXNz")


class Comparison:
    """One tool, and the operation that it is made from."""

    def __init__(self, server, file, document, origin, base, tool, warnings, tally):
        self.server, self.document, self.origin, self.base, self.warnings, self.tally = server, document, origin, base, warnings, tally
        self.name, self.spec = tool["metadata"]["name"], tool["spec"]
        self.where = f"{file}: {self.name}"

    def run(self):
        schema = self.spec["inputSchema"]
        found = operation_of(self.document, self.base, self.name, self.spec["http"])
        if found is None:
            return self.tally.add("wrong", f"{self.where}: no operation found for {self.spec['http']['url']}")
        path, method, item, operation = found
        if "}{" in path:
            return self.tally.add("not compared: nothing separates two slots of the path", f"{self.where}: {path}")
        # Without other paths that its own fits, too; what follows `#` is never sent.
        own = re.split("[#?]", path)[0]
        if own.startswith("//"):
            return self.tally.add("not compared: openapi-core takes two slashes for a host", f"{self.where}: {path}")
        filled = re.sub(r"\{[^}]*\}", "x", own)
        others = {one: value for one, value in self.document["paths"].items() if not re.fullmatch(pattern(one), filled)}
        paths = {own: {"parameters": item["parameters"], method: operation}, **others}
        self.prepare(paths, path, method, operation)
        properties, required = schema.get("properties", {}), schema.get("required", [])
        self.path, self.operation = path, operation
        self.parameters = placed([follow(self.document, one) for one in (item.get("parameters") or []) + (operation.get("parameters") or [])])
        self.fixed = {name for name, _ in parse_qsl(path.partition("?")[2], keep_blank_values=True)}
        silent = self.left_out(properties)
        if silent:
            return self.tally.add("wrong", f"{self.where}: left out without a warning: {silent}")
        everything = {key: sample(value, schema) for key, value in properties.items()}
        self.call(schema, everything)
        if set(required) < set(everything):
            self.call(schema, {key: value for key, value in everything.items() if key in required})

    def prepare(self, paths, *_):
        self.api = OpenAPI.from_dict({**self.document, "paths": paths}, config=Config(spec_validator_cls=None, extra_media_type_deserializers=deserializers()))

    def left_out(self, properties):
        """The parts of the request that are described, that the tool does not take and that no warning names."""
        filled = {name for one in self.operation["x-security"] for _, name in map(self.credential, one)}
        is_told = lambda text: text in self.warnings
        left_out = [
            f"{place} parameter `{name}`"
            for key, (place, name, _) in self.parameters.items()
            if key not in properties and name.lower() not in filled and not is_told(f"{place} parameter `{name[:60]}")
        ]
        body = follow(self.document, self.operation.get("requestBody")) or {}
        schemas = [follow(self.document, (one or {}).get("schema")) for one in (body.get("content") or {}).values()]
        has_fields = body.get("required") or any(not isinstance(one, dict) or one.get("properties") != {} for one in schemas)
        has_body = {"body", "request_body"} & (set(properties) - set(self.parameters)) or self.spec["http"].get("body")
        if body.get("content") and has_fields and not has_body and not is_told("the optional body is left out"):
            left_out.append("body")
        return left_out

    def warning_codes(self):
        """The codes of the warnings about the operations of the path."""
        found = re.findall(r"warning\[(\w+)\]: .*\n    at (.+)", self.warnings)
        return {code for code, place in found if f'["{self.path}"]' in place}

    def credential(self, name):
        """The place and the name, in lower case, of what a security scheme adds to a request."""
        schemes = (self.document.get("components") or {}).get("securitySchemes") or {}
        scheme = follow(self.document, schemes.get(name)) or {}
        if scheme.get("type") != "apiKey":
            return "header", "authorization"
        return ("header", "cookie") if scheme.get("in") == "cookie" else (scheme.get("in"), str(scheme.get("name")).lower())

    def has_credentials(self, received):
        sent = {("query", name.lower()) for name, _ in received.pairs} | {("header", name.lower()) for name in Recorder.last[2]}
        alternatives = self.operation["x-security"]
        return not alternatives or any(all(self.credential(name) in sent for name in one) for one in alternatives)

    def received(self, schema, arguments):
        """The request of a call; None if there was none, which is counted."""
        try:
            fault = next(Draft202012Validator(schema).iter_errors(arguments), None)
        except re.error:  # a pattern that only the language of the description has
            fault = None
        if fault is not None:
            return self.tally.add("not tried: no arguments found that fit", f"{self.where}: {fault.json_path}: {fault.message[:200]}")
        Recorder.last = None
        answer = self.server.run(self.name, arguments)
        if Recorder.last is None:
            return self.tally.add("refused with a message", f"{self.where}: {answer[:500]}")
        return Received(self.origin)

    def call(self, schema, arguments):
        received = self.received(schema, arguments)
        if received is None:
            return None
        try:
            result = self.api.unmarshal_request(received)
            result.raise_for_errors()
        except re.error as error:
            return self.tally.add("not compared: a pattern that Python does not have", f"{self.where}: {error}")
        except Exception as error:
            # A style that the second reader has no deserializer for, and label and matrix in a path.
            is_unread = re.search(r"\('(form|deepObject|spaceDelimited|pipeDelimited|label|matrix|simple)', ", f"{error} {error.__cause__}")
            if is_unread or "Missing required path parameter" in str(error):
                return self.tally.add("not compared: openapi-core does not read the style", f"{self.where}: {Recorder.last[1]}")
            if "list_in_one_part" in self.warning_codes():
                return self.tally.add("not as described, with a warning", f"{self.where}: {str(error)[:200]}")
            # A header that the tool leaves out, with a warning, and the client of every tool sends by itself.
            header = re.match(r"Invalid header parameter: (\S+)", str(error))
            if header and header[1] not in schema.get("properties", {}) and f"header parameter `{header[1]}`" in self.warnings:
                return self.tally.add("not as described, with a warning", f"{self.where}: {error}")
            causes = [one.message[:200] for one in getattr(error.__cause__, "schema_errors", ())]
            return self.tally.add("wrong", f"{self.where}: {Recorder.last[1][:200]} {Recorder.last[3][:200]}: {causes} {type(error).__name__}: {error}: {error.__cause__}")
        problem = self.differences(arguments, received, result)
        self.tally.add(*(("wrong", f"{self.where}: {Recorder.last[1]} {problem}") if problem else ("right",)))

    def differences(self, arguments, received, result):
        read, used = {}, set()
        for key, (place, name, parameter) in self.parameters.items():
            values = getattr(result.parameters, place)
            if key in arguments and exploded(self.document, parameter):
                # openapi-core does not read the members of an object that are parameters of their own.
                sent = dict(received.pairs)
                read[key] = {member: value for member, value in arguments[key].items() if sent.get(member) == text_of(value)}
            elif key in arguments and name in values:
                read[key] = decoded(plain(values[name])) if place == "path" else plain(values[name])
            elif place == "query" and key in self.spec["inputSchema"].get("properties", {}):
                used |= {sent for sent, _ in received.pairs if sent.split("[")[0] == name}
        body = next((key for key in ("request_body", "body") if key in arguments and key not in self.parameters), None)
        if body and received.body is not None:
            read[body] = json.loads(received.body) if is_json(received.mimetype) else plain(result.body)
        if body and is_form(received.mimetype):
            # A form has texts only.
            arguments = {**arguments, body: texts_of(arguments[body])}
            read[body] = texts_of(read.get(body))
        different = {key: (value, read.get(key)) for key, value in arguments.items() if key not in read or read[key] != value}
        if used := used | self.undescribed(arguments, received):
            different["sent and not given"] = used
        if not self.has_credentials(received):
            different["credentials"] = self.operation["x-security"]
        return different

    def undescribed(self, arguments, received):
        """The query parameters that come from neither an argument, nor the path, nor a security scheme."""
        known = self.fixed | {name for one in self.operation["x-security"] for place, name in map(self.credential, one) if place == "query"}
        for key in set(arguments) & set(self.parameters):
            _, name, parameter = self.parameters[key]
            known |= set(arguments[key]) if exploded(self.document, parameter) else {name}
        return {name for name, _ in received.pairs if not {name, name.lower(), name.split("[")[0]} & known}


class SwaggerComparison(Comparison):
    """The same for Swagger 2, whose bodies and fields of forms are parameters; in the tool they are `body`."""

    def prepare(self, _, path, method, operation):
        self.reader = swagger.Reader(self.document, self.base, path, method, operation)
        place_of = {one["name"]: one["in"] for one in operation["parameters"]}
        self.fields = {name for name, place in place_of.items() if place == "formData"}
        self.body = next((name for name, place in place_of.items() if place == "body"), None)

    def left_out(self, properties):
        in_body = {key for key, (place, _, _) in self.parameters.items() if place in {"body", "formData"}}
        self.parameters = {key: value for key, value in self.parameters.items() if key not in in_body}
        left_out = super().left_out(properties)
        has_body = {"body", "request_body"} & (set(properties) - set(self.parameters))
        if in_body and not has_body and "the optional body is left out" not in self.warnings:
            left_out.append("body")
        return left_out

    def call(self, schema, arguments):
        received = self.received(schema, arguments)
        if received is None:
            return None
        try:
            values = self.reader.read(received)
        except Exception as error:
            return self.tally.add("wrong", f"{self.where}: {Recorder.last[1][:200]} {Recorder.last[3][:200]}: {type(error).__name__}: {error}")
        read = {key: values[name] for key, (_, name, _) in self.parameters.items() if name in values and key in arguments}
        key = next((key for key in ("request_body", "body") if key in arguments and key not in self.parameters), None)
        if key and self.body:
            # bravado-core adds the members that are absent.
            read[key] = json.loads(received.body) if is_json(received.mimetype) else values.get(self.body)
        elif key:
            read[key] = {name: value for name, value in values.items() if name in self.fields}
        # Whatever is not JSON has texts only.
        given = {one: value if one == key and self.body else texts_of(value) for one, value in arguments.items()}
        read = {one: value if one == key and self.body else texts_of(value) for one, value in read.items()}
        different = {one: (value, read.get(one)) for one, value in given.items() if read.get(one) != value}
        if used := self.undescribed(arguments, received):
            different["sent and not given"] = used
        if not self.has_credentials(received):
            different["credentials"] = self.operation["x-security"]
        return self.tally.add(*(("wrong", f"{self.where}: {Recorder.last[1]} {different}") if different else ("right",)))


def is_form(media):
    return media.startswith(("multipart/", "application/x-www-form-urlencoded"))


def texts_of(value):
    if isinstance(value, dict):
        return {key: texts_of(member) for key, member in value.items()}
    return [texts_of(item) for item in value] if isinstance(value, list) else text_of(value)


def pattern(path):
    """A pattern of the paths that a template stands for."""
    return "[^/]+".join(re.escape(part) for part in re.split(r"\{[^}]*\}", re.split("[#?]", path)[0]))


def decoded(value):
    if isinstance(value, list):
        return [decoded(item) for item in value]
    return unquote(value) if isinstance(value, str) else value


def text_of(value):
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value) if isinstance(value, (bool, int, float)) else value


def exploded(document, parameter):
    schema = follow(document, parameter.get("schema")) or {}
    style = parameter.get("style", "form")
    return parameter["in"] == "query" and schema.get("type") == "object" and style == "form" and parameter.get("explode", True)


def placed(parameters):
    """The place and name of each property of a tool: a name that is taken gets its place in front."""
    by_identity = {}
    for parameter in parameters:
        by_identity[parameter["name"], parameter["in"]] = parameter
    properties = {}
    for name, place in by_identity:
        if place == "header" and name.lower() in {"accept", "content-type", "authorization"}:
            continue
        key = name
        while key in properties:
            key = f"{place}_{key}"
        properties[key] = (place, name, by_identity[name, place])
    return properties


def operation_of(document, base, tool, request):
    """The operation with the method and the path of a tool, a slot being a slot whatever its name and style.

    Of several, those with most of the fixed pairs of its query, and of these the one with its name.
    """
    letters = lambda text: re.sub("[^a-z0-9]", "", text.lower())
    address, _, query = re.sub(r"^https?://[^/]*", "", request["url"]).partition("?")
    shape = re.sub(r"(?:;\w+=|[.;])?\{\{?[^}]*\}\}?", "{}", unquote(address))
    fixed = {pair for pair in parse_qsl(query, keep_blank_values=True) if "{" not in pair[1]}
    found = []
    for path, method, item, operation in operations(document):
        own = re.sub(r"\{[^}]*\}", "{}", base + path.split("#")[0].split("?")[0])
        if method == request["method"].lower() and re.sub(r"[.;]\{\}", "{}", own) == shape:
            found.append((path, method, item, operation))
    pairs_of = lambda path: {pair for pair in parse_qsl(path.split("#")[0].partition("?")[2], keep_blank_values=True) if "{" not in pair[1]}
    rank = lambda one: (len(pairs_of(one[0]) ^ fixed), not letters(str(one[3].get("operationId", ""))).startswith(letters(tool)))
    return min(found, key=rank, default=None)


def main():
    bosun, *inputs = sys.argv[1:]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    origin = f"http://127.0.0.1:{server.server_port}"
    tally = Tally()
    for path in map(pathlib.Path, inputs):
        files = sorted(path.rglob("*.in.*")) if path.is_dir() else [path]
        files = files or sorted(one for one in path.rglob("*") if one.suffix in {".json", ".yaml", ".yml"})
        for file in files:
            try:
                compare(bosun, file, origin, tally)
            except (yaml.YAMLError, json.JSONDecodeError, UnicodeDecodeError) as error:
                tally.add("skipped: not readable", f"{file}: {str(error)[:200]}")
            except Exception as error:
                traceback.print_exc()
                tally.add("wrong", f"{file}: the comparison failed: {type(error).__name__}: {error}")
    sys.exit(0 if tally.print() else 1)


main()
