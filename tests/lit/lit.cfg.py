# What is a test here: every *.mlir, with RUN lines.
import os

import lit.formats

config.name = "sluice"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Inputs"]  # modules that several tests read
config.test_source_root = os.path.dirname(__file__)
config.environment["PATH"] = os.pathsep.join(
    [config.sluice_tools, config.llvm_tools, config.environment.get("PATH", "")])
