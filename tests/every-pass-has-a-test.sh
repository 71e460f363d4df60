#!/bin/sh
# Each pass of passes/Passes.td must occur in a lit test: by its own option, or as the phase of its name.
set -eu
cd "$(dirname "$0")/.."
missing=0
for pass in $(sed -n 's/.*: Sluice_Pass<"\(.*\)"> {/\1/p' passes/Passes.td); do
  if ! grep -rqE "^// RUN:.*(--sluice-$pass( |=|\$)|phase=$pass[ \"])" tests/lit/passes; then
    echo "error: expected a test of --sluice-$pass in tests/lit/passes, found none" >&2
    missing=1
  fi
done
exit $missing
