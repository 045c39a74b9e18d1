#!/usr/bin/env bash
# Runs a command without the lines that go prints for each module that it downloads.
set -uo pipefail
{ "$@" 2>&1 >&3 | grep --line-buffered -v '^go: downloading ' >&2; exit "${PIPESTATUS[0]}"; } 3>&1
