"""The compilers, libraries and tuners that `scripts/bench/tuners.py` compares a search with.

A peer is a function of a case, a folder and the options. It returns one of three objects:

    {"state": "source", "file": ..., "compiler": ..., "flags": ...}    a program that `flopsmith bench` judges
    {"state": "timed", "seconds": ...}                                 a library: its fastest call, by its own clock
    {"state": "skipped", "reason": ...}                                the tool is missing, or does not apply

Further fields are kept as they are.
"""

from . import compilers, libraries, metaschedule, parameters, search

PEERS = {
    "gcc": compilers.gcc,
    "clang": compilers.clang,
    "polly": compilers.polly,
    "baseline": compilers.baseline,
    "kernel_tuner": parameters.kernel_tuner,
    "metaschedule": metaschedule.metaschedule,
    "openblas": libraries.openblas,
    "mkl": libraries.mkl,
    "flopsmith": search.flopsmith,
}

# Those that use the minutes of --minutes. The others are done at once.
TUNERS = ("kernel_tuner", "metaschedule", "flopsmith")
