#!/usr/bin/env bash
# Installs packages from PyPI into target/python, and prints the interpreter whose pip fetched them: the system's, or that of target/venv if
# the system's has no pip.   scripts/python.sh PACKAGE==VERSION...
# Packages that must not meet others get a virtual environment of their own, and the script prints its interpreter; it installs only what has
# changed since the last call.   scripts/python.sh --venv FOLDER PACKAGE==VERSION...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${1:-}" = --venv ]; then
    folder=$PWD/$2
    shift 2
    if [ "$(cat "$folder/packages" 2>/dev/null)" != "$*" ]; then
        python3 -m venv --clear "$folder" >&2
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >&2
        echo "$*" >"$folder/packages"
    fi
    echo "$folder/bin/python"
    exit
fi

python=python3
if ! python3 -m pip --version >/dev/null 2>&1; then
    python=target/venv/bin/python
    "$python" -m pip --version >/dev/null 2>&1 || python3 -m venv target/venv >&2
fi
"$python" -m pip install --quiet --disable-pip-version-check --upgrade --target target/python "$@" >&2
echo "$python"
