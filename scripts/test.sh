#!/usr/bin/env bash
# Runs the tests in the release profile, for which `make build` has already built the libraries. cargo-nextest runs each integration test in
# its own process, except those of the test programs `it`; .config/nextest.toml says which tests may run at the same time. Arguments go to cargo-nextest, e.g.
# `scripts/test.sh --workspace --test run timing::`; naming a crate by -p would build libraries with other features.
# Prints at the end the checks that were left out, with reasons, and the totals.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

runner=$(scripts/setup.sh --tool cargo-nextest) || exit
work=$(mktemp -d)
it=
scripts=
# A background command of a script ignores Ctrl-C, so the tests end with this script.
finish() {
    [ -z "$it" ] || kill -- "-$it" 2>/dev/null
    [ -z "$scripts" ] || pkill -P "$scripts"
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
status=0
# Tests of scripts start many small processes one after the other, and run while cargo compiles.
script_tests() {
    local tests failed=0
    scripts/setup_test.sh || failed=$?
    scripts/package_test.sh || failed=$?
    for tests in scripts/bench/*_test.py scripts/bridge_test.py scripts/docs_test.py scripts/test_docs_run.py scripts/test_verify.py scripts/test_torch_tests.py scripts/test_gpu_check.py scripts/test_harbor_check.py scripts/test_packages_check.py scripts/test_cluster_test.py scripts/test_ui_test.py scripts/train_suite_test.py clients/python/tests/test_client.py clients/python/tests/test_pages.py clients/python/tests/test_package.py; do
        python3 "$tests" || failed=$?
    done
    return "$failed"
}
script_tests >"$work/scripts" 2>&1 &
scripts=$!
# Tests append the checks that they leave out to this file (flopsmith-test-support): the runner hides the output of a test that passes.
skipped=${FLOPSMITH_SKIPPED:-$work/skipped}
: >"$skipped"
# The unit tests of a crate share a process, and so do the tests of its program `it`: a thousand processes would each load libtorch for half a
# second to run for a millisecond.
export FLOPSMITH_SKIPPED=$skipped
: >"$work/unit"
: >"$work/it"
if [ "$*" = "--workspace --tests" ]; then
    # All test programs in one build: in two, the processors idle at the end of each.
    cargo test --release --locked --workspace --tests --no-run || status=$?
    # cargo runs one program after the other, and at the end of each a processor idles: so two are run at a time.
    setsid cargo test --release --locked --no-fail-fast --workspace --test it >"$work/it" 2>&1 &
    it=$!
    cargo test --release --locked --no-fail-fast --workspace --lib --bins -- --skip peak:: 2>&1 | tee "$work/unit" || status=$?
    wait "$it" || status=$?
    it=
    cat "$work/it"
    # Tests that measure the machine run alone (.config/nextest.toml). The runner starts no program of which no test is chosen.
    set -- "$@" -E '(kind(test) - binary(it)) + (package(flopsmith-machine) & test(/^peak::/))'
fi
# No test that measures has begun yet.
wait "$scripts" || status=$?
scripts=
cat "$work/scripts"
"$runner" nextest run --release --locked --test-threads $((5 * $(nproc) + 1)) "$@" 2>&1 | tee "$work/tests" || status=$?

if [ -s "$skipped" ]; then
    printf '\nleft out by tests that passed:\n'
    sort -u "$skipped" | sed 's/^/  /'
fi
printf '\nignored tests, by reason:\n'
grep -rhoP --include='*.rs' '#\[ignore = "\K[^"]*' crates | sort | uniq -c | sed 's/^ */  /'
awk '/^test result: / {
        for (i = 3; i < NF; i++) {
            if ($(i + 1) ~ /^passed/) passed += $i
            if ($(i + 1) ~ /^failed/) failed += $i
        }
    }
    /^test .* \.\.\. FAILED$/ { names = names "\n  " $2 }
    END { printf "\nunit tests and scripts: %d passed, %d failed%s\n", passed, failed, names }' "$work/scripts" "$work/unit" "$work/it"
# The closing lines of the runner: its totals, and the failed tests.
sed -n '/^ *Summary \[/,$p' "$work/tests"
exit "$status"
