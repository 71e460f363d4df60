#!/usr/bin/env bash
# Formatting and architecture rules that a machine can check.
#
#   scripts/check-style.sh          formatting, includes
#   scripts/check-style.sh --tidy   clang-tidy too: minutes; needs scripts/build.sh release before, for its headers
set -euo pipefail
cd "$(dirname "$0")/.."
tidy=0
case "${1:-}" in
  "") ;;
  --tidy) tidy=1 ;;
  *) echo "scripts/check-style.sh: expected --tidy or nothing, found '$1'" >&2; exit 2 ;;
esac
status=0
sources=$(git ls-files '*.cpp' '*.h')
if ! clang-format-22 --dry-run --Werror $sources >/tmp/sluice-format.$$ 2>&1; then
  grep -E 'error|warning' /tmp/sluice-format.$$ | sed 's/:.*//' | sort | uniq -c | sort -rn | head -20
  echo "error: the files above are not formatted; run: clang-format-22 -i FILES" >&2
  status=1
fi
rm -f /tmp/sluice-format.$$
# Arrows point one way: the runtime knows neither MLIR nor LLVM nor what lies above it.
if grep -rnE '#include *[<"](mlir|llvm|dialects|passes|codegen|frontends)/' runtime; then
  echo "error: runtime/ must not include the lines above" >&2
  status=1
fi
for rule in "dialects:passes|codegen|frontends" "passes:frontends" "codegen:passes|frontends"; do
  if grep -rnE "#include *[<\"](${rule#*:})/" "${rule%%:*}"; then
    echo "error: ${rule%%:*}/ must not include the lines above" >&2
    status=1
  fi
done
if [ $tidy = 1 ]; then
  if [ ! -f build/release/compile_commands.json ]; then
    echo "error: clang-tidy needs build/release/compile_commands.json, which is not there; run: scripts/build.sh release" >&2
    exit 1
  fi
  if ! run-clang-tidy-22 -quiet -p build/release -j "$(nproc)" \
      "^$PWD/(dialects|passes|codegen|runtime|frontends)/" >/tmp/sluice-tidy.$$ 2>&1; then
    grep -E -A3 '(error|warning):' /tmp/sluice-tidy.$$ >&2 || cat /tmp/sluice-tidy.$$ >&2
    echo "error: clang-tidy found the lines above; a check that is wrong here is narrowed in .clang-tidy, with the reason" >&2
    status=1
  fi
  rm -f /tmp/sluice-tidy.$$
fi
exit $status
