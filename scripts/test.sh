#!/usr/bin/env bash
# Runs the tests in the release profile, which `make build` has already built the libraries for, and ends with the totals
# over all test programs and with what was skipped, which Rust's test programs count as passed. One test program at a time: some
# measure, and two at once would disturb each other.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
scripts/setup_test.sh 2>&1 | tee -a "$log" || status=$?
for tests in scripts/bench/*_test.py; do
    python3 "$tests" 2>&1 | tee -a "$log" || status=$?
done
cargo test --release --locked --no-fail-fast "$@" 2>&1 | tee -a "$log" || status=$?

awk '
    /^test result: / {
        for (i = 3; i < NF; i++) {
            if ($(i + 1) ~ /^passed/) passed += $i
            if ($(i + 1) ~ /^failed/) failed += $i
            if ($(i + 1) ~ /^ignored/) ignored += $i
        }
        programs++
    }
    /^test .* \.\.\. FAILED$/ { names = names "\n  " $2 }
    # As flopsmith-test-support says it.
    /^skipped: / { skips = skips "\n  " substr($0, length("skipped: ") + 1) }
    END {
        if (skips) printf "\nskipped, and among the passed ones:%s\n", skips
        printf "\ntotal: %d passed, %d failed, %d ignored in %d test programs%s\n", passed, failed, ignored, programs, names
    }' "$log"
exit "$status"
