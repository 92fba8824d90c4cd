#!/bin/sh
# Writes the problem's own fast program, or its reference if it has none.
set -eu
cp "$(dirname "$0")/FILE" "${FLOPSMITH_TASK_PROGRAM:-/app/FILE}"
