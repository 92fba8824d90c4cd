#!/bin/sh
# Scores the program that the agent left. A reward of 1 is the plain reference's speed, 2 is twice that, and 0 is a program
# that is missing or refused. A copy of the reference has 1 without a measurement. A difference that may be noise is none: the
# reward is the number of the 95 % interval of the ratio that is closest to 1. If this machine cannot measure the program,
# there is no reward, and the exit code is 3.
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

mkdir -p "$logs"
rm -f "$logs/reward.json"
if [ -L "$program" ] || [ ! -f "$program" ] || [ "$(wc -c < "$program")" -gt 1048576 ]; then
    reward 0 0 0
fi
if cmp -s "$program" "$problems/NAME/reference.c"; then
    reward 1 1 1
fi
for attempt in 1 2 3; do
    FLOPSMITH_PROBLEMS=$problems flopsmith bench "$program" --problem NAME --purpose rank --format csv > "$logs/bench.csv"
    code=$?
    if [ "$code" -gt 1 ]; then
        echo "attempt $attempt: the program could not be measured" >&2
        continue
    fi
    row=$(sed -n 2p "$logs/bench.csv")
    outcome=$(printf '%s\n' "$row" | cut -d, -f4)
    numbers=$(printf '%s\n' "$row" | cut -d, -f7-9)
    case $outcome in
    rejected)
        reward 0 0 0
        ;;
    measured)
        closest=$(printf '%s\n' "$numbers" | awk -F, '{ r = 1; if ($2 > r) r = $2; if ($3 < r) r = $3; print r }')
        reward "$closest" 1 "${numbers%%,*}"
        ;;
    *)
        echo "attempt $attempt: $outcome" >&2
        ;;
    esac
done
exit 3
