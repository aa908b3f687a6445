"""Swagger 2 for the comparison: its second reader is bravado-core."""

import io
import json
import re
from urllib.parse import unquote

from bravado_core.operation import Operation
from bravado_core.request import IncomingRequest, unmarshal_request
from bravado_core.spec import Spec
from second import follow, without_annotations, without_read_only
from werkzeug.formparser import FormDataParser


def complete(document):
    """Gives every operation the parameters of its path, and puts credentials where OpenAPI 3 has them."""
    without_annotations(document)
    without_read_only(document)
    document["components"] = {"securitySchemes": document.get("securityDefinitions") or {}}
    security = document.get("security")
    for path, item in list((document.get("paths") or {}).items()):
        item = document["paths"][path] = dict(follow(document, item) or {})
        shared = [follow(document, one) for one in item.pop("parameters", None) or []]
        item["parameters"] = []
        for method, operation in list(item.items()):
            operation = follow(document, operation)
            if not isinstance(operation, dict):
                continue
            own = [follow(document, one) for one in operation.get("parameters") or []]
            known = {(one["name"], one["in"]) for one in own}
            parameters = [one for one in shared if (one["name"], one["in"]) not in known] + own
            item[method] = {**operation, "parameters": parameters, "x-security": operation.get("security", security) or []}


class Incoming(IncomingRequest):
    """A request in the form that bravado-core takes."""

    def __init__(self, received, path):
        # The names of headers have any case.
        self.path, self.headers, self.text = path, received.parameters.header, received.body
        self.query, self.form, self.files = values(received.pairs), {}, {}
        media, _, options = received.content_type.partition(";")
        if media in {"application/x-www-form-urlencoded", "multipart/form-data"} and received.body:
            options = dict(option.strip().split("=", 1) for option in options.split(";") if "=" in option)
            _, form, files = FormDataParser().parse(io.BytesIO(received.body), media, len(received.body), options)
            self.form = values(form.items(multi=True))
            self.files = {name: file.read().decode() for name, file in files.items()}

    def json(self, **_):
        return json.loads(self.text) if self.text else None


def values(pairs):
    found = {}
    for name, value in pairs:
        found[name] = [*found[name], value] if isinstance(found.get(name), list) else [found[name], value] if name in found else value
    return found


class Reader:
    """Reads the requests of one operation."""

    def __init__(self, document, base, path, method, operation):
        # What is behind references was followed; those that remain are within schemas.
        config = {"validate_swagger_spec": False, "validate_requests": False, "use_models": False}
        # Credentials are compared apart; it refuses those that are parameters, too.
        operation = {key: value for key, value in operation.items() if key != "security"}
        # Its models are not built: they say nothing about requests.
        spec = Spec({**document, "security": [], "paths": {path: {method: operation}}}, config=config)
        self.operation = Operation.from_spec(spec, path, method, operation)
        parts = re.split(r"\{([^}]*)\}", base + re.split("[#?]", path)[0])
        self.names = parts[1::2]
        self.pattern = re.compile("([^/]*)".join(map(re.escape, parts[::2])))

    def read(self, received):
        """The value of each parameter that was sent, by its name."""
        found = self.pattern.fullmatch(received.path)
        if not found:
            raise ValueError(f"{received.path} is not the path of the operation")
        path = {name: unquote(value) for name, value in zip(self.names, found.groups())}
        read = unmarshal_request(Incoming(received, path), self.operation)
        return {name: value for name, value in read.items() if value is not None}
