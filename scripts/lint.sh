#!/bin/sh
# `.ci/run` has cargo call this instead of scripts/rustc.sh: it makes every warning an error, and clippy compiles test programs and examples
# in place of rustc. So the build lints; `cargo clippy` would first check all libraries, which the build has compiled already
# (docs/decisions/0065-build.md). rustc still compiles the program and its crates, since clippy switches some optimisations off. Their unit
# tests contain the same source, so clippy reads all of it.
rustc=$(dirname "$0")/rustc.sh
case " $* " in
*" --test "*) exec "$rustc" clippy-driver "$@" -D warnings ;;
*" crates/"*"/examples/"*) exec "$rustc" clippy-driver "$@" -D warnings -C opt-level=0 ;;
esac
exec "$rustc" "$@" -D warnings
