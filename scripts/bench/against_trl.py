#!/usr/bin/env python3
"""Compares whole GRPO steps with a script that uses TRL's trainer, in turns, on equal shapes: with known rewards, and with real programs.

    python3 scripts/bench/against_trl.py --peer FILE.py --python PYTHON [--rounds 3] [--output FILE.json]

Known rewards: `grpo_step` (an example of flopsmith-learner) against `PYTHON FILE.py CONFIG.json --samples 64 --group 8 --tokens 256`.

Real programs: one step of a search gives 64 programs, and both sides get their sources. Flopsmith's time is the sum of two parts: the wall time of
`flopsmith search` from the moment at which the programs are written to the last outcome (with jails, verification, timing, messages and archive),
and a step with known rewards. The two do not overlap in this sum, although a run may overlap them. The script starts the peer once more with
`--programs FOLDER`; the peer then does the work of a reward function in a script.

The peer is not part of this repository. The last line of its stdout has to be a JSON object with `parameters`, `samples`, `tokens` and
`seconds_per_step`, without the first step. Each round has its own ratio, the peer's seconds to Flopsmith's; the result is the median of these.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).resolve().parent))
import evaluation  # noqa: E402
from sigterm import ends_what_it_started  # noqa: E402


def last_json(command):
    ran = subprocess.run([str(c) for c in command], cwd=ROOT, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {ran.returncode}:\n{ran.stderr[-3000:]}")
    return json.loads(ran.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, required=True, metavar="FILE.py")
    parser.add_argument("--python", default=sys.executable, help="interpreter with torch and trl for the peer")
    parser.add_argument("--config", type=Path, default=ROOT / "models/starter/config.json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--output", type=Path)
    a = parser.parse_args()
    shape = ["--samples", 64, "--group", 8, "--tokens", 256, "--steps", a.steps]
    ours = [ROOT / "target/release/examples/grpo_step", a.config, *shape]
    theirs = [a.python, a.peer.resolve(), a.config, *shape]
    if not ours[0].is_file():
        sys.exit(f"{ours[0]} not found; build it: cargo build --release --locked -p flopsmith-learner --examples")
    rounds = []
    print(f"{'seconds a step':<16}{'known here':>12}{'peer':>8}{'ratio':>8}{'programs here':>16}{'peer':>8}{'ratio':>8}", flush=True)
    for number in range(a.rounds):
        with tempfile.TemporaryDirectory() as place:
            place = Path(place)
            outcomes, start = evaluation.step(place, 100 + number)
            own = evaluation.fresh(outcomes)
            wall = evaluation.ended(own) - start
            programs = place / "programs"
            programs.mkdir()
            for n, outcome in enumerate(own):
                (programs / f"{n:03}.c").write_text(outcome["source"])
            sides = {"here": lambda: last_json(ours), "peer": lambda: last_json(theirs), "peer_programs": lambda: last_json([*theirs, "--programs", programs])}
            # The first side alternates, so that a slow drift of the machine affects both sides alike.
            order = list(sides) if number % 2 == 0 else list(sides)[::-1]
            said = {name: sides[name]() for name in order}
        for name in ("peer", "peer_programs"):
            for key in ("parameters", "samples", "tokens"):
                # A peer may need a token or two more than the model has.
                if key != "parameters" and said[name][key] != said["here"][key]:
                    sys.exit(f"{name}: {key} is {said[name][key]}, not {said['here'][key]}: the shapes would not be equal")
        known = said["here"]["seconds_per_step"]
        whole = known + wall
        row = dict(known=known, known_peer=said["peer"]["seconds_per_step"], programs=whole, programs_peer=said["peer_programs"]["seconds_per_step"],
                   evaluation=whole - known, said=said)
        row["known_ratio"] = row["known_peer"] / known
        row["programs_ratio"] = row["programs_peer"] / whole
        rounds.append(row)
        print(f"{f'round {number + 1}':<16}{known:>12.2f}{row['known_peer']:>8.2f}{row['known_ratio']:>8.2f}{whole:>16.2f}{row['programs_peer']:>8.2f}{row['programs_ratio']:>8.2f}", flush=True)
    medians = {key: statistics.median(r[key] for r in rounds) for key in ("known", "known_peer", "known_ratio", "programs", "programs_peer", "programs_ratio")}
    print(f"{'median':<16}{medians['known']:>12.2f}{medians['known_peer']:>8.2f}{medians['known_ratio']:>8.2f}"
          f"{medians['programs']:>16.2f}{medians['programs_peer']:>8.2f}{medians['programs_ratio']:>8.2f}")
    if a.output:
        a.output.write_text(json.dumps(dict(cores=len(os.sched_getaffinity(0)), rounds=rounds, medians=medians), indent=1) + "\n")


if __name__ == "__main__":
    ends_what_it_started()
    main()
