#!/usr/bin/env python3
"""Compiles tests/data/cudasim/*.cu to PTX beside them, with the NVRTC of this machine.

  scripts/cudasim-ptx.py [--nvrtc PATH] [--check]     --check: say which files would change, exit 1 if any

NVRTC comes from a CUDA toolkit or from scripts/install-deps.sh --nvrtc. The PTX is committed, so that the tests run
without it.
"""
import argparse
import ctypes
import glob
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(ROOT, "tests", "data", "cudasim")
OPTIONS = ["--gpu-architecture=compute_80", "--std=c++17", "-lineinfo"]


def find_nvrtc(given):
    names = [given] if given else []
    names += sorted(glob.glob(os.path.join(ROOT, "build", "nvrtc", "**", "libnvrtc.so.1?"), recursive=True))
    names += sorted(glob.glob("/usr/local/cuda/lib*/libnvrtc.so.1?")) + ["libnvrtc.so.13", "libnvrtc.so.12"]
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    sys.exit("error: expected NVRTC, found none; install a CUDA toolkit, run scripts/install-deps.sh --nvrtc, or give --nvrtc PATH")


def compile_to_ptx(nvrtc, path):
    def text_of(size_function, text_function):
        size = ctypes.c_size_t()
        size_function(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        text_function(program, buffer)
        return buffer.value.decode()

    program = ctypes.c_void_p()
    name = os.path.basename(path)
    with open(path, "rb") as file:
        source = file.read()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), 0, None, None)
    options = (ctypes.c_char_p * len(OPTIONS))(*[option.encode() for option in OPTIONS])
    if nvrtc.nvrtcCompileProgram(program, len(OPTIONS), options) != 0:
        sys.exit(f"error: {name} does not compile:\n" + text_of(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog))
    ptx = text_of(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    # .file holds the folder of whoever ran this.
    return ptx.replace(f'"{os.path.join(os.getcwd(), name)}"', f'"{name}"')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nvrtc")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    nvrtc = find_nvrtc(arguments.nvrtc)
    changed = []
    for source in sorted(glob.glob(os.path.join(DATA, "*.cu"))):
        ptx = compile_to_ptx(nvrtc, source)
        target = source[:-3] + ".ptx"
        old = open(target).read() if os.path.exists(target) else None
        if ptx != old:
            changed.append(os.path.basename(target))
            if not arguments.check:
                with open(target, "w") as file:
                    file.write(ptx)
    print("changed: " + ", ".join(changed) if changed else "unchanged")
    sys.exit(1 if changed and arguments.check else 0)


if __name__ == "__main__":
    main()
