"""The page `/docs`: the calls of a service for people, made of its OpenAPI document. It loads nothing from anywhere.

Neither scripts nor pictures nor fonts: so it is the same without a network, and its policy allows nothing but its own
style sheet.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

Json = Mapping[str, Any]
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1b1f24; }
h2 { border-bottom: 1px solid #c8ced6; margin-top: 2.5rem; }
details { border: 1px solid #d5dae1; border-radius: 4px; margin: .4rem 0; padding: .4rem .7rem; }
summary { cursor: pointer; }
code, b { font: 13px ui-monospace, monospace; }
b { display: inline-block; min-width: 4.5rem; font-weight: 700; }
table { border-collapse: collapse; margin: .5rem 0; width: 100%; }
td, th { border-top: 1px solid #e3e7ec; padding: .2rem .6rem .2rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; }
"""
_STYLE_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_DIGEST}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""What a browser may do with the page: show it."""
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


class _Call(NamedTuple):
    method: str
    path: str
    operation: Json

    @property
    def tag(self) -> str:
        return str((self.operation.get("tags") or ["other"])[0])


def page(document: Json) -> str:
    """The page of an OpenAPI document, as HTML."""
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    schemas = document.get("components", {}).get("schemas", {})
    calls = list(_calls(document))
    groups = "".join(
        f"<h2>{escape(tag)}</h2>" + "".join(_call(call, schemas) for call in calls if call.tag == tag)
        for tag in dict.fromkeys(call.tag for call in calls)
    )
    models = "".join(_model(name, schema) for name, schema in sorted(schemas.items()))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
        '<p>The same for programs: <a href="/openapi.json">openapi.json</a>. Calls need the header '
        "<code>Authorization: Bearer TOKEN</code> where an answer 401 is listed.</p>"
        f"{groups}<h2>models</h2>{models}</body></html>"
    )


def _calls(document: Json) -> Iterator[_Call]:
    for path, operations in document["paths"].items():
        for method in _METHODS:
            if method in operations:
                yield _Call(method, path, operations[method])


def _call(call: _Call, schemas: Json) -> str:
    operation = call.operation
    text = escape(operation.get("description") or operation.get("summary") or "")
    return (
        f"<details><summary><b>{call.method.upper()}</b><code>{escape(call.path)}</code></summary><p>{text}</p>"
        f"{_parameters(operation)}{_body(operation, schemas)}{_responses(operation)}</details>"
    )


def _parameters(operation: Json) -> str:
    rows = [
        (each["name"], each["in"], _type(each.get("schema", {})), each.get("description", ""))
        for each in operation.get("parameters", [])
    ]
    return _table(("parameter", "in", "type", "meaning"), rows)


def _body(operation: Json, schemas: Json) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    found = [_type(media.get("schema", {})) for media in content.values()]
    fields = "".join(_fields(schemas[name]) for name in found if name in schemas)
    return f"<p>Body: {_link(found[0], schemas)}</p>{fields}" if found else ""


def _responses(operation: Json) -> str:
    rows = [
        (status, response.get("description", ""), ", ".join(_models(response)))
        for status, response in sorted(operation.get("responses", {}).items())
    ]
    return _table(("answer", "when", "model"), rows)


def _models(response: Json) -> Iterator[str]:
    for media in response.get("content", {}).values():
        yield _type(media.get("schema", {}))


def _model(name: str, schema: Json) -> str:
    text = escape(schema.get("description", ""))
    summary = f'<summary id="{escape(name)}"><code>{escape(name)}</code></summary>'
    return f"<details>{summary}<p>{text}</p>{_fields(schema)}</details>"


def _fields(schema: Json) -> str:
    required = schema.get("required", ())
    rows = [
        (name, _type(field), "required" if name in required else "", field.get("description", ""))
        for name, field in schema.get("properties", {}).items()
    ]
    return _table(("field", "type", "", "meaning"), rows)


def _type(schema: Json) -> str:
    """A schema in a few words: `integer`, `array of LayerView`, `string or null`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _link(name: str, schemas: Json) -> str:
    shown = f"<code>{escape(name)}</code>"
    return f'<a href="#{escape(name)}">{shown}</a>' if name in schemas else shown


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    lines = "".join("<tr>" + "".join(f"<td>{escape(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{lines}</table>"
