#!/usr/bin/env bash
# Prints the table of training speed: ours, the floor (the step's products alone with oneDNN) and PyTorch where it is
# installed, in one run, interleaved. Writes the rows as JSON.
#
#   benchmarks/run.sh [--json FILE] [--rounds N] [--models a,b] [--no-pytorch]
#
# PyTorch is looked for in $SLUICE_PYTORCH (a python interpreter), then in python3.
set -euo pipefail
cd "$(dirname "$0")/.."
# These two variables slow other people's libraries; a fair baseline runs without them.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
[ -x build/release/bin/sluice-bench-step ] || scripts/build.sh release
exec python3 benchmarks/run.py "$@"
