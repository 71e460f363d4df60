#!/usr/bin/env bash
# Installs what building, testing and running Sluice needs, from Debian's packages. Says what is missing first and, when
# a person is there, asks. Nothing is installed that is already there.
#
#   scripts/install-deps.sh           install what is missing
#   scripts/install-deps.sh --list    print the packages
#   scripts/install-deps.sh --nvrtc   also NVRTC, the compiler of CUDA C++, from PyPI into build/nvrtc (100 MB), where no
#                                     toolkit has it; scripts/test.sh does this by itself
set -euo pipefail

packages=(
  # build: compiler, linker, build system
  clang-22 lld-22 cmake ninja-build ccache pkg-config git ca-certificates
  # IR, passes, CPU code generation; lit, FileCheck
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools libclang-rt-22-dev
  # libraries (docs/design.md, section 13)
  libabsl-dev libdnnl-dev libhwy-dev libsentencepiece-dev librandom123-dev libflatbuffers-dev flatbuffers-compiler
  libcli11-dev libyaml-cpp-dev nlohmann-json3-dev libxxhash-dev libssl-dev
  # tests and benchmarks; python3 runs lit
  libgtest-dev libbenchmark-dev python3 clang-format-22 clang-tidy-22
  # real text for the demo
  bible-kjv
)
if [ "${1:-}" = --list ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

nvrtc=0
[ "${1:-}" = --nvrtc ] && nvrtc=1
# NVRTC is a wheel; Debian's pip fetches it.
[ $nvrtc = 0 ] || python3 -m pip --version >/dev/null 2>&1 || packages+=(python3-pip)

fetch_nvrtc() {
  if compgen -G '/usr/local/cuda/lib*/libnvrtc.so.1?' >/dev/null || [ -d build/nvrtc/nvidia ]; then
    echo "NVRTC is there already"
    return
  fi
  python3 -m pip install --quiet --no-deps --target build/nvrtc 'nvidia-cuda-nvrtc>=13,<14' ||
    { echo "error: pip could not bring nvidia-cuda-nvrtc; is there a network?" >&2; exit 1; }
  echo "installed NVRTC in build/nvrtc"
}
cd "$(dirname "$0")/.."

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing+=("$package")
done
finish() {
  [ $nvrtc = 0 ] || fetch_nvrtc
  exit 0
}
[ ${#missing[@]} -gt 0 ] || finish

echo "Sluice needs these packages, which are not installed:"
printf '  %s\n' "${missing[@]}"
sudo=
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "error: run as root: apt-get install ${missing[*]}" >&2; exit 1; }
  sudo=sudo
fi
if [ -t 0 ] && [ -t 1 ] && [ -z "${CI:-}" ]; then
  read -r -p "Install them with apt-get? [Y/n] " answer
  case "$answer" in [nN]*) echo "error: nothing installed; without these packages Sluice cannot be built" >&2; exit 1 ;; esac
fi
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq || { echo "error: apt-get update failed; is there a network?" >&2; exit 1; }
$sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
  { echo "error: apt-get install failed; Debian 12 with its security updates has all of them" >&2; exit 1; }
echo "installed ${#missing[@]} packages"
finish
