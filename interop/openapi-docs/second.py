"""What the second reader, openapi-core, needs besides a description.

It insists on things that say nothing about requests, and has no readers for some media types; each change here says why.
"""

import json
import re
from urllib.parse import unquote

from openapi_core.deserializing.media_types.util import data_form_loads
from openapi_core.deserializing.styles import style_deserializers
from werkzeug.datastructures import ImmutableMultiDict

METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}
# OpenAPI: a definition of these headers as parameters is ignored.
DESCRIBED_ELSEWHERE = {"accept", "content-type", "authorization"}


def is_json(media):
    essence = media.split(";")[0].strip().lower()
    return essence in {"application/json", "text/json"} or essence.endswith("+json")


def parts(value, **parameters):
    """The parts of a body as texts: it has bytes, which are no strings where a part has a style."""
    found = data_form_loads(value, **parameters)
    return ImmutableMultiDict([(name, part.decode()) for name in found for part in found.getlist(name)])


class Deserializers(dict):
    """JSON under every name that it has, and every kind of text; openapi-core knows a few names of them."""

    def __contains__(self, media):
        return media.startswith(("text/", "multipart/")) or self.is_json(media)

    def __getitem__(self, media):
        if media.startswith("multipart/"):
            return parts
        if self.is_json(media):
            return lambda value, **_: json.loads(value)
        return lambda value, **_: value.decode() if isinstance(value, bytes) else value

    @staticmethod
    def is_json(media):
        return is_json(media) or media in {"*/*", "application/*"}


def deserializers():
    return Deserializers()


def space_delimited(explode, name, kind, location):
    """It splits at `%20`, in a value that is decoded already."""
    if explode:
        return style_deserializers["form"](True, name, kind, location)
    return location[name].split(" ")


def deep_object(_, name, kind, location):
    """It reads one level, and only with `explode: true`, which says nothing about this style. A value that is no object has no brackets."""
    if name in location:
        return location[name]
    found = {}
    for key, value in location.items():
        if not key.startswith(f"{name}["):
            continue
        *path, last = re.findall(r"\[([^\]]*)\]", key)
        inner = found
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    if not found:
        raise KeyError(name)
    return lists(found)


def lists(value):
    """Members that are numbered from 0 are the items of a list."""
    if not isinstance(value, dict):
        return value
    members = {key: lists(member) for key, member in value.items()}
    return list(members.values()) if list(members) == [str(index) for index in range(len(members))] else members


style_deserializers.update(spaceDelimited=space_delimited, deepObject=deep_object)


def bundled(document, file, load):
    """The description with the files that it refers to, as members of its root."""
    files = {}

    def name_of(reference, own):
        name, _, pointer = reference.partition("#")
        if "://" in name or not (name or own):
            return reference
        path = own if not name else (own or file).parent.joinpath(name).resolve()
        if str(path) not in files:
            files[str(path)] = {}
            if path.is_file():
                files[str(path)] = rewritten(load(path), path)
        return f"#/x-files/{str(path).replace('~', '~0').replace('/', '~1')}{pointer}"

    def rewritten(value, own):
        if isinstance(value, list):
            return [rewritten(item, own) for item in value]
        if not isinstance(value, dict):
            return value
        return {key: name_of(one, own) if key == "$ref" and isinstance(one, str) else rewritten(one, own) for key, one in value.items()}

    whole = rewritten(document, None)
    return {**whole, "x-files": files} if files else whole


def follow(root, value):
    for _ in range(16):
        if not isinstance(value, dict) or not str(value.get("$ref", "")).startswith("#/"):
            break
        value = resolve(root, value["$ref"])
    return value


def resolve(root, reference):
    """What a reference within the document names; None without it."""
    target = root
    for part in reference.split("/")[1:]:
        part = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(target, list):
            target = target[int(part)] if part.isdigit() and int(part) < len(target) else None
        else:
            target = target.get(part) if isinstance(target, dict) else None
    return target


def operations(document):
    for path, item in (document.get("paths") or {}).items():
        for method, operation in (item or {}).items():
            if method in METHODS and isinstance(operation, dict):
                yield path, method, item, operation


