"""Build the C core; without a compiler the package installs all the same and runs on its Python twins."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext


class OptionalBuildExt(build_ext):
    """Let the extension fail in one clear line."""

    def finalize_options(self) -> None:
        """Mark every extension as optional: a failed compilation is then a warning."""
        super().finalize_options()
        for extension in self.extensions:
            extension.optional = True


CORE = Path(__file__).parent / "csrc" / "build.py"
setup(cmdclass={"build_ext": OptionalBuildExt}, cffi_modules=["csrc/build.py:ffibuilder"] if CORE.exists() else [])
