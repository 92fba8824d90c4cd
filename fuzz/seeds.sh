#!/usr/bin/env bash
# Copies what the fuzzers begin with from the tests and the problems into fuzz/corpus/, which is not part of the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p fuzz/corpus/{source,problem,message}
# The digit of a source's language, which the fuzzer's inputs begin with (`inspect::fuzz`).
language() {
    case "$1" in
        *.c) printf 0 ;;
        *.cpp) printf 1 ;;
        *.f90) printf 2 ;;
        *.f) printf 3 ;;
    esac
}
# Not every folder has programs in all languages.
shopt -s nullglob
# The folder's name goes into the file's, since folders share names of files.
for file in crates/measure/tests/corpus/*/*.{c,cpp,f90,f} crates/compile/tests/compile/*/*.{c,cpp,f90,f} crates/measure/tests/problems/*.c problems/*/*.c problems/*/*/*.c; do
    { language "$file" && cat "$file"; } >"fuzz/corpus/source/$(basename "$(dirname "$file")")-$(basename "$file")"
done
for file in problems/*/problem.toml problems/*/*/problem.toml; do
    cp "$file" "fuzz/corpus/problem/$(basename "$(dirname "$file")").toml"
done
cp crates/protocol/tests/golden/*.msgpack fuzz/corpus/message/
for target in source problem message; do
    printf '%-8s %s seeds\n' $target "$(find fuzz/corpus/$target -type f | wc -l)"
done
