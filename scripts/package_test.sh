#!/usr/bin/env bash
# Tests of package.sh with small programs instead of builds: what is in the packages, on what they depend, and what is refused. They need no cargo.
# Prints its results in the format of Rust's test programs, so that one sum covers all.
set -uo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BASE=$(mktemp -d)
trap 'rm -rf "$BASE"' EXIT
passed=0 failed=0

# A repository with one problem, and a folder of programs: a script for the program, and a program of this machine for the harness.
mkdir -p "$BASE/repository/scripts" "$BASE/repository/problems/dgemm" "$BASE/programs" "$BASE/bin"
cp "$ROOT/scripts/package.sh" "$BASE/repository/scripts/"
cp "$ROOT/Cargo.toml" "$ROOT/LICENSE" "$ROOT/CHANGELOG.md" "$BASE/repository/"
echo 'name = "dgemm"' >"$BASE/repository/problems/dgemm/problem.toml"
cat >"$BASE/programs/flopsmith" <<'END'
#!/bin/sh
case $1 in
completions) echo "completions for $2" ;;
man) mkdir -p "$2" && echo .TH >"$2/flopsmith.1" && echo .TH >"$2/flopsmith-bench.1" ;;
*) exit 2 ;;
esac
END
chmod +x "$BASE/programs/flopsmith"
cp /bin/true "$BASE/programs/flopsmith-harness"
VERSION=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml")

package() { env SOURCE_DATE_EPOCH=1700000000 CARGO_HOME="$BASE" "$BASE/repository/scripts/package.sh" "$@" >"$BASE/out" 2>&1; }
# check NAME ok|refused TEXT...: checks the exit of the last command and the texts of its output; `!TEXT` must be absent.
check() {
    local code=$? name=$1 wanted=$2 good=1 text
    shift 2
    if [ "$wanted" = ok ]; then [ $code -eq 0 ] || good=0; else [ $code -eq 2 ] || good=0; fi
    for text in "$@"; do
        if [[ $text == !* ]]; then ! grep -qF -- "${text#!}" "$BASE/out" || good=0; else grep -qF -- "$text" "$BASE/out" || good=0; fi
    done
    if [ $good = 1 ]; then
        passed=$((passed + 1))
        echo "test package::$name ... ok"
    else
        failed=$((failed + 1))
        echo "test package::$name ... FAILED"
        sed 's/^/    /' "$BASE/out"
    fi
}

# A cargo that delivers two programs of this machine, one of them static only by its name.
cat >"$BASE/bin/cargo" <<END
#!/bin/sh
while [ \$# -gt 0 ]; do
    case \$1 in -p) program=\$2 ;; --target) triple=\$2 ;; --target-dir) folder=\$2 ;; esac
    shift
done
echo "\$program: RUSTFLAGS=\$RUSTFLAGS"
mkdir -p "\$folder/\$triple/release" && cp "\$BUILT" "\$folder/\$triple/release/\$program"
END
chmod +x "$BASE/bin/cargo"
BUILT=/bin/true package static
check a_program_that_needs_libraries_is_not_static refused "it needs libc.so.6" "libc6-dev"
BUILT=$BASE/programs/flopsmith package static
check the_program_alone_is_linked_statically ok "flopsmith: RUSTFLAGS=-Ctarget-feature=+crt-static" "flopsmith-harness: RUSTFLAGS=" "flopsmith-$VERSION-$(uname -m).tar.gz"
tar -tzf "$BASE/repository/target/package/flopsmith-$VERSION-$(uname -m).tar.gz" >"$BASE/out"
check a_tarball_has_programs_and_problems ok "$(uname -m)/flopsmith" "/flopsmith-harness" "/problems/dgemm/problem.toml" "/LICENSE"

package flatpak
check names_an_unknown_package refused 'unknown package `flatpak`' "static and deb"
package deb "$BASE/nowhere"
check names_a_missing_program refused "there is no program $BASE/nowhere/flopsmith"

if ! command -v dpkg-deb >/dev/null; then
    echo "skipped: the Debian package, since dpkg-deb was not found"
else
    deb=$BASE/repository/target/package/flopsmith_${VERSION}_$(dpkg --print-architecture).deb
    package deb "$BASE/programs"
    check says_where_the_package_is ok "$(basename "$deb")"
    cp "$deb" "$BASE/first.deb"
    dpkg-deb -c "$deb" >"$BASE/out" 2>&1
    check a_package_has_all_files_in_their_places ok \
        "./usr/bin/flopsmith -> ../lib/flopsmith/flopsmith" "./usr/lib/flopsmith/flopsmith-harness" \
        "./usr/lib/flopsmith/problems -> ../../share/flopsmith/problems" "./usr/share/flopsmith/problems/dgemm/problem.toml" \
        "./usr/share/man/man1/flopsmith.1.gz" "./usr/share/man/man1/flopsmith-bench.1.gz" \
        "./usr/share/bash-completion/completions/flopsmith" "./usr/share/zsh/vendor-completions/_flopsmith" \
        "./usr/share/fish/vendor_completions.d/flopsmith.fish" "./usr/share/doc/flopsmith/copyright" "./usr/share/doc/flopsmith/changelog.gz"
    [ "$(awk '{print $2}' "$BASE/out" | sort -u)" = root/root ] && ! grep -E '^.{5}w|^.{8}w' "$BASE/out" | grep -qv '^l'
    check files_belong_to_root_and_only_root_writes_them ok
    dpkg-deb -f "$deb" >"$BASE/out" 2>&1
    check a_package_names_what_it_needs ok "Package: flopsmith" "Version: $VERSION" "Depends: bubblewrap, libc6 (>= 2." "Recommends: gcc" "Maintainer: "
    dpkg-deb -x "$deb" "$BASE/root" && (cd "$BASE/root" && dpkg-deb --ctrl-tarfile "$deb" | tar -xO ./md5sums | md5sum -c --quiet) >"$BASE/out" 2>&1
    check sums_are_those_of_the_files ok
    # The program of an installed package has harness and problems beside it.
    beside=$(dirname "$(readlink -f "$BASE/root/usr/bin/flopsmith")")
    [ -x "$beside/flopsmith-harness" ] && [ -f "$beside/problems/dgemm/problem.toml" ]
    check programs_find_each_other ok
    # zsh and fish find completions by the names of these files.
    grep -qx "completions for zsh" "$BASE/root/usr/share/zsh/vendor-completions/_flopsmith" &&
        grep -qx "completions for fish" "$BASE/root/usr/share/fish/vendor_completions.d/flopsmith.fish"
    check each_shell_has_its_own_completions ok
    package deb "$BASE/programs" && cmp "$deb" "$BASE/first.deb" >"$BASE/out" 2>&1
    check equal_programs_give_equal_packages ok
    # A program that needs a library of no known package, as one with libtorch does.
    mkdir "$BASE/torch"
    cp "$BASE/programs/flopsmith" "$BASE/torch/"
    for library in /bin/ls /usr/bin/python3 /bin/bash; do
        if readelf -d "$library" 2>/dev/null | grep NEEDED | grep -qvE 'lib(c|m|gcc_s)\.so|ld-linux'; then break; fi
    done
    cp "$library" "$BASE/torch/flopsmith-harness"
    package deb "$BASE/torch"
    check refuses_a_program_with_other_libraries refused "of which this script knows no package" "make node"
fi

echo
echo "test result: $([ $failed = 0 ] && echo ok || echo FAILED). $passed passed; $failed failed; 0 ignored; 0 measured; 0 filtered out"
[ $failed = 0 ]
