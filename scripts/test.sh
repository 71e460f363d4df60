#!/usr/bin/env bash
# Installs what is missing, builds everything, runs every test. Longer soaks and clang-tidy: --all.
set -euo pipefail
cd "$(dirname "$0")/.."
soak=0
tidy=
case "${1:-}" in
  "") ;;
  --all) soak=1 tidy=--tidy ;;
  -h | --help)
    echo "scripts/test.sh [--all]: installs what is missing, builds, runs every test; --all adds the long soaks and clang-tidy"
    exit 0 ;;
  *) echo "scripts/test.sh: expected --all or nothing, found '$1'" >&2; exit 2 ;;
esac

scripts/install-deps.sh
# CUDA kernels are compiled by NVRTC and run by the simulated driver; where no toolkit brings NVRTC, PyPI does.
if ! ldconfig -p | grep 'libnvrtc\.so\.1' >/dev/null && [ ! -e /usr/local/cuda/lib64/libnvrtc.so ]; then
  scripts/install-deps.sh --nvrtc
  found=$(find "$PWD/build" /usr/local/cuda/ -name 'libnvrtc.so.1?' 2>/dev/null | head -n 1 || true)
  [ -z "$found" ] || export SLUICE_NVRTC=$found
fi
echo "== build: release"
scripts/build.sh release
echo "== style"
scripts/check-style.sh $tidy
echo "== tests: release"
SLUICE_SOAK=$soak ctest --preset release -j 2
echo "== build: debug (AddressSanitizer, UndefinedBehaviorSanitizer; the runtime and its tests)"
scripts/build.sh debug
echo "== tests: debug"
SLUICE_SOAK=$soak ctest --preset debug -j 2
