#!/usr/bin/env bash
# Formatting and architecture rules that a machine can check.
set -euo pipefail
cd "$(dirname "$0")/.."
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
exit $status
