"""Every test that asks for `codec` runs with both twins; C reads batches of any size here, not only those where it wins."""

from types import ModuleType

import pytest

from fastq import _codec_py

try:
    from fastq import _codec_c
except ImportError:  # not built
    _codec_c = None


@pytest.fixture(params=["python", "c"])
def codec(request, monkeypatch) -> ModuleType:
    """Give a twin."""
    return _codec_py if request.param == "python" else c_core(monkeypatch)


@pytest.fixture
def core(monkeypatch) -> ModuleType:
    """Give the C twin."""
    return c_core(monkeypatch)


def c_core(monkeypatch) -> ModuleType:
    if _codec_c is None:
        pytest.skip("the C core was not built")
    monkeypatch.setattr(_codec_c, "SMALL", 1)
    monkeypatch.setattr(_codec_c, "FEWEST", 1)
    return _codec_c
