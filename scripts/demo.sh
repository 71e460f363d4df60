#!/usr/bin/env bash
# From nothing to a trained Mixture-of-Experts language model: installs what is missing, builds, packs real text, prints
# the ledger, compiles, trains, evaluates and samples.
#
#   scripts/demo.sh [FOLDER]      everything it makes goes to FOLDER (default: build/demo)
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/demo}
case "$folder" in -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;; esac

step() { printf '\n== %s\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

step "packages"
scripts/install-deps.sh
step "build"
scripts/build.sh release sluice sluice-run
export PATH="$PWD/build/release/bin:$PATH"
mkdir -p "$folder"

step "real text: the King James Bible, chapters as documents"
[ -s "$folder/kjv.txt" ] || scripts/demo-text.sh "$folder/kjv.txt"
[ -f "$folder/data/dataset.json" ] || run sluice data pack "$folder/kjv.txt" --vocab 4096 --documents paragraph -o "$folder/data"

step "the model as a graph, counted"
run sluice graph models/demo/moe.yaml -o "$folder/moe.mlir"
run sluice stats "$folder/moe.mlir" --bind batch=4,seq=256

step "compiled"
run sluice compile "$folder/moe.mlir" --bind batch=4,seq=256 -o "$folder/moe.slx"

step "trained"
run sluice train models/demo/moe.yaml --data "$folder/data" --out "$folder/run" --prompt "And God said"

step "evaluated and sampled"
run sluice eval "$folder/run" --data "$folder/data"
run sluice generate "$folder/run" --prompt "In the beginning" --tokens 120 --temperature 0.8 --seed 1
