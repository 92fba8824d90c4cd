#!/usr/bin/env bash
# Builds what the images hold: target/dist/worker (without libtorch) and target/dist/trainer (with it). `scripts/dist.sh worker` makes the
# first one only.
#
# Both are built in the same folder and with the same choice of crates, so that what has nothing to do with libtorch is not built twice;
# target/release/flopsmith is the full one at the end.
set -euo pipefail
images=${1:-worker trainer}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
home=${FLOPSMITH_HOME:-$PWD/.flopsmith}
dist=target/dist

# What both have: programs of a build, and what they find beside themselves.
fill() {
    rm -rf "$1"
    mkdir -p "$1/bin"
    for program in flopsmith flopsmith-harness; do
        strip -o "$1/bin/$program" "target/release/$program"
    done
    cp -r problems LICENSE "$1/"
}

# The other crates, libtorch's among them, are built as before, and no part of it.
cargo build --release --workspace --no-default-features --locked
if ldd target/release/flopsmith | grep -q torch; then
    echo "the build without libtorch is linked to it" >&2
    exit 1
fi
fill "$dist/worker"
cargo build --release --workspace --locked
if [[ $images == *trainer* ]]; then
    fill "$dist/trainer"
    cp -r models examples "$dist/trainer/"
    mkdir "$dist/trainer/lib"
    cp -r "$home/libtorch/lib/." "$dist/trainer/lib/"
fi
for image in $images; do du -sh "$dist/$image" >&2; done
