#!/usr/bin/env bash
# Packs the program without libtorch for other machines, into target/package:
#
#   scripts/package.sh static         flopsmith-VERSION-ARCHITECTURE.tar.gz: a program that needs no library of the machine, the harness, the
#                                     problems
#   scripts/package.sh deb [FOLDER]   flopsmith_VERSION_ARCHITECTURE.deb: the same with man pages and completions; with FOLDER of the programs
#                                     there, e.g. target/node/release after `make node`
#
# The program is linked statically against glibc: the sandbox uses calls that musl lacks. The harness loads candidates, which gcc built for
# the machine's own libraries, so it stays dynamic. It runs where glibc is as new as on the machine that built it, or newer.
#
# Settings by environment variable:
#   DEBFULLNAME, DEBEMAIL   name and address of the package's maintainer
#   SOURCE_DATE_EPOCH       time of the files, in seconds since 1970 (default: that of the commit), so that equal sources give equal packages
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
umask 022
PROGRAMS=(flopsmith flopsmith-harness)
OUT=target/package
VERSION=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

command -v readelf >/dev/null || { echo "package.sh: readelf not found; apt-get install binutils" >&2 && exit 3; }
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

fail() {
    printf 'package.sh: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '  %s\n' "$line" >&2; done
    exit 2
}

# The shared libraries that a program names, a line each; none for a script or a static program.
libraries() { (LC_ALL=C readelf -d "$1" 2>/dev/null || true) | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

# The newest version of glibc of which a program uses a function.
glibc() { LC_ALL=C readelf -V "$1" 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1 | cut -d _ -f 2; }

# build_static: the programs in $OUT/static. They do without the paths to libtorch that .cargo/config.toml adds.
build_static() {
    local triple needed
    triple=$(uname -m)-unknown-linux-gnu
    export CARGO_PROFILE_RELEASE_STRIP=symbols
    # Named by its triple, the target is another one than that of build scripts and macros, which cannot be static.
    RUSTFLAGS="-Ctarget-feature=+crt-static" cargo build --release --locked -p flopsmith --no-default-features --target "$triple" --target-dir $OUT/build >&2
    RUSTFLAGS='' cargo build --release --locked -p flopsmith-harness --target "$triple" --target-dir $OUT/build-harness >&2
    rm -rf $OUT/static
    mkdir -p $OUT/static
    cp "$OUT/build/$triple/release/flopsmith" "$OUT/build-harness/$triple/release/flopsmith-harness" $OUT/static/
    needed=$(libraries $OUT/static/flopsmith | tr '\n' ' ')
    [ -z "$needed" ] || fail "the program is not static: it needs $needed" "install the static C library (Debian: libc6-dev; Fedora: glibc-static)"
}

# tarball FOLDER: packs its programs with the problems.
tarball() {
    local name file
    name=flopsmith-$VERSION-$(uname -m)
    file=$OUT/$name.tar.gz
    mkdir "$WORK/$name"
    cp "${PROGRAMS[@]/#/$1/}" LICENSE "$WORK/$name/"
    cp -r problems "$WORK/$name/"
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$WORK" -c "$name" | gzip -n >"$file"
    echo "$file"
}

# depends PROGRAM...: the packages of the shared libraries that the programs name, for a control file.
depends() {
    local program library packages=bubblewrap newest=
    for program in "$@"; do
        for library in $(libraries "$program"); do
            case $library in
            libc.so.* | libm.so.* | ld-linux*) newest=$(printf '%s\n%s\n' "$newest" "$(glibc "$program")" | sort -V | tail -n 1) ;;
            libgcc_s.so.1) packages+=", libgcc-s1" ;;
            *) fail "$program needs $library, of which this script knows no package" "package a build without libtorch: make node" ;;
            esac
        done
    done
    [ -z "$newest" ] || packages+=", libc6 (>= $newest)"
    printf '%s\n' "$packages" | sed 's/, /\n/g' | sort -u | paste -sd , | sed 's/,/, /g'
}

