#!/usr/bin/env bash
# Checks all dependencies against deny.toml: licences, sources and known weaknesses. The first run fetches cargo-deny. Known weaknesses come from
# RustSec's database, a git repository: if it cannot be reached, the script reports that it skips this check.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

tool=$(scripts/setup.sh --tool cargo-deny)

for manifest in Cargo.toml fuzz/Cargo.toml; do
    "$tool" --manifest-path "$manifest" --locked check --hide-inclusion-graph licenses bans sources
done

database=https://github.com/rustsec/advisory-db
if timeout 30 git -c credential.helper= ls-remote --quiet "$database" HEAD >/dev/null 2>&1; then
    for manifest in Cargo.toml fuzz/Cargo.toml; do
        "$tool" --manifest-path "$manifest" --locked check advisories
    done
else
    echo "skipped: known weaknesses of dependencies, since $database cannot be reached" >&2
fi
