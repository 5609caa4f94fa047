# Every target that needs it runs the set-up itself; stamps in .venv/.stamps make a second run free.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
# Jars are fetched while Python code is compiled.
MAKEFLAGS += --no-builtin-rules --jobs=2
.DEFAULT_GOAL := help

BIN := .venv/bin
STAMPS := .venv/.stamps
COMMANDS := $(filter-out %.__main__ %.__init__,$(patsubst libs/penstock/cli/%.py,penstock.cli.%,$(wildcard libs/penstock/cli/*.py)))
PROCESSES := $(COMMANDS) penstock.spark.host.__main__ $(subst /,.,$(basename $(wildcard services/*/__main__.py)))
# Where the environment forbids bytecode (images for containers often do), each process would compile all it imports.
unexport PYTHONDONTWRITEBYTECODE
JAVA_SOURCES := $(shell find libs/penstock/spark/jvm -type f -not -name '*.md' 2>/dev/null)

.PHONY: help setup demo test recording test-long lint format bench clean lock chart

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMPS)/archive $(STAMPS)/compiled ## all that the rest needs: Python packages, a JDK 17, jars, the Java classes, the class archive

demo: setup ## the whole stack on this machine, and a check of its results (KEEP=1 leaves it up)
	@$(BIN)/penstock demo $(if $(filter-out 0,$(KEEP)),--keep)

test: recording $(STAMPS)/collected ## all tests but those marked long, in three processes
	@trap '$(MAKE) --no-print-directory $(STAMPS)/archive' EXIT; $(BIN)/pytest -m "not long" --numprocesses 3

# The class archive only saves time: it is recorded while tests are compiled and the unit tests run, which need no host.
recording: $(STAMPS)/java
	@$(MAKE) --no-print-directory $(STAMPS)/archive &

test-long: setup $(STAMPS)/chart ## the tests marked long, and those with random examples once more, with many
	@$(BIN)/pytest -m "long or hypothesis"

lint: setup ## format, lint and types, changing nothing
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: setup ## format, and repair what the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup ## every benchmark; the last line of each is one JSON object
	@for file in $$(grep -l '^if __name__ ==' tests/bench/*.py || true); do \
	  name=$$(basename $$file .py); echo "== $$name"; $(BIN)/python -m tests.bench.$$name; done

clean: ## remove the virtual environment, caches, and the data of `penstock up`
	@rm -rf .venv .penstock build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

lock: setup ## resolve the dependencies of pyproject.toml again, to pins with hashes
	@$(BIN)/uv pip compile pyproject.toml --all-extras --universal --generate-hashes --upgrade \
	  --python-version 3.11 --no-header --quiet --output-file requirements.lock

chart: setup $(STAMPS)/chart ## check the Helm chart, and write again what tests know of it
	@$(BIN)/python -m tests.support.deploy.chart
	@$(BIN)/pytest tests/integration/deploy/test_chart.py

$(STAMPS)/packages: requirements.lock deploy/setup/python.sh
	@deploy/setup/python.sh
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/penstock: pyproject.toml $(STAMPS)/packages
	@echo "installing penstock, editable (about 3 s)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(STAMPS)/compiled: $(STAMPS)/penstock
	@echo "compiling what the processes import (about 8 s)"
	@$(BIN)/python -c "$(foreach module,$(PROCESSES),import $(module);)"
	@$(BIN)/penstock fields >/dev/null
	@PENSTOCK_URL=http://127.0.0.1:9 PENSTOCK_TOKEN=none $(BIN)/penstock jobs list >/dev/null 2>&1 || true # what is imported late
	@touch $@

# Otherwise each of the processes would compile all tests.
$(STAMPS)/collected: $(STAMPS)/compiled
	@echo "compiling the tests (about 10 s)"
	@$(BIN)/pytest --collect-only --quiet -m "not long" >/dev/null || true
	@touch $@

$(STAMPS)/jdk: deploy/setup/jdk.sh $(STAMPS)/packages
	@deploy/setup/jdk.sh
	@touch $@

$(STAMPS)/java: libs/penstock/local/ivy.xml libs/penstock/local/jars.sha256 $(JAVA_SOURCES) $(STAMPS)/jdk
	@PYTHONPATH=libs $(BIN)/python -m penstock.local.jars
	@touch $@

$(STAMPS)/archive: libs/penstock/local/class_archive.py $(STAMPS)/java
	@$(BIN)/python -m penstock.local.class_archive
	@touch $@

$(STAMPS)/chart: deploy/helm/tools.lock deploy/compose/schema.lock deploy/setup/chart_tools.py deploy/setup/compose_schema.py $(STAMPS)/penstock
	@echo "fetching helm and the schemas of Kubernetes (60 MB), and that of Compose"
	@$(BIN)/python deploy/setup/chart_tools.py deploy/helm/tools.lock .venv/share/penstock/chart
	@$(BIN)/python deploy/setup/compose_schema.py deploy/compose/schema.lock .venv/share/penstock/chart/compose.json
	@touch $@
