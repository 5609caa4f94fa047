"""Who may import what."""

from __future__ import annotations

import ast

from tests.tidy.source import Tree, code_files, functions, imports, is_within, nodes, python_files

# What each part of `penstock` may import of it, besides itself. Parts of one line do not know each other.
LAYERS: dict[str, frozenset[str]] = {}
for _parts in (
    ("control",),
    ("config",),
    ("tasks",),
    ("model",),
    ("identity", "kafka"),
    ("store", "wire", "spark"),
    ("local", "client"),
    ("cli",),
):
    LAYERS.update(dict.fromkeys(_parts, frozenset(LAYERS)))

_JVM_PACKAGES = ("pyspark", "delta", "py4j")


def services_never_import_each_other(tree: Tree) -> list[str]:
    """A service talks to another through the store or HTTP only."""
    found = []
    for path, module in python_files(tree, "services/"):
        own = ".".join(path.split("/")[:2])
        found += [
            f"{path}:{line} imports {name}"
            for line, name in imports(module)
            if name.startswith("services.") and not is_within(name, own)
        ]
    return found


def penstock_never_imports_services(tree: Tree) -> list[str]:
    """What services share does not know the services."""
    return _importing(tree, ("services",), folders=("libs/",))


def no_import_of_penstock_runs_back_up(tree: Tree) -> list[str]:
    """Each part of `penstock` imports only itself and the parts below it (`LAYERS`)."""
    found = []
    for path, module in python_files(tree, "libs/penstock/"):
        part = path.split("/")[2]
        for line, name in imports(module):
            package, _, other = name.partition(".")
            other = other.partition(".")[0]
            if package == "penstock" and other and other not in LAYERS.get(part, frozenset()) | {part}:
                found.append(f"{path}:{line} imports {name}")
    return found


def pyspark_only_under_penstock_spark(tree: Tree) -> list[str]:
    """Only a Spark host needs Spark: control processes start fast and small."""
    return [place for place in _importing(tree, _JVM_PACKAGES) if not place.startswith("libs/penstock/spark/")]


def apscheduler_only_under_penstock_control(tree: Tree) -> list[str]:
    """Loops are made in one place."""
    return [place for place in _importing(tree, ("apscheduler",)) if not place.startswith("libs/penstock/control/")]


def no_import_inside_a_function(tree: Tree) -> list[str]:
    """A missing package shows at the start, not at the first use."""
    return [
        f"{path}:{inner.lineno} import inside {function.name}"
        for path, module in python_files(tree)
        if any(isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset for node in nodes(module))
        for function in functions(module)
        for inner in ast.walk(function)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]


def environment_is_read_only_in_settings(tree: Tree) -> list[str]:
    """Every setting is declared, typed and documented in a `settings.py`."""
    return [
        f"{path}:{line} reads the environment"
        for path, module in code_files(tree)
        if not path.endswith("/settings.py")
        for line in _environment_uses(module)
    ]


def _environment_uses(module: ast.Module) -> list[int]:
    uses = [
        node.lineno
        for node in nodes(module)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.environ", "os.getenv", "os.environb"}
    ]
    return uses + [line for line, name in imports(module) if name in {"os.environ", "os.getenv", "os.environb"}]


def _importing(tree: Tree, packages: tuple[str, ...], folders: tuple[str, ...] = ()) -> list[str]:
    files = python_files(tree, *folders) if folders else code_files(tree)
    return [
        f"{path}:{line} imports {name}"
        for path, module in files
        for line, name in imports(module)
        if any(is_within(name, package) for package in packages)
    ]
