#!/usr/bin/env python3
"""Tests of dispatch.py that need no broker."""
import argparse
import json
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
from dispatch import named, rate_in  # noqa: E402
from rust_style import run as run_all  # noqa: E402

# A stub that takes the arguments of three_hops and measures nothing: 3,000 jobs a second, and hand-overs of a millisecond.
MEASURES = """#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
        --json) file=$2 ;;
        --rate) rate=$2 ;;
    esac
    shift
done
if [ -n "$rate" ]; then
    echo "{\\"rate\\": $rate, \\"median_ms\\": 1.0, \\"p99_ms\\": 2.0}" >"$file"
else
    echo '{"jobs_per_second": 3000.0}' >"$file"
fi
"""


def the_last_rate_counts(_):
    assert rate_in("warm-up 12 jobs/s\nredis streams: 3 hops 20000 jobs 13,821 jobs/s\n") == 13821
    assert rate_in("13821.5 jobs/s") == 13821.5
    assert rate_in("20000 jobs in 3 s") is None


def a_peer_has_a_name_and_a_command(_):
    assert named("redis=python3 'a b.py' 5") == ("redis", ["python3", "a b.py", "5"])
    for wrong in ["redis", "=true", "redis=", "redis=  "]:
        try:
            named(wrong)
        except argparse.ArgumentTypeError:
            continue
        raise AssertionError(f"`{wrong}` was taken")


def ratios_are_those_of_each_round(folder):
    three_hops = folder / "three_hops"
    three_hops.write_text(MEASURES)
    three_hops.chmod(0o755)
    command = [sys.executable, str(Path(__file__).parent / "dispatch.py"), "--pairs", "2", "--three-hops", str(three_hops)]
    told = folder / "told.json"
    subprocess.run([*command, "--peer", "slow=echo 1500 jobs/s", "--json", str(told)], check=True, capture_output=True)
    found = json.loads(told.read_text())
    assert found["times_as_many"] == {"slow": 2.0} and found["medians"] == {"flopsmith": 3000.0, "slow": 1500.0}, found
    assert found["hand_over_at_half"]["rate"] == 1500, found
    silent = subprocess.run([*command, "--peer", "silent=true"], capture_output=True, text=True)
    assert silent.returncode == 1 and "silent printed no" in silent.stderr, silent


if __name__ == "__main__":
    sys.exit(run_all("dispatch", (the_last_rate_counts, a_peer_has_a_name_and_a_command, ratios_are_those_of_each_round)))
