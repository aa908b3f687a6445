"""Values that a JSON Schema accepts, with something to encode in their texts."""

import contextlib
import random
import re
import warnings
from itertools import chain

import rstr
from second import resolve

FORMATS = {
    "date": "2026-11-17",
    "date-time": "2026-11-17T10:00:00Z",
    "time": "10:00:00Z",
    "uuid": "7f9c24e8-3b12-4d55-9b8e-1f2d3c4b5a69",
    "email": "a@example.com",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "duration": "PT1H",
    "byte": "YWI=",
}
KINDS = {"object": dict, "array": list, "integer": int, "number": (int, float), "boolean": bool, "string": str}
TEXT = "ab&c"
# Patterns of other languages may be doubtful in this one.
warnings.simplefilter("ignore", FutureWarning)
DEEPEST = 6


class ShortTexts(rstr.Rstr):
    """Texts for patterns. Rstr repeats a part up to a hundred times, also one within another: such a text fits no address."""

    def __init__(self, more):
        super().__init__(random.Random(7))
        self.more = more

    def _handle_repeat(self, least, most, part):
        times = self._random.randint(least, min(most, least + self.more))
        return "".join(self._handle_state(state) for _ in range(times) for state in part)


def merged(schema, root, depth=0):
    """A schema without references and `allOf`, as far as its own level goes; of a choice, the first that is no null."""
    if not isinstance(schema, dict) or depth > 24:
        return {}
    schema = dict(schema)
    parts = []
    if "$ref" in schema:
        parts.append(resolve(root, schema.pop("$ref")))
    parts += schema.pop("allOf", [])
    for keyword in ("oneOf", "anyOf"):
        choices = [one for one in schema.pop(keyword, []) if one != {"type": "null"}]
        parts += choices[:1]
    for part in parts:
        part = merged(part, root, depth + 1)
        properties = {**part.get("properties", {}), **schema.get("properties", {})}
        required = [*part.get("required", []), *schema.get("required", [])]
        schema = {**part, **schema}
        if properties:
            schema["properties"] = properties
        if required:
            schema["required"] = required
    return schema


def sample(schema, root, depth=0):
    schema = merged(schema, root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return next((one for one in schema["enum"] if one not in ("", None)), schema["enum"][0])
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    default = schema.get("default")
    if default not in (None, "", [], {}) and isinstance(default, KINDS.get(kind, object)):
        return default
    if kind == "object":
        return an_object(schema, root, depth)
    if kind == "array":
        return a_list(schema, root, depth)
    if kind in ("integer", "number"):
        return a_number(schema, kind)
    if kind == "boolean":
        return True
    if kind == "null":
        return None
    return a_text(schema)


def an_object(schema, root, depth):
    members = schema.get("properties", {})
    required = set(schema.get("required", []))
    chosen = {key for key in members if key in required or depth < 2}
    # An object without members cannot be told from an absent one in most styles.
    if not chosen and depth < DEEPEST:
        chosen = set(list(members)[:1])
    made = {key: sample(value, root, depth + 1) for key, value in members.items() if key in chosen}
    for key in required - set(made):
        made[key] = TEXT
    more = schema.get("additionalProperties")
    if not made and more is not False and depth < DEEPEST:
        made["a"] = sample(more, root, depth + 1) if isinstance(more, dict) else TEXT
    return made


def a_list(schema, root, depth):
    items = schema.get("items", {})
    most = schema.get("maxItems", max(2, schema.get("minItems", 0)))
    count = min(most, max(2, schema.get("minItems", 0)))
    if depth > DEEPEST:
        count = schema.get("minItems", 0)
    # Each item differs where items must, and lists of one item would not show how they are joined.
    values = merged(items, root).get("enum")
    if values:
        made = list(values)[:count]
        return made if schema.get("uniqueItems") or len(made) == count else [values[0]] * count
    made = [sample(items, root, depth + 1) for _ in range(count)]
    if schema.get("uniqueItems") and len(made) > 1:
        made = made[: max(1, schema.get("minItems", 0))] if made[0] == made[1] else made
    return made


def a_number(schema, kind):
    step = schema.get("multipleOf") or (1 if kind == "integer" else 0.5)
    lowest, highest = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    value = 7 if kind == "integer" else 2.5
    if lowest is not None and value < lowest:
        value = lowest
    if isinstance(above, (int, float)) and not isinstance(above, bool) and value <= above:
        value = above + step
    if highest is not None and value > highest:
        value = highest
    if isinstance(below, (int, float)) and not isinstance(below, bool) and value >= below:
        value = below - step
    if schema.get("multipleOf"):
        value = -(-value // step) * step
        if highest is not None and value > highest:
            value -= step
    return int(value) if kind == "integer" else value


def a_text(schema):
    text = FORMATS.get(schema.get("format"), TEXT)
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    text = text.ljust(least, "x")
    if most is not None:
        text = text[:most]
    pattern = schema.get("pattern")
    if pattern is None:
        return text
    fits = lambda one: re.search(pattern, one) and len(one) >= least and (most is None or len(one) <= most)
    with contextlib.suppress(re.error, OverflowError, ValueError):  # a pattern in the language of another library
        known = [text, "abc", "A", "a-b", "example.com", *("7" * length for length in range(1, 20))]
        printable = lambda one: one.isprintable() and one.strip() == one
        # Short ones first, then those that a length demands.
        makers = [ShortTexts(3), ShortTexts(least + 3)]
        attempts = (maker.xeger(pattern.replace(r"\p{", "[^")[:500]) for maker in makers for _ in range(200))
        for one in chain(known, attempts):
            if one and printable(one) and fits(one):
                return one
    return text
