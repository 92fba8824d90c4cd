#!/usr/bin/env bash
# Trains models/nests by examples/train-suite.toml, evaluates the problems that the run holds out before and after the training, and compares
# both. Arguments go to `train`, except --format, which is given here. The evaluation lies in the folder of the run that was trained or resumed, and has the run's workloads.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
flopsmith=target/release/flopsmith

summary=$("$flopsmith" train examples/train-suite.toml --format json "$@")
# The summary has whole programs, and is too long for an argument.
folder=$(python3 -c 'import json, sys; print(json.loads(sys.stdin.readlines()[-1])["folder"])' <<<"$summary")

# The names in a list of the run's settings.
listed() {
    sed -n "s/^$1 = //p" "$folder/config.toml" | grep -o '"[^"]*"' | tr -d '"' || true
}

chosen=()
while read -r name; do chosen+=(--problem "$name"); done < <(listed hold_out)
while read -r name; do chosen+=(--workload "$name"); done < <(listed workloads)
"$flopsmith" eval before=models/nests after="$folder/model" "${chosen[@]}" --prompt nest --max-tokens 640 --output "$folder/held-out"
"$flopsmith" eval compare "$folder/held-out#before" "$folder/held-out#after"
