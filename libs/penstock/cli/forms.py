"""The option `-o` of commands that show a list or a document: the same answer as a table, JSON or YAML."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from penstock.cli import output

_AS_JSON = "as_json"
_FORM = "form_"


class ListForm(StrEnum):
    """How a list is shown. `wide`: nothing is cut short or broken into lines."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class DocumentForm(StrEnum):
    """How a document is shown."""

    JSON = "json"
    YAML = "yaml"


def with_form(function: Callable[..., Any], *, is_document: bool) -> Callable[..., Any]:
    """The function with the option `-o`, when it shows a list (it has `--json`) or only ever a document."""
    hints = get_type_hints(function, include_extras=True)
    has_json = _AS_JSON in hints
    if not has_json and not is_document:
        return function
    kind: Any = ListForm if has_json else DocumentForm
    default = ListForm.TABLE if has_json else DocumentForm.JSON
    option = Annotated[kind, typer.Option("--output", "-o", help="the form of the answer")]

    @wraps(function)
    def shown(**given: Any) -> Any:
        form = given.pop(_FORM)
        if has_json and form in (ListForm.JSON, ListForm.YAML):
            given[_AS_JSON] = True
        with output.in_form(wide=form == ListForm.WIDE, yaml=form == ListForm.YAML):
            return function(**given)

    known = inspect.signature(function)
    parameters = [each.replace(annotation=hints[each.name]) for each in known.parameters.values()]
    extra = inspect.Parameter(_FORM, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=option)
    shown.__signature__ = known.replace(parameters=[*parameters, extra])  # type: ignore[attr-defined]
    shown.__annotations__ = {**hints, _FORM: option}
    return shown
