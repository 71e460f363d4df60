#!/bin/sh
# The runtime's program must not load MLIR or LLVM: it is the one that is copied to the training machine. Nor does
# it link a CUDA library: the driver, cuBLASLt and NVRTC are opened by name when they are asked for.
#   runtime-has-no-llvm.sh PROGRAM
set -eu
libraries=$(ldd "$1")
if printf '%s\n' "$libraries" | grep -iE 'llvm|mlir'; then
  echo "error: expected $1 to load neither MLIR nor LLVM, found the libraries above; which target links sluice_mlir?" >&2
  exit 1
fi
if printf '%s\n' "$libraries" | grep -E 'libcuda|libcublas|libnvrtc|libnvidia'; then
  echo "error: expected $1 to open CUDA's libraries by name, found the ones above linked; which target links them?" >&2
  exit 1
fi
# A static program or a wrong path would pass for nothing.
if ! printf '%s\n' "$libraries" | grep -q 'libc\.so'; then
  echo "error: expected ldd to list the libraries of $1, found: $libraries" >&2
  exit 1
fi