# deb FOLDER: makes the package of the programs in a folder.
deb() {
    local from=$1 root=$WORK/deb program needed architecture file
    for program in "${PROGRAMS[@]}"; do
        [ -x "$from/$program" ] || fail "there is no program $from/$program" "name the folder of a build, or leave it out to build one"
    done
    command -v dpkg-deb >/dev/null || fail "dpkg-deb not found" "apt-get install dpkg; scripts/package.sh static makes a tarball without it"
    architecture=$(dpkg --print-architecture)
    needed=$(depends "${PROGRAMS[@]/#/$from/}")
    mkdir -p $OUT

    # Each program finds what lies beside it. The program resolves the link in /usr/bin before it looks.
    install -D -t "$root/usr/lib/flopsmith" "${PROGRAMS[@]/#/$from/}"
    mkdir -p "$root/usr/bin" "$root/usr/share/flopsmith"
    ln -s ../lib/flopsmith/flopsmith "$root/usr/bin/flopsmith"
    cp -r problems "$root/usr/share/flopsmith/"
    ln -s ../../share/flopsmith/problems "$root/usr/lib/flopsmith/problems"

    "$from/flopsmith" man "$root/usr/share/man/man1"
    gzip -n9 "$root"/usr/share/man/man1/*.1
    mkdir -p "$root"/usr/share/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d,doc/flopsmith}
    "$from/flopsmith" completions bash >"$root/usr/share/bash-completion/completions/flopsmith"
    "$from/flopsmith" completions zsh >"$root/usr/share/zsh/vendor-completions/_flopsmith"
    "$from/flopsmith" completions fish >"$root/usr/share/fish/vendor_completions.d/flopsmith.fish"
    gzip -n9c CHANGELOG.md >"$root/usr/share/doc/flopsmith/changelog.gz"
    printf 'Flopsmith is licensed under the Apache License, version 2.0:\n/usr/share/common-licenses/Apache-2.0\n' >"$root/usr/share/doc/flopsmith/copyright"

    find "$root" -type d -exec chmod 755 {} +
    find "$root/usr/share" -type f -exec chmod 644 {} +
    mkdir "$root/DEBIAN"
    cat >"$root/DEBIAN/control" <<END
Package: flopsmith
Version: $VERSION
Architecture: $architecture
Maintainer: ${DEBFULLNAME:-Flopsmith} <${DEBEMAIL:-flopsmith@localhost}>
Installed-Size: $(du -k -s --apparent-size "$root/usr" | cut -f 1)
Depends: $needed
Recommends: gcc, libc6-dev
Suggests: clang, g++, gfortran, libopenblas0-pthread, nats-server, python3
Section: science
Priority: optional
Description: compiles, verifies and times programs in a jail
 Flopsmith searches for fast programs and scores those of models, trainers and
 agents: it checks them on inputs that they have never seen and times them
 beside a baseline. This build has everything but training and models, for
 benchmark nodes.
END
    # Before md5sum reads the files, all have the time of the commit; dpkg-deb would otherwise keep the times of the copies.
    find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    (cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    touch -d "@$SOURCE_DATE_EPOCH" "$root/DEBIAN" "$root/DEBIAN/md5sums"
    file=$OUT/flopsmith_${VERSION}_$architecture.deb
    dpkg-deb --root-owner-group --build "$root" "$file" >/dev/null
    echo "$file"
}

case "${1:-}" in
static)
    [ $# = 1 ] || fail "static takes no argument"
    build_static
    tarball $OUT/static
    echo "package.sh: the harness needs glibc $(glibc $OUT/static/flopsmith-harness) or newer" >&2
    ;;
deb)
    [ $# -le 2 ] || fail "deb takes one folder at most"
    [ $# = 2 ] || build_static
    deb "${2:-$OUT/static}"
    ;;
*) fail "unknown package \`${1:-}\`" "the packages are static and deb" ;;
esac
