#!/bin/sh
# cargo calls this for the crates of the workspace (.cargo/config.toml): the first argument is rustc. Test programs are compiled without
# optimisation, which takes a fifth of the time (docs/decisions/0065-build.md); the libraries and programs that they test are those of the
# release profile. Unit tests that compute for long, or that measure, are optimised like their crate, and so are those of the source analysis,
# whose recursion takes several times as much stack without optimisation.
case " $* " in
*" --test "*)
    case " $* " in
    *" --crate-name flopsmith_measure "* | *" --crate-name flopsmith_machine "* | *" --crate-name flopsmith_harness "* | *" --crate-name flopsmith_generator "* | *" --crate-name flopsmith_inspect "*) exec "$@" ;;
    esac
    exec "$@" -C opt-level=0
    ;;
esac
exec "$@"
