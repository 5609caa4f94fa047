#!/usr/bin/env bash
# Makes .venv with the locked packages. Needs Python 3.11 or newer; where its venv module is missing (Debian packs it
# apart), root installs it by apt. The system's own Python comes first, unless an environment is active or PYTHON names
# another: distributions build theirs with optimisation by profile, version managers mostly do not, and their Pythons
# take 1.4 times the CPU.
set -euo pipefail
cd "$(dirname "$0")/../.."

find_python() {
    local modules name system=/usr/bin/python3
    if [ -n "${VIRTUAL_ENV:-}${CONDA_PREFIX:-}${PYENV_VERSION:-}" ]; then system=; fi
    for modules in ensurepip,sys sys; do
        for name in ${PYTHON:-$system python3 python3.13 python3.12 python3.11}; do
            if "$name" -c "import $modules; sys.exit(sys.version_info < (3, 11))" 2>/dev/null; then
                echo "$name"
                return
            fi
        done
    done
    echo "Penstock needs Python 3.11 or newer${PYTHON:+, which $PYTHON is not}: install it, or name it: make setup PYTHON=..." >&2
    return 1
}

python=$(find_python)
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    PYTHON=$python deploy/setup/apt.sh python3-venv
fi
if [ ! -x .venv/bin/pip ]; then
    echo "making .venv with $("$python" --version) (about 5 s)"
    "$python" -m venv .venv
fi
PYTHONPATH=libs .venv/bin/python deploy/setup/packages.py requirements.lock
