"""Libraries of linear algebra: one call does the whole work.

`flopsmith bench` judges sources, and a call of a library is no source. So a driver of its own calls the library at the same size, compares its results with
the plain reference and takes the fastest call, as `flopsmith bench` does with the OpenBLAS of the system."""

from pathlib import Path

from .cases import C_TYPES
from .tools import Missing, one_thread, private_python, run

OPENBLAS = "scipy-openblas64==0.3.34.481.3"
MKL = "mkl==2026.2.0"

# The calls that compute a problem. 101 is row-major; 111, 112 take a matrix as it is, transposed; 121, 122 are the upper and the lower triangle; 131, 132 have
# any diagonal, one of ones; 141 is the left side.
CALLS = {
    "dgemm": "CBLAS(dgemm)(101, 111, 111, n, n, n, 1.0, A, n, B, n, 0.0, C, n);",
    "sgemm": "CBLAS(sgemm)(101, 111, 111, n, n, n, 1.0f, A, n, B, n, 0.0f, C, n);",
    "dgemv": "CBLAS(dgemv)(101, 111, m, n, 1.0, A, n, x, 1, 0.0, y, 1);",
    "dot": "result[0] = CBLAS(ddot)(n, x, 1, y, 1);",
    "dsyrk": "CBLAS(dsyrk)(101, 122, 111, n, k, 1.0, A, k, 0.0, C, n);\n"
             "    for (int i = 0; i < n; i++) for (int j = i + 1; j < n; j++) C[(long)i * n + j] = C[(long)j * n + i];",
    "dtrsm": "memcpy(X, B, sizeof(double) * n * m);\n    CBLAS(dtrsm)(101, 141, 122, 111, 131, n, m, 1.0, L, n, X, m);",
    "polybench_gemm": "CBLAS(dgemm)(101, 111, 111, ni, nj, nk, alpha, A, nk, B, nj, beta, C, nj);",
    "polybench_syrk": "CBLAS(dsyrk)(101, 122, 111, n, m, alpha, A, m, beta, C, n);",
    "polybench_syr2k": "CBLAS(dsyr2k)(101, 122, 111, n, m, alpha, A, m, B, m, beta, C, n);",
    "polybench_symm": "CBLAS(dsymm)(101, 141, 122, m, n, alpha, A, m, B, n, beta, C, n);",
    "polybench_trmm": "CBLAS(dtrmm)(101, 141, 122, 112, 132, m, n, alpha, A, m, B, n);",
}

PROTOTYPES = """
void CBLAS(dgemm)(int, int, int, INT, INT, INT, double, const double *, INT, const double *, INT, double, double *, INT);
void CBLAS(sgemm)(int, int, int, INT, INT, INT, float, const float *, INT, const float *, INT, float, float *, INT);
void CBLAS(dgemv)(int, int, INT, INT, double, const double *, INT, const double *, INT, double, double *, INT);
double CBLAS(ddot)(INT, const double *, INT, const double *, INT);
void CBLAS(dsyrk)(int, int, int, INT, INT, double, const double *, INT, double, double *, INT);
void CBLAS(dsyr2k)(int, int, int, INT, INT, double, const double *, INT, const double *, INT, double, double *, INT);
void CBLAS(dsymm)(int, int, int, INT, INT, double, const double *, INT, const double *, INT, double, double *, INT);
void CBLAS(dtrmm)(int, int, int, int, int, INT, INT, double, const double *, INT, double *, INT);
void CBLAS(dtrsm)(int, int, int, int, int, INT, INT, double, const double *, INT, double *, INT);
"""

# OpenBLAS does not know every processor of a virtual machine and then takes its oldest kernels. A type that the processor cannot execute ends its process.
CORE_TYPES = ("", "Haswell", "Zen", "SkylakeX", "Cooperlake", "Sapphirerapids")

MAIN = """
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}
static unsigned long long state = 1;
static double next(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(state >> 11) / 9007199254740992.0 - 0.5;
}
int main(void)
{
@ARRAYS@
    @RESTORE@
    reference_@NAME@(@CALL@);
    @KEEP@
    double best = 1e9, start = now();
    for (int call = 0; call < 3 || (now() - start < 0.5 && call < 5000); call++) {
        @RESTORE@
        double t = now();
        @NAME@(@CALL@);
        t = now() - t;
        if (t < best)
            best = t;
    }
    @COMPARE@
    printf("%.9e\\n", best);
    return 0;
}
"""


