#!/usr/bin/env bash
# Installs a Debian package when that is possible, otherwise says once what to install. Usage: apt.sh PACKAGE
set -euo pipefail
package=$1

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "Penstock needs what Debian calls $package: install it and run make again" >&2
    exit 1
fi
echo "installing $package by apt"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq </dev/null
if ! apt-get install -y -qq --no-install-recommends "$package" </dev/null >/dev/null; then
    echo "apt cannot install $package: install it (or its like) by hand and run make again" >&2
    exit 1
fi
