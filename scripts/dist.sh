#!/usr/bin/env bash
# Builds the contents of the images: target/dist/worker (without libtorch) and target/dist/trainer (with it). `scripts/dist.sh worker` makes
# only the first one.
#
# Both builds use the same folder and the same choice of crates, so that cargo builds the crates without libtorch once. At the end
# target/release/flopsmith is the program with libtorch.
set -euo pipefail
images=${1:-worker trainer}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
home=${FLOPSMITH_HOME:-$PWD/.flopsmith}
dist=target/dist

# Fills a folder with the programs of a build and the files that they look for beside themselves.
fill() {
    rm -rf "$1"
    mkdir -p "$1/bin"
    for program in flopsmith flopsmith-harness; do
        strip -o "$1/bin/$program" "target/release/$program"
    done
    cp -r problems LICENSE "$1/"
}

# cargo builds the other crates too, libtorch's among them, but does not link them into the program.
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
