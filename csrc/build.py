"""Build fastq._fastq with cffi in API mode; setup.py names `ffibuilder`.

The declarations are those between the marker lines of fastq.h: they exist once. The stable ABI makes one build serve
every CPython from 3.11 on. Switches, from the environment of the build:

FASTQ_ASAN=1       with the address and undefined-behaviour sanitizers (`make asan` sets it)
FASTQ_DEBUG=1      without optimisation, with symbols
FASTQ_COVERAGE=1   counting lines, for gcov
FASTQ_WERROR=1     warnings are errors, in our own files; for CI
"""

import os
import sys
from pathlib import Path

from cffi import FFI

FOLDER = Path(__file__).parent if "__file__" in globals() else Path("csrc")
ROLES = ("json", "decode", "encode")
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow"]


def declarations() -> str:
    """Return what Python sees of the header: from one marker line to the other, comments taken out by cffi."""
    text = (FOLDER / "fastq.h").read_text()
    return text.split("/* --- cdef begins --- */")[1].split("/* --- cdef ends --- */")[0]


def flags() -> tuple[list[str], list[str]]:
    """Return the flags of the compiler and of the linker."""
    # fp-contract: a fused multiply-add would round once where two roundings are meant; symbols stay inside.
    compile_, link = ["-std=c11", "-O3", "-fvisibility=hidden", "-ffp-contract=off"], []
    if os.environ.get("FASTQ_DEBUG"):
        compile_ += ["-O0", "-g"]
    if os.environ.get("FASTQ_ASAN"):
        sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
        compile_ += ["-O1", "-g", *sanitizers]
        link += sanitizers
    if os.environ.get("FASTQ_COVERAGE"):
        compile_ += ["-O0", "--coverage"]
        link += ["--coverage"]
    if os.environ.get("FASTQ_WERROR"):
        compile_ += [*WARNINGS, "-Werror", "-Wno-error=unused-parameter"]
    return compile_, link


ffibuilder = FFI()
ffibuilder.cdef(declarations())
_compile, _link = flags()
ffibuilder.set_source(
    "fastq._fastq",
    '#include "fastq.h"',
    sources=[f"csrc/{role}.c" for role in ROLES],  # relative to setup.py, as setuptools wants them
    include_dirs=["csrc"],
    depends=["csrc/fastq.h", "csrc/json.h"],
    extra_compile_args=_compile,
    extra_link_args=_link,
    py_limited_api=True,
)

if __name__ == "__main__":  # what csrc/Makefile compiles by itself
    ffibuilder.emit_c_code(sys.argv[1])
