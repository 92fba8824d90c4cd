#!/bin/sh
# Scores the module that the agent left. A reward of 1 is the speed of the fastest baseline of the module, 2 is twice
# that, and 0 is a program that is missing or refused. A copy of the reference has 1 without a measurement: the speed of the
# module itself is what others are compared with. A difference that may be noise is none: the reward is the number of the
# 95 % interval of the speedup that is closest to 1. If this machine cannot time the program, there is no reward, and the exit
# code is 3.
set -u
export LC_ALL=C
program=${FLOPSMITH_TASK_PROGRAM:-/app/FILE}
problems=${FLOPSMITH_TASK_PROBLEMS:-/tests/problems}
logs=${FLOPSMITH_TASK_LOGS:-/logs/verifier}

reward() {
    printf '{"reward": %s, "correct": %s, "ratio": %s}\n' "$1" "$2" "$3" > "$logs/reward.part"
    mv "$logs/reward.part" "$logs/reward.json"
    exit 0
}

# Prints the outcome, the reward and the speedup of the second line of a file: the first one tells of the machine.
numbers() {
    "${FLOPSMITH_PYTHON:-python3}" -I -c '
import json, sys
lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
row = json.loads(lines[1]) if len(lines) > 1 else {}
outcome = row.get("outcome", "nothing")
low, high, speedup = (row.get(name, 0) for name in ("low", "high", "speedup"))
print(outcome, min(max(1, low), high), speedup)
' "$1"
}

mkdir -p "$logs"
rm -f "$logs/reward.json"
if [ -L "$program" ] || [ ! -f "$program" ] || [ "$(wc -c < "$program")" -gt 1048576 ]; then
    reward 0 0 0
fi
if cmp -s "$program" "$problems/modules/NAME/reference.py"; then
    reward 1 1 1
fi
for attempt in 1 2 3; do
    FLOPSMITH_PROBLEMS=$problems flopsmith bench "$program" --problem "$problems/modules/NAME" --purpose rank --format jsonl > "$logs/bench.jsonl"
    code=$?
    if [ "$code" -gt 1 ]; then
        echo "attempt $attempt: the program could not be measured" >&2
        continue
    fi
    found=$(numbers "$logs/bench.jsonl") || continue
    # shellcheck disable=SC2086
    set -- $found
    case $1 in
    refused)
        reward 0 0 0
        ;;
    measured)
        reward "$2" 1 "$3"
        ;;
    *)
        echo "attempt $attempt: $1" >&2
        ;;
    esac
done
exit 3