def complete(document):
    """Adds what the second reader insists on, and removes what says nothing about a request."""
    without_annotations(document)
    without_read_only(document)
    security = document.pop("security", None)
    for path, item in list((document.get("paths") or {}).items()):
        # An extension (`x-…`) may be anything.
        if not path.startswith("/"):
            del document["paths"][path]
            continue
        item = document["paths"][path] = dict(follow(document, item) or {})
        item.pop("servers", None)
        item["parameters"] = parameters(document, item)
        for method in METHODS & set(item or {}):
            operation = follow(document, item[method])
            if not isinstance(operation, dict) or "$ref" in operation:
                del item[method]
                continue
            # Credentials are compared apart: it knows neither OAuth nor tokens that are only present.
            operation["x-security"] = operation.get("security", security) or []
            operation = {key: value for key, value in operation.items() if key not in {"servers", "security", "callbacks"}}
            own = parameters(document, operation)
            known = {one.get("name") for one in item["parameters"] + own}
            slots = [slot for slot in re.findall(r"\{([^}]*)\}", path) if slot not in known]
            # A slot of a path that nothing describes.
            operation["parameters"] = own + [{"name": slot, "in": "path", "required": True, "schema": {"type": "string"}} for slot in slots]
            body = follow(document, operation.get("requestBody"))
            if isinstance(body, dict) and isinstance(body.get("content"), dict):
                operation["requestBody"] = {**body, "content": {media: texts(document, media, content) for media, content in body["content"].items()}}
            item[method] = {"responses": {"200": {"description": "An answer"}}, **operation}


def parameters(document, owner):
    followed = [encoded(document, follow(document, one)) for one in owner.get("parameters") or []]
    return [one for one in followed if isinstance(one, dict) and not (one.get("in") == "header" and str(one.get("name")).lower() in DESCRIBED_ELSEWHERE)]


def encoded(document, parameter):
    """It reads the type of a parameter from its schema alone. The values of a path are read as they are sent, encoded: a pattern does not fit them."""
    if not isinstance(parameter, dict):
        return parameter
    schema = follow(document, parameter.get("schema"))
    if isinstance(schema, dict) and schema.get("readOnly"):
        # That is said of the members of an object. It would refuse every value.
        schema = {key: value for key, value in schema.items() if key != "readOnly"}
        parameter = {**parameter, "schema": schema}
    if isinstance(schema, dict) and "type" not in schema and schema.get("enum"):
        schema = {**schema, "type": TYPES.get(type(schema["enum"][0]), "string")}
        parameter = {**parameter, "schema": schema}
    if isinstance(schema, dict) and "type" not in schema and "allOf" in schema:
        parts = [follow(document, part) for part in schema["allOf"]]
        whole = {key: value for part in parts if isinstance(part, dict) for key, value in part.items()}
        schema = {**whole, **{key: value for key, value in schema.items() if key != "allOf"}}
        parameter = {**parameter, "schema": schema}
    if parameter.get("in") == "query" and (schema or {}).get("type") == "object" and parameter.get("style", "form") == "form":
        # It looks for the name of an object whose members are parameters of their own.
        parameter = {**parameter, "required": False} if parameter.get("explode", True) else parameter
    if parameter.get("in") != "path":
        return parameter
    schema = schema or {}
    of_text = {"pattern", "minLength", "maxLength", "enum"} if schema.get("type") == "string" else set()
    return {**parameter, "schema": {key: value for key, value in schema.items() if key not in of_text}}


def without_annotations(value):
    """It rejects formats that it does not know, makes objects of others, and fills defaults in, which would hide what was not sent.

    It reads values by one type: of a list of types (3.1) that is the one of the samples. Patterns that Python does not have are left out.
    """
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            if isinstance(value.get("format"), str) and value["format"] != "binary":
                del value["format"]
            if isinstance(value.get("type"), (str, list)):
                value.pop("default", None)
            if isinstance(value.get("type"), list):
                value["type"] = next((kind for kind in value["type"] if kind != "null"), "null")
            if isinstance(value.get("pattern"), str) and not compiles(value["pattern"]):
                del value["pattern"]
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)