def driver(case, body, prefix="cblas_", suffix="", integer="int"):
    """A C program that prints the seconds of the fastest call. It ends with 6 if a result differs from the reference's."""
    name = case.entry["name"]
    arrays, restore, keep, compare, call = [], [], [], [], []
    for own, kind, value in case.arguments():
        if not isinstance(kind, dict):
            call.append(repr(value))
            continue
        kind_of, elements = C_TYPES[kind["element"]], 1
        for extent in value:
            elements *= extent
        size = f"{elements} * sizeof(*{own})"
        diagonal = ""
        if kind.get("content", {}).get("kind") == "dominant":
            diagonal = f" + (at_ / {value[-1]} == at_ % {value[-1]} ? {value[-1]} : 0)"
        arrays.append(f"    {kind_of} *{own} = aligned_alloc(64, ({size} + 63) / 64 * 64);")
        role = kind["role"]
        filled = own if role == "input" else f"old_{own}"
        if role == "inout":
            arrays.append(f"    {kind_of} *{filled} = malloc({size});")
            restore.append(f"memcpy({own}, {filled}, {size});")
        if role != "output":
            arrays.append(f"    for (long at_ = 0; at_ < {elements}; at_++) {filled}[at_] = next(){diagonal};")
        if role != "input":
            arrays.append(f"    {kind_of} *right_{own} = malloc({size});")
            keep.append(f"memcpy(right_{own}, {own}, {size});")
            bound = "2e-3" if kind_of == "float" else "1e-8"
            compare.append(f"for (long at_ = 0; at_ < {elements}; at_++) "
                           f"if (!(fabs({own}[at_] - right_{own}[at_]) <= {bound} * (1 + fabs(right_{own}[at_])))) return 6;")
        call.append(own)
    head = "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <stdint.h>\n#include <time.h>\n"
    pasted = f"##{suffix}" if suffix else ""
    head += f"#define INT {integer}\n#define PASTE(name) {prefix}##name{pasted}\n#define CBLAS(name) PASTE(name)\n{PROTOTYPES}"
    reference = f"#define {name} reference_{name}\n{case.reference()}\n#undef {name}\n"
    kernel = f"{case.entry['prototype'].rstrip().rstrip(';')}\n{{\n    {body}\n}}\n"
    main = MAIN
    for word, text in {"ARRAYS": "\n".join(arrays), "RESTORE": " ".join(restore), "KEEP": " ".join(keep), "COMPARE": "\n    ".join(compare),
                       "NAME": name, "CALL": ", ".join(call)}.items():
        main = main.replace(f"@{word}@", text)
    return head + reference + kernel + main


def timed(case, folder, library, core_types, **names):
    """The fastest call of a library, over all core types."""
    if case.name not in CALLS:
        raise Missing(f"no call of a BLAS computes {case.name}")
    source, program = folder / f"{library.stem}.c", folder / library.stem
    source.write_text(driver(case, CALLS[case.name], **names))
    run(["gcc", "-O2", "-march=native", "-o", program, source, library, f"-Wl,-rpath,{library.parent}", "-lm"])
    found, why = {}, None
    for core_type in core_types:
        env = one_thread({"OPENBLAS_CORETYPE": core_type} if core_type else {})
        try:
            found[core_type] = float(run([program], limit=120, env=env))
        except Missing as missing:
            why = missing
    if not found:
        raise why
    best = min(found, key=found.get)
    return {"state": "timed", "seconds": found[best], "core_type": best or None, "library": library.name}


def only(files, what):
    files = sorted(files)
    if not files:
        raise Missing(f"the package of PyPI has no {what}")
    return files[0]


def openblas(case, folder, options):
    if case.name not in CALLS:
        raise Missing(f"no call of a BLAS computes {case.name}")
    place = Path(private_python("openblas", OPENBLAS)).parents[1]
    library = only(place.glob("**/scipy_openblas64/lib/libscipy_openblas64_*.so"), "libscipy_openblas64_.so")
    found = timed(case, folder, library, CORE_TYPES, prefix="scipy_cblas_", suffix="64_", integer="int64_t")
    return {**found, "version": OPENBLAS}


def mkl(case, folder, options):
    if case.name not in CALLS:
        raise Missing(f"no call of a BLAS computes {case.name}")
    place = Path(private_python("mkl", MKL)).parents[1]
    library = only(place.glob("lib/libmkl_rt.so*"), "libmkl_rt.so")
    return {**timed(case, folder, library, ("",)), "version": MKL}
