#!/usr/bin/env bash
# Compares models, sampling and learner with transformers, TRL and torch. These compute new expected values from random weights and tensors, and
# the tests that `make test` runs on committed values run on the new ones. Then transformers opens the folders that Flopsmith writes.
# PYTHON names an interpreter with the packages of tools/parity/requirements.txt; without it the script makes a virtual environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
place=$PWD/target/parity
python=${PYTHON:-$place/venv/bin/python}
if [ -z "${PYTHON:-}" ]; then
    if ! "$python" -m pip --version >/dev/null 2>&1 && ! python3 -m venv --clear "$place/venv"; then
        echo "python3 cannot make a virtual environment: install python3-venv, or name an interpreter in PYTHON" >&2
        exit 1
    fi
    "$python" -m pip install --quiet -r tools/parity/requirements.txt
fi
rm -rf "$place/anew" "$place/saved"
mkdir -p "$place/anew/models"
"$python" tools/parity/make_fixtures.py "$place/anew/models"
"$python" tools/parity/make_templates.py "$place/anew/templates.json"
"$python" tools/parity/make_tokens.py "$place/anew/tokens.json"
"$python" tools/parity/make_adapters.py "$place/anew/adapters" "$place/anew/rewards" "$place/anew/models"
"$python" tools/parity/make_losses.py "$place/anew/losses" "$place/anew/models"
"$python" tools/parity/make_preferences.py "$place/anew/losses"
FLOPSMITH_PARITY=$place/anew cargo test --release --locked -p flopsmith-policy -p flopsmith-learner --lib --test it -- \
    draw:: parity:: templates:: tokens:: adapters:: preferences:: --skip decode --nocapture
cargo run --release --locked -p flopsmith-policy --example parity_write -- "$place/saved"
"$python" tools/parity/check_saved.py "$place/saved"
echo "parity: all values agree"