def compiles(pattern):
    try:
        re.compile(pattern)
    except (re.error, OverflowError):
        return False
    return True


def without_read_only(document):
    """OpenAPI: what is read-only and required is required of answers. It knows that of members that say so themselves, not behind a reference."""
    stack = [document]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            members, required = value.get("properties"), value.get("required")
            if isinstance(members, dict) and isinstance(required, list):
                value["required"] = [name for name in required if not is_read_only(document, members.get(name))]
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)


def is_read_only(document, schema):
    schema = follow(document, schema)
    return isinstance(schema, dict) and schema.get("readOnly") is True


def form(document, content):
    """An object in a form is JSON unless a style is named, as OpenAPI 3.0.4 and 3.1.1 have clarified; openapi-core reads pairs."""
    schema = follow(document, (content or {}).get("schema"))
    members = schema.get("properties") if isinstance(schema, dict) else None
    encoding = dict(content.get("encoding") or {})
    for name, member in (members or {}).items():
        member = follow(document, member)
        is_object = isinstance(member, dict) and (kind_of(document, member) == "object" or "properties" in member)
        if is_object and not {"style", "explode"} & set(encoding.get(name) or {}):
            encoding[name] = {"contentType": "application/json"}
    return {**content, "encoding": encoding}


def texts(document, media, content):
    """A form has texts only. It reads numbers in some places of a form and not in others, so that none are left."""
    if not isinstance(content, dict) or not media.lower().startswith(("application/x-www-form-urlencoded", "multipart/")):
        return content
    content = form(document, content)
    return {**content, "schema": as_text(document, content.get("schema", {}), content.get("encoding") or {})}


def as_text(document, schema, encoding=None, depth=0):
    """`encoding` is that of a form, whose members are JSON unless they are texts or have a style."""
    schema = follow(document, schema)
    if not isinstance(schema, dict) or depth > 12:
        return {}
    if schema.get("type") in {"integer", "number", "boolean"}:
        return {"type": "string"}
    below = lambda one: as_text(document, one, None, depth + 1)

    def member_of_form(name, member):
        member = follow(document, member)
        has_style = {"style", "explode"} & set((encoding.get(name) or {}))
        is_text = kind_of(document, member) in {"integer", "number", "boolean", "array", "string"}
        return below(member) if has_style or is_text else member
    made = {}
    for key, value in schema.items():
        if key == "properties":
            value = {name: below(member) if encoding is None else member_of_form(name, member) for name, member in value.items()}
        elif key in {"allOf", "anyOf", "oneOf"}:
            value = [below(part) for part in value]
        elif key in {"items", "additionalProperties"} and isinstance(value, dict):
            value = below(value)
        # Texts may fit several parts of a choice that only their types distinguish.
        made["anyOf" if key == "oneOf" else key] = value
    if isinstance(made.get("properties"), dict):
        # It reads no fields of a part of `allOf` without a type.
        made.setdefault("type", "object")
        # It reads only the fields that are listed, and a required one may not be.
        made["properties"] = {**{name: {} for name in made.get("required") or []}, **made["properties"]}
    return made


def kind_of(document, schema, depth=0):
    """The type of a schema: its own, that of a part of its `allOf`, or the one that all parts of a choice have."""
    schema = follow(document, schema)
    if not isinstance(schema, dict) or depth > 12:
        return None
    own = schema.get("type")
    own = next((kind for kind in own if kind != "null"), None) if isinstance(own, list) else own
    kinds = lambda keyword: [kind_of(document, part, depth + 1) for part in schema.get(keyword) or []]
    choices = {kind for keyword in ("anyOf", "oneOf") for kind in kinds(keyword)}
    return own or next(filter(None, kinds("allOf")), choices.pop() if len(choices) == 1 else None)


def plain(value):
    """What openapi-core read, as JSON."""
    if hasattr(value, "__dataclass_fields__"):
        return {key: plain(getattr(value, key)) for key in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
