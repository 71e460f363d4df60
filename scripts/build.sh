#!/usr/bin/env bash
# Configures and builds a preset: scripts/build.sh [release|debug] [ninja targets...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
[ $# -gt 0 ] && shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake --preset "$preset" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
cmake --build --preset "$preset" ${1:+--target "$@"}
