#!/usr/bin/env bash
# Writes the reference of the dialects, the interfaces and the passes from their TableGen files.
#
#   scripts/dialect-docs.sh           writes docs/dialects/*.md
#   scripts/dialect-docs.sh --check   compares them with what the TableGen files say; exit 1 if they differ
#
# MLIR_TBLGEN and MLIR_INCLUDE name another mlir-tblgen and include folder than Debian's.
set -euo pipefail
cd "$(dirname "$0")/.."
tblgen=${MLIR_TBLGEN:-/usr/lib/llvm-22/bin/mlir-tblgen}
include=${MLIR_INCLUDE:-/usr/lib/llvm-22/include}
committed=docs/dialects
check=0
case "${1:-}" in
  "") ;;
  --check) check=1 ;;
  *) echo "scripts/dialect-docs.sh: expected --check or nothing, found '$1'" >&2; exit 2 ;;
esac

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
generate() { # PAGE TABLEGEN-FILE OPTIONS...
  local page=$1 source=$2
  shift 2
  # Trailing blanks come from empty descriptions.
  "$tblgen" "$@" -I . -I "$include" "$source" | sed 's/[ \t]*$//' >"$fresh/$page.md"
}
generate sluice dialects/sluice/Ops.td -gen-dialect-doc -dialect=sluice
generate plan dialects/plan/Ops.td -gen-dialect-doc -dialect=plan
generate interfaces dialects/interfaces/Interfaces.td -gen-op-interface-docs
generate passes passes/Passes.td -gen-pass-doc

if [ "$check" = 0 ]; then
  mkdir -p "$committed"
  cp "$fresh"/*.md "$committed"
elif ! diff -ru "$committed" "$fresh"; then
  echo "error: $committed differs from the TableGen files; update it: scripts/dialect-docs.sh" >&2
  exit 1
fi
