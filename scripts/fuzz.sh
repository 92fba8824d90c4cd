#!/usr/bin/env bash
# Fuzzes the parsers that read what somebody else wrote, one target after the other. By hand: `make test` has short runs of the
# same bodies (`fuzz_one` in protocol, problem and inspect).
#
#   scripts/fuzz.sh [SECONDS [TARGET...]]     seconds for each target (1200: an hour for all three)
#
# A nightly compiler is needed, as coverage and the address sanitizer are none of stable Rust. RUSTC_BOOTSTRAP=1 would make the
# pinned compiler take them; it would also make every build script of every library believe that it is on nightly, so that
# other code would be fuzzed than is built, by a compiler nobody supports in that way. So it is not done.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# rustup's folder, for shells that were open before Rust was installed.
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

fail() {
    printf 'fuzz.sh: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '  %s\n' "$line" >&2; done
    exit 1
}

seconds=${1:-1200}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "\`$seconds\` is no number of seconds" "try: scripts/fuzz.sh 1200 source"
shift || true
[ $# -gt 0 ] || set -- source problem message
for target in "$@"; do
    [ -f "fuzz/fuzz_targets/$target.rs" ] || fail "there is no target \`$target\`" "there are source, problem and message"
done
cargo +nightly --version >/dev/null 2>&1 ||
    fail "a nightly compiler is needed, for coverage and the address sanitizer" "rustup toolchain install nightly --profile minimal"
cargo +nightly fuzz --version >/dev/null 2>&1 ||
    fail "cargo-fuzz is needed" "cargo install cargo-fuzz --version 0.13.2 --locked"

fuzz/seeds.sh
found=()
for target in "$@"; do
    limits=(-max_len=8192 -timeout=5 -rss_limit_mb=4096)
    # Sources may be longer, and more is done with them.
    [ "$target" != source ] || limits=(-max_len=16384 -timeout=10 -rss_limit_mb=4096)
    echo "== $target, $seconds seconds"
    # It ends at the first input that breaks something; the other targets have their time all the same.
    cargo +nightly fuzz run "$target" -- "-max_total_time=$seconds" "${limits[@]}" || found+=("$target")
done
[ ${#found[@]} -eq 0 ] ||
    fail "something was found or went wrong: ${found[*]}" "inputs that break something lie in fuzz/artifacts/; fuzz/README.md says what to do with them"
