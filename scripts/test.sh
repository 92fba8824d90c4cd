#!/usr/bin/env bash
# Runs the tests in the release profile, which `make build` has already built the libraries for. cargo-nextest runs those from outside, each in a
# process of its own; .config/nextest.toml says what may run beside what. Arguments go to it, e.g.
# `scripts/test.sh --workspace --test run timing::`; naming a crate by -p would build libraries with other features.
# Ends with what was left out and why, and the totals.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

runner=$(scripts/setup.sh --tool cargo-nextest) || exit
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
scripts/setup_test.sh 2>&1 | tee "$work/scripts" || status=$?
for tests in scripts/bench/*_test.py scripts/test_verify.py; do
    python3 "$tests" 2>&1 | tee -a "$work/scripts" || status=$?
done
# What a test leaves out it says here (flopsmith-test-support): a test that passes is not heard otherwise.
skipped=${FLOPSMITH_SKIPPED:-$work/skipped}
: >"$skipped"
# Unit tests share a process for each crate: a thousand processes would each load libtorch for a second to run for a millisecond.
export FLOPSMITH_SKIPPED=$skipped
if [ "$*" = "--workspace --tests" ]; then
    cargo test --release --locked --no-fail-fast --workspace --lib --bins -- --skip peak:: 2>&1 | tee -a "$work/scripts" || status=$?
    # What measures the machine runs alone (.config/nextest.toml).
    set -- "$@" -E 'kind(test) + test(/^peak::/)'
fi
"$runner" nextest run --release --locked --test-threads $((2 * $(nproc))) "$@" 2>&1 | tee "$work/tests" || status=$?

if [ -s "$skipped" ]; then
    printf '\nleft out by tests that count as passed:\n'
    sort -u "$skipped" | sed 's/^/  /'
fi
printf '\nskipped as a whole are tests that are marked so, by the reason:\n'
grep -rhoP --include='*.rs' '#\[ignore = "\K[^"]*' crates | sort | uniq -c | sed 's/^ */  /'
awk '/^test result: / {
        for (i = 3; i < NF; i++) {
            if ($(i + 1) ~ /^passed/) passed += $i
            if ($(i + 1) ~ /^failed/) failed += $i
        }
    }
    /^test .* \.\.\. FAILED$/ { names = names "\n  " $2 }
    END { printf "\nof unit tests and scripts: %d passed, %d failed%s\n", passed, failed, names }' "$work/scripts"
# The closing lines of the runner: its totals, and what failed.
sed -n '/^ *Summary \[/,$p' "$work/tests"
exit "$status"
