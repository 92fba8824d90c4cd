#!/usr/bin/env python3
"""Checks the order of programs by `flopsmith bench --purpose rank` while another core is busy.

    make build
    scripts/bench/ranking.py [--programs 64] [--truth certify] [--json FILE]

Writes matrix multiplications in plain C (loop orders, tiles, register blocks), certifies them on the quiet machine, then ranks them while a
process keeps one core busy. Of the pairs of rows with separate intervals in both, it counts those in the certified order."""

import argparse
import itertools
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from sigterm import ends_what_it_started

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAD = "void dgemm(int n, const double *A, const double *B, double *C)\n{\n"
ZERO = "    for (int i = 0; i < n * n; i++) C[i] = 0;\n"
PRODUCT = "C[i * n + j] += A[i * n + k] * B[k * n + j];"


def ordered(order):
    loops = " ".join(f"for (int {v} = 0; {v} < n; {v}++)" for v in order)
    return f"{HEAD}{ZERO}    {loops} {PRODUCT}\n}}\n"


def tiled(tile_k, tile_j):
    return (f"{HEAD}{ZERO}"
            f"    for (int kk = 0; kk < n; kk += {tile_k}) for (int jj = 0; jj < n; jj += {tile_j})\n"
            f"        for (int i = 0; i < n; i++) for (int k = kk; k < kk + {tile_k} && k < n; k++)\n"
            f"            for (int j = jj; j < jj + {tile_j} && j < n; j++) {PRODUCT}\n}}\n")


def blocked(rows, columns):
    """A block of the result in registers over all k; plain loops compute the edges."""
    return (f"{HEAD}"
            f"    int m = n - n % {rows}, w = n - n % {columns};\n"
            f"    for (int j = 0; j < w; j += {columns}) for (int i = 0; i < m; i += {rows}) {{\n"
            f"        double c[{rows}][{columns}] = {{{{0}}}};\n"
            f"        for (int k = 0; k < n; k++)\n"
            f"            for (int r = 0; r < {rows}; r++) for (int s = 0; s < {columns}; s++)\n"
            f"                c[r][s] += A[(i + r) * n + k] * B[k * n + j + s];\n"
            f"        for (int r = 0; r < {rows}; r++) for (int s = 0; s < {columns}; s++) C[(i + r) * n + j + s] = c[r][s];\n"
            f"    }}\n"
            f"    for (int i = 0; i < n; i++) for (int j = i < m ? w : 0; j < n; j++) {{\n"
            f"        double sum = 0;\n"
            f"        for (int k = 0; k < n; k++) sum += A[i * n + k] * B[k * n + j];\n"
            f"        C[i * n + j] = sum;\n"
            f"    }}\n}}\n")


def programs(count, seed):
    """Names and sources of `count` programs of all kinds."""
    kinds = [
        [("order_" + "".join(o), ordered(o)) for o in itertools.permutations("ijk")],
        [(f"tiled_{k}_{j}", tiled(k, j)) for k in (8, 16, 32, 64, 128) for j in (16, 32, 64, 128, 256)],
        [(f"blocked_{r}_{c}", blocked(r, c)) for r in range(1, 9) for c in (4, 8, 12, 16, 24, 32)],
    ]
    drawn = random.Random(seed)
    every = [program for kind in kinds for program in kind]
    if count > len(every):
        raise SystemExit(f"--programs is {len(every)} at most")
    return sorted(drawn.sample(every, count))


def bench(flopsmith, folder, purpose, more):
    command = [flopsmith, "bench", folder, "--problem", "dgemm", "--workload", "n=256", "--purpose", purpose, "--format", "jsonl", *more]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if not lines or lines[-1].get("type") != "summary":
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode} and no summary")
    return lines[-1]["ranks"]


def low_high(rank):
    """Interval of ln(ratio) without the error that all programs share."""
    middle, half = math.log(rank["ratio"]), 1.96 * rank["log_ratio_se"]
    return middle - half, middle + half


def apart(one, other):
    return low_high(one)[0] > low_high(other)[1] or low_high(other)[0] > low_high(one)[1]


def judge(ranked, truth):
    """Compares ranked rows with certified ones by name, and counts the pairs in the certified order."""
    of = {pathlib.Path(rank["file"]).name: rank for rank in truth if rank["ratio"] is not None}
    known = [(rank, of[pathlib.Path(rank["file"]).name]) for rank in ranked
             if rank["rank"] is not None and pathlib.Path(rank["file"]).name in of]
    pairs = [(one, other) for one, other in itertools.combinations(known, 2)
             if apart(one[0], other[0]) and apart(one[1], other[1])]
    right = sum((one[0]["rank"] < other[0]["rank"]) == (one[1]["ratio"] > other[1]["ratio"]) for one, other in pairs)
    best = max((rank["ratio"] for rank in of.values()), default=None)
    first = min(known, key=lambda pair: pair[0]["rank"], default=None)
    return {
        "programs": len(ranked), "ranked": sum(rank["rank"] is not None for rank in ranked),
        "unconverged": sum(rank["outcome"] == "unconverged" for rank in ranked),
        "pairs_apart": len(pairs), "pairs_right": right,
        "first": first and pathlib.Path(first[0]["file"]).name, "first_of_best": first and first[1]["ratio"] / best,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flopsmith", default=ROOT / "target/release/flopsmith")
    parser.add_argument("--programs", type=int, default=64)
    parser.add_argument("--truth", choices=["certify", "rank"], default="certify", help="purpose of the measurement on the quiet machine")
    parser.add_argument("--resolve", default="60s", help="--resolve of the ranking beside the busy core")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, source in programs(arguments.programs, arguments.seed):
            (pathlib.Path(folder) / f"{name}.c").write_text(source)
        truth = bench(arguments.flopsmith, folder, arguments.truth, [])
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            ranked = bench(arguments.flopsmith, folder, "rank", ["--wait", "0", "--resolve", arguments.resolve])
        finally:
            busy.kill()
            busy.wait()
    found = judge(ranked, truth)
    share = found["pairs_right"] / found["pairs_apart"] if found["pairs_apart"] else math.nan
    print(f"{found['pairs_right']} of {found['pairs_apart']} pairs apart in the certified order ({100 * share:.1f} %); "
          f"{found['ranked']} of {found['programs']} programs ranked, {found['unconverged']} did not converge")
    if found["first"]:
        print(f"first place: {found['first']}, {100 * found['first_of_best']:.1f} % of the best certified")
    if arguments.json:
        kept = {"found": found, "ranked": ranked, "truth": truth, "arguments": {k: str(v) for k, v in vars(arguments).items()},
                "cores": os.cpu_count()}
        arguments.json.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    ends_what_it_started()
    main()
