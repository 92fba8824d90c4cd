#!/usr/bin/env bash
# Tests the program with tools from PyPI, in virtual environments in target/python-clients (8 GB with torch): the Python client in TRL, verl,
# OpenRLHF, OpenEnv, OpenEvolve and ShinkaEvolve, an agent's package with the tools for agents, openai and huggingface_hub with a served model,
# `transformers serve` as an endpoint, TensorBoard, MLflow and Harbor with the files that are written for them, and mypy and twine with the
# client's sources and the archives that PyPI would get. The rewards come from a
# `flopsmith serve` that the tests start on a free port; no weights are fetched. Sessions are left in target/clients for people to read.
# FLOPSMITH names the program, if it is not target/release/flopsmith.   scripts/clients.sh [TEST...]
set -euo pipefail
# Without this an environment that cannot be installed would be an empty name of an interpreter.
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."
place=target/python-clients
known=(types pages trl verl calls openenv openevolve shinka openai transformers mcp readers harbor)
tests=("$@")
[ $# -gt 0 ] || tests=("${known[@]}")

# Installed as a user would; pip would leave its build's files in the folder of the sources.
rm -rf "$place/source" "$place/wheel"
mkdir -p "$place"
cp -r clients/python "$place/source"

# The interpreter of an environment with the client.   environment NAME PACKAGE==VERSION...
environment() {
    local python
    python=$(scripts/python.sh --venv "$place/$1" "${@:2}")
    [ -d "$place/wheel" ] || "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$place/wheel" "$place/source" >&2
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$place"/wheel/*.whl >&2
    echo "$python"
}

given=()
for test in "${tests[@]}"; do
    case $test in
    trl | verl | calls | transformers)
        # verl 0.9.1 needs transformers below 5.11.
        python=$(environment trainers torch==2.11.0 transformers==5.9.0 accelerate==1.15.0 trl==1.16.0 verl==0.9.1)
        # Its dependencies flash-attn and deepspeed need CUDA to be built, and its reward call needs neither.
        [ "$test" != calls ] || "$python" -m pip install --quiet --disable-pip-version-check --no-deps openrlhf==0.11.2 >&2
        [ "$test" != transformers ] || "$python" -m pip install --quiet --disable-pip-version-check 'transformers[serving]==5.9.0' openai==3.51.0 >&2
        ;;
    pages | openevolve) python=$(environment openevolve openevolve==0.4.1) ;;
    openenv) python=$(environment openenv openenv==0.10.0) ;;
    shinka) python=$(environment shinka shinka-evolve==0.0.7) ;;
    openai) python=$(environment openai openai==3.51.0) ;;
    types) python=$(environment types mypy==2.4.1 setuptools==84.2.1 twine==7.0.0 trove-classifiers==2026.9.21.13) ;;
    mcp) python=$(environment mcp mcp==2.3.0) ;;
    readers) python=$(environment readers tensorboard==2.21.0 mlflow==3.17.2) ;;
    harbor)
        if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 12))'; then
            echo "skipped: the test of Harbor, since its package needs Python 3.12" >&2
            continue
        fi
        python=$(environment harbor harbor==0.26.0)
        ;;
    *)
        echo "$test is no test: name one or several of ${known[*]}" >&2
        exit 2
        ;;
    esac
    given+=("$test=$python")
done
exec python3 clients/python/tests/real/run.py "${given[@]}"
