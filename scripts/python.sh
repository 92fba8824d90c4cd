#!/usr/bin/env bash
# Installs packages from PyPI into target/python, and prints the interpreter whose pip fetched them: the system's, or that of target/venv if
# the system's has no pip.   scripts/python.sh PACKAGE==VERSION...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=python3
if ! python3 -m pip --version >/dev/null 2>&1; then
    python=target/venv/bin/python
    "$python" -m pip --version >/dev/null 2>&1 || python3 -m venv target/venv >&2
fi
"$python" -m pip install --quiet --disable-pip-version-check --upgrade --target target/python "$@" >&2
echo "$python"
