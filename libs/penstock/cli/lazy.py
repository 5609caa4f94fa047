"""Commands whose modules are imported when the command runs, not when the program starts.

`penstock --help` needs the names and one-line helps of all commands, and no module that speaks HTTP, SQL or Kafka.
So the table in `commands.py` holds both as plain data. A test checks each help against the function's docstring.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group, get_install_completion_arguments

from penstock.cli.forms import with_form


class Command(NamedTuple):
    """One row of the command table."""

    path: str
    """What the user types: `drain`, or `jobs list`."""
    target: str
    """`module:function`, the module inside `penstock.cli`."""
    help: str
    """The first paragraph of the function's docstring."""
    settings: dict[str, Any] = {}  # noqa: RUF012 (a default of a tuple is never changed)
    """Context settings of click."""
    is_document: bool = False
    """Whether it only ever shows one document, as JSON or YAML."""


class PlainFlags:
    """Help that names no type for a flag: `--drop`, not `--drop <bool>`. To be mixed into a command."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, and the option `--help`."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_bool_flag", False):
                param.metavar = ""
        return params


class PlainCommand(PlainFlags, TyperCommand):
    """A command of the program."""


class PlainGroup(PlainFlags, TyperGroup):
    """A group of commands, or the program."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command. One that only a group has is told with its group."""
        name = args[0] if args else ""
        groups = {each: made for each, made in self.commands.items() if isinstance(made, TyperGroup)}
        found = [f"'{each} {name}'" for each, made in groups.items() if name in made.commands]
        if name not in self.commands and found:
            ctx.fail(f"No such command {name!r}. Did you mean {', '.join(found)}?")
        return super().resolve_command(ctx, args)


class LazyCommand(TyperCommand):
    """Shows a row's help in a list of commands, and becomes the real command when it is chosen."""

    def __init__(self, row: Command) -> None:
        super().__init__(name=row.path.split()[-1], help=row.help)
        self._row = row

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the real command: click takes the command to invoke from it."""
        return self.load().make_context(info_name, args, parent=parent, **extra)

    def load(self) -> Any:
        """Imports the function's module and makes the command, which runs with the collector of garbage."""
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        shown = with_form(function_of(self._row), is_document=self._row.is_document)
        app.command(self.name, cls=PlainCommand, context_settings=self._row.settings)(shown)
        gc.freeze()
        gc.enable()
        return get_command(app)


def function_of(row: Command) -> Any:
    """The function of a row. Imports its module."""
    module, _, name = row.target.partition(":")
    return getattr(import_module(f"penstock.cli.{module}"), name)


def program(commands: Iterable[Command], groups: dict[str, str], *, summary: str) -> TyperGroup:
    """The program with all commands; `groups` holds the help of each group of commands by its name."""
    app = typer.Typer(name="penstock", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    app.callback(cls=PlainGroup, help=summary)(_options)
    root = get_group(app)
    root.params.extend(get_install_completion_arguments())
    made = {name: PlainGroup(name=name, help=text, no_args_is_help=True) for name, text in groups.items()}
    for row in commands:
        group = row.path.split()[0]
        if group in made:
            root.commands.setdefault(group, made[group])
            made[group].add_command(LazyCommand(row))
        else:
            root.add_command(LazyCommand(row))
    return root


def _say_release(asked: bool) -> None:
    if asked:
        print(f"penstock {import_module('importlib.metadata').version('penstock')}")
        raise typer.Exit


def _options(
    _asked: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_release, help="say which version this is")
    ] = False,
) -> None:
    """The options of the program as a whole."""
