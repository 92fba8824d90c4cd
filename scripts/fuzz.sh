#!/usr/bin/env bash
# Fuzzes the parsers of untrusted input, one target after the other. For use by hand: `make test` has short runs of the same functions
# (`fuzz_one` in protocol, problem and inspect).
#
#   scripts/fuzz.sh [SECONDS [TARGET...]]     seconds for each target (1200: an hour for all three)
#
# The address sanitizer, the one part of cargo-fuzz that needs a nightly compiler, stays off: the three parsers have no unsafe code
# (the lint `unsafe_code` denies it). So the fuzzers run what the pinned compiler builds, as the program does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# rustup's folder, for shells that were opened before Rust was installed.
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

fail() {
    printf 'fuzz.sh: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '  %s\n' "$line" >&2; done
    exit 1
}

seconds=${1:-1200}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "\`$seconds\` is not a number of seconds" "try: scripts/fuzz.sh 1200 source"
shift || true
[ $# -gt 0 ] || set -- source problem message
for target in "$@"; do
    [ -f "fuzz/fuzz_targets/$target.rs" ] || fail "unknown target \`$target\`" "the targets are source, problem and message"
done
fuzzer=$(scripts/setup.sh --tool cargo-fuzz)
fuzz/seeds.sh
found=()
for target in "$@"; do
    limits=(-max_len=8192 -timeout=5 -rss_limit_mb=4096)
    # Sources may be longer, and their checks take longer.
    [ "$target" != source ] || limits=(-max_len=16384 -timeout=10 -rss_limit_mb=4096)
    echo "== $target, $seconds seconds"
    # libFuzzer ends at the first input that breaks something; the other targets still run for their full time.
    "$fuzzer" run --sanitizer none "$target" -- "-max_total_time=$seconds" "${limits[@]}" || found+=("$target")
done
[ ${#found[@]} -eq 0 ] ||
    fail "a fuzzer found a defect or failed: ${found[*]}" "fuzz/artifacts/ has the inputs that break something; fuzz/README.md says what to do with them"
