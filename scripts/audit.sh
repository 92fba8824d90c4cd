#!/usr/bin/env bash
# Holds everything that is built in to deny.toml: licences, where it comes from, and weaknesses that are known of it. The tool for it is
# fetched the first time. Known weaknesses are looked up in RustSec's database, a git repository: where that cannot be reached, that part is
# left out, and said to be.
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
    echo "skipped: known weaknesses of dependencies, as $database cannot be reached" >&2
fi
