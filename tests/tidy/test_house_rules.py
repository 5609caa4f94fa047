"""The house rules hold in this repository, and each of them catches a bad example (and lets a good one pass)."""

from __future__ import annotations

import pytest

from tests.tidy import rules_files, rules_imports, rules_purity, rules_shape, rules_tests, rules_words
from tests.tidy.source import Rule, Tree

_LONG_FUNCTION = "def f():\n" + "    x = 1\n" * 70
_FUNCTION_OF_40 = "def f():\n" + "    x = 1\n" * 39
_SHORT_FUNCTION = "def f():\n    return 1\n"

EXAMPLES: list[tuple[Rule, Tree, Tree]] = [
    (
        rules_imports.services_never_import_each_other,
        {"services/a/loop.py": "from services.b import plan\n"},
        {"services/a/loop.py": "from services.a import plan\n"},
    ),
    (
        rules_imports.penstock_never_imports_services,
        {"libs/penstock/wire/x.py": "import services.a.api\n"},
        {"libs/penstock/wire/x.py": "import penstock.local.services\n"},
    ),
    (
        rules_imports.no_import_of_penstock_runs_back_up,
        {"libs/penstock/store/x.py": "from penstock.wire.cluster import Snapshot\n"},
        {"libs/penstock/store/x.py": "from penstock.model import reports\nfrom penstock.store import engine\n"},
    ),
    (
        rules_imports.no_import_of_penstock_runs_back_up,
        {"libs/penstock/new/x.py": "from penstock.config import merge\n"},
        {"libs/penstock/local/x.py": "import penstock.store.engine\n"},
    ),
    (
        rules_imports.pyspark_only_under_penstock_spark,
        {"services/a/loop.py": "from pyspark.sql import SparkSession\n"},
        {"libs/penstock/spark/host.py": "from pyspark.sql import SparkSession\n"},
    ),
    (
        rules_imports.apscheduler_only_under_penstock_control,
        {"services/a/loop.py": "import apscheduler.schedulers.blocking\n"},
        {"libs/penstock/control/loop.py": "import apscheduler.schedulers.blocking\n"},
    ),
    (
        rules_imports.no_import_inside_a_function,
        {"libs/penstock/x.py": "def f():\n    import json\n"},
        {"libs/penstock/x.py": "import json\n"},
    ),
    (
        rules_imports.environment_is_read_only_in_settings,
        {"libs/penstock/x.py": "import os\nURL = os.environ['URL']\n"},
        {"services/a/settings.py": "import os\nURL = os.environ['URL']\n"},
    ),
    (
        rules_imports.environment_is_read_only_in_settings,
        {"libs/penstock/x.py": "from os import getenv\n"},
        {"libs/penstock/x.py": "from os import cpu_count\n"},
    ),
    (
        rules_purity.pure_modules_do_no_io,
        {"libs/penstock/config/x.py": "import time\n"},
        {"libs/penstock/store/x.py": "import time\n"},
    ),
    (
        rules_purity.pure_modules_do_no_io,
        {"services/a/plan.py": "import penstock.wire.x\n", "libs/penstock/wire/x.py": "import httpx\n"},
        {"services/a/plan.py": "import penstock.wire.x\n", "libs/penstock/wire/x.py": "import pydantic\n"},
    ),
    (
        rules_purity.pure_modules_do_no_io,
        {"services/a/plan.py": "from penstock import wire\n", "libs/penstock/wire/__init__.py": "import os\n"},
        {"services/a/dispatcher.py": "from penstock import wire\n", "libs/penstock/wire/__init__.py": "import os\n"},
    ),
    (
        rules_purity.pure_modules_do_no_io,
        {"services/a/plan.py": "import services.a.store.x\n", "services/a/store/x.py": "import sqlalchemy\n"},
        {"services/a/store/x.py": "import sqlalchemy\n"},
    ),
    (
        rules_purity.pure_modules_do_no_io,
        {"services/a/plan.py": "from datetime import datetime\nNOW = datetime.now()\n"},
        {"services/a/plan.py": "from datetime import datetime\nEND = datetime.max\n"},
    ),
    (
        rules_shape.files_are_at_most_400_lines,
        {"libs/penstock/x.py": "x = 1\n" * 401},
        {"libs/penstock/x.py": "x = 1\n" * 400},
    ),
    (
        rules_shape.functions_are_at_most_70_lines,
        {"tests/unit/test_x.py": _LONG_FUNCTION},
        {"tests/unit/test_x.py": _FUNCTION_OF_40},
    ),
    (
        rules_shape.nine_functions_in_ten_are_under_30_lines,
        {"services/a/x.py": _FUNCTION_OF_40 + _SHORT_FUNCTION * 8},
        {"services/a/x.py": _FUNCTION_OF_40 + _SHORT_FUNCTION * 9},
    ),
    (
        rules_shape.modules_say_what_they_are,
        {"services/a/x.py": "X = 1\n"},
        {"services/a/x.py": '"""What."""\n', "services/a/__init__.py": ""},
    ),
    (
        rules_shape.public_functions_have_docstrings,
        {"libs/penstock/x.py": "def f():\n" + "    x = 1\n" * 6},
        {"libs/penstock/x.py": 'def f():\n    """What."""\n' + "    x = 1\n" * 6},
    ),
    (
        rules_shape.log_lines_are_lower_case_without_full_stop,
        {"services/a/x.py": "log.info('Job committed')\n"},
        {"services/a/x.py": "log.info('job committed', job='Big.')\n"},
    ),
    (
        rules_shape.log_lines_are_lower_case_without_full_stop,
        {"services/a/x.py": "self._log.warning(f'job {job} failed')\n"},
        {"services/a/x.py": "self._log.warning('job failed', job=job)\n"},
    ),
    (
        rules_files.top_level_names_are_of_the_design,
        {"scripts/x.py": ""},
        {"deploy/x.py": "", "Makefile": ""},
    ),
    (
        rules_files.parts_have_a_readme_of_a_page,
        {"services/a/x.py": "X = 1\n"},
        {"services/a/x.py": "X = 1\n", "services/a/README.md": "# A\n", "libs/penstock/b/__init__.py": ""},
    ),
    (
        rules_files.parts_have_a_readme_of_a_page,
        {"libs/penstock/b/x.py": "X = 1\n", "libs/penstock/b/README.md": "line\n" * 121},
        {"libs/penstock/b/x.py": "X = 1\n", "libs/penstock/b/README.md": "line\n" * 120},
    ),
    (
        rules_files.build_files_name_no_host,
        {"Makefile": "get:\n\tcurl https://packages.example/x\n"},
        {"Makefile": "get:\n\tcurl http://127.0.0.1:7070/healthz\n", "README.md": "https://packages.example\n"},
    ),
    (
        rules_files.build_files_name_no_host,
        {"requirements.lock": "--index-url somewhere\n"},
        {"requirements.lock": "numpy==2.4.6 --hash=sha256:00\n"},
    ),
    (
        rules_files.build_files_name_no_host,
        {"deploy/images/Dockerfile.host": "FROM images.example/python:3.11\n"},
        {"deploy/images/Dockerfile.host": "FROM library/python:3.11\n"},
    ),
    (
        rules_files.no_path_of_one_machine,
        {"README.md": "cd " + "/home" + "/me/penstock\n"},
        {"README.md": "cd penstock; ls tests/work/x\n"},
    ),
    (
        rules_tests.every_test_asserts_something,
        {"tests/unit/test_x.py": "def test_x():\n    run()\n"},
        {"tests/unit/test_x.py": "def test_x():\n    with pytest.raises(ValueError):\n        run()\n"},
    ),
    (
        rules_tests.tests_never_sleep,
        {"tests/unit/test_x.py": "import asyncio\nasyncio.sleep(seconds)\n"},
        {"tests/unit/test_x.py": "wait_until(done, 1, 'it')\n", "libs/penstock/x.py": "clock.sleep(seconds)\n"},
    ),
    (
        rules_tests.tests_are_never_skipped,
        {"tests/unit/test_x.py": "@pytest.mark." + "skipif(True)\ndef test_x():\n    assert True\n"},
        {"tests/unit/test_x.py": "@pytest.mark.long\ndef test_x():\n    assert True\n"},
    ),
    (
        rules_tests.benches_finish_when_their_servers_are_gone,
        {"tests/bench/x.py": "with stack() as s:\n    finish(measure(s))\n"},
        {"tests/bench/x.py": "with stack() as s:\n    figures = measure(s)\nfinish(figures)\n"},
    ),
    (
        rules_words.readmes_are_at_most_120_lines,
        {"tests/x/README.md": "line\n" * 121},
        {"README.md": "line\n" * 120, "LICENSE": "line\n" * 400},
    ),
    (
        rules_words.paragraphs_of_readmes_are_at_most_5_lines,
        {"README.md": "# A\n\n" + "line\n" * 6},
        {"README.md": "- item\n  of two\n" * 4 + "```\n" + "code\n" * 9 + "```\n" + "| a |\n" * 9 + "line\n" * 5},
    ),
    (
        rules_words.paragraphs_of_readmes_are_at_most_5_lines,
        {"services/a/README.md": "- item\n" + "  line\n" * 5},
        {"services/a/README.md": "line\n" * 5 + "\n" + "line\n" * 5},
    ),
    (
        rules_files.files_that_a_page_names_are_there,
        {"services/a/README.md": "`store/ends.py` when a layer ends", "services/a/ends.py": ""},
        {
            "services/a/b/README.md": "`ends.py`, `a/store/ends.py`, `../other.py`\n```\npython `no.py`\n```\n",
            "services/a/store/ends.py": "",
            "services/a/other.py": "",
        },
    ),
    (
        rules_words.public_names_are_plain_words,
        {"services/a/x.py": "class GenerationKeeper:\n    pass\n"},
        {
            "services/a/x.py": "class _Keeper:\n    pass\n\n\ndef worker_tells():\n    held = 1\n".replace(
                "tells", "says"
            )
        },
    ),
    (
        rules_words.public_names_are_plain_words,
        {"libs/penstock/x/story.py": '"""A."""\n'},
        {"libs/penstock/x/history.py": '"""A."""\n', "tests/unit/story.py": '"""A."""\n'},
    ),
]

RULES = list(dict.fromkeys(rule for rule, _, _ in EXAMPLES))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_repository_keeps_the_rule(rule: Rule, repository: Tree) -> None:
    found = rule(repository)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("rule", "bad", "good"), EXAMPLES, ids=lambda value: getattr(value, "__name__", ""))
def test_the_rule_catches_a_bad_example_only(rule: Rule, bad: Tree, good: Tree) -> None:
    assert len(rule(bad)) >= 1
    assert rule(good) == []


def test_every_rule_has_an_example() -> None:
    modules = (rules_files, rules_imports, rules_purity, rules_shape, rules_tests, rules_words)
    public = {
        value
        for module in modules
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    }
    assert public == set(RULES)


def test_the_repository_is_read_whole(repository: Tree) -> None:
    assert {"Makefile", "pyproject.toml", "libs/penstock/control/errors.py"} <= repository.keys()
