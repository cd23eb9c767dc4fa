"""Build fastq._fastq with cffi in API mode; setup.py names `ffibuilder`.

The declarations are those between the marker lines of fastq.h: they exist once. The stable ABI makes one build serve
every CPython from 3.11 on. Switches, from the environment of the build:

FASTQ_ASAN=1       with the address and undefined-behaviour sanitizers (`make asan` sets it)
FASTQ_DEBUG=1      without optimisation, with symbols
FASTQ_COVERAGE=1   counting lines, for gcov
FASTQ_WERROR=1     warnings are errors, in our own files; for CI

`python build.py FILE` writes what cffi makes of it, `python build.py --hardening` the flags of `hardening`: for csrc/Makefile.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from cffi import FFI

FOLDER = Path(__file__).parent if "__file__" in globals() else Path("csrc")
ROLES = ("json", "decode", "encode")
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow"]


HARDENING = (
    # Of each the first that compiler and linker take. The core reads what anybody may have put into a row: should a check of ours
    # be wrong, the process ends instead of going on with what was written past an end.
    (["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"], ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]),
    (["-fstack-protector-strong"],),
    (["-fstack-clash-protection"],),
    (["-fcf-protection=full"], ["-mbranch-protection=standard"]),
    (["-Wl,-z,relro,-z,now"],),
    (["-Wl,-z,noexecstack"],),
)
PROBE = """
#include <string.h>
void probe(char *to, const char *from, unsigned long size) { char room[64]; memcpy(room, from, size); memcpy(to, room, 64); }
"""


def hardening() -> tuple[list[str], list[str]]:
    """Return the flags for the compiler and for the linker that make a mistake in the core harmless, of those that work here."""
    taken = [next(filter(_takes, choice), []) for choice in HARDENING]
    flat = [flag for flags in taken for flag in flags]
    return [flag for flag in flat if not flag.startswith("-Wl,")], [flag for flag in flat if flag.startswith("-Wl,")]


def _takes(flags: list[str]) -> bool:
    """Tell whether the compiler makes a library with these flags, and has nothing to say about them."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text(PROBE)
        command = [*compiler, "-O3", "-Werror", "-fPIC", "-shared", *flags, "-o", str(Path(folder, "probe.so")), str(source)]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603 - the compiler of this Python
        except OSError:
            return False  # no compiler: the core is not built at all


def declarations() -> str:
    """Return what Python sees of the header: from one marker line to the other, comments taken out by cffi."""
    text = (FOLDER / "fastq.h").read_text()
    return text.split("/* --- cdef begins --- */")[1].split("/* --- cdef ends --- */")[0]


def flags() -> tuple[list[str], list[str]]:
    """Return the flags of the compiler and of the linker."""
    # fp-contract: a fused multiply-add would round once where two roundings are meant; symbols stay inside.
    compile_, link = ["-std=c11", "-O3", "-fvisibility=hidden", "-ffp-contract=off"], []
    if not any(os.environ.get(f"FASTQ_{kind}") for kind in ("DEBUG", "ASAN", "COVERAGE")):  # they replace or disturb each other
        hard_compile, hard_link = hardening()
        compile_ += hard_compile
        link += hard_link
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
    if sys.argv[1] == "--hardening":
        sys.stdout.write(" ".join(flag for part in hardening() for flag in part) + "\n")
    else:
        ffibuilder.emit_c_code(sys.argv[1])
