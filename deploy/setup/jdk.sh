#!/usr/bin/env bash
# Makes sure that there is a JDK 17: the one that Penstock itself finds, else Debian's, by apt.
set -euo pipefail
cd "$(dirname "$0")/../.."

finds_jdk() {
    PYTHONPATH=libs .venv/bin/python -c 'from penstock.local.jars import java_home; print("JDK 17:", java_home())' 2>/dev/null
}

finds_jdk && exit 0
PYTHON=.venv/bin/python deploy/setup/apt.sh openjdk-17-jdk-headless
finds_jdk
