#!/usr/bin/env bash
# Installs a Debian package when that is possible, otherwise says once what to install. Usage: apt.sh PACKAGE
set -euo pipefail
cd "$(dirname "$0")/../.."
package=$1

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "Penstock needs what Debian calls $package: install it and run make again" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive

# Usage: with_progress TITLE SECONDS COMMAND...
with_progress() {
    PYTHONPATH=libs "${PYTHON:-python3}" -m penstock.local.progress "$@"
}

with_progress "reading the package lists of apt" 15 apt-get update -qq
if ! with_progress "installing $package by apt" 60 apt-get install -y -qq --no-install-recommends "$package"; then
    echo "apt cannot install $package: install it (or its like) by hand and run make again" >&2
    exit 1
fi
