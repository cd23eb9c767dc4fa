"""Every test that asks for `codec` runs with both twins; C reads batches of any size here, not only those where it wins."""

from types import ModuleType

import pytest

from fastq.work.codec import shapes, twin

try:
    from fastq.work.codec import core as c_twin
except ImportError:  # not built
    c_twin = None


@pytest.fixture(params=["python", "c"])
def codec(request, monkeypatch) -> ModuleType:
    """Give a twin."""
    return twin if request.param == "python" else c_core(monkeypatch)


@pytest.fixture
def core(monkeypatch) -> ModuleType:
    """Give the C twin."""
    return c_core(monkeypatch)


def c_core(monkeypatch) -> ModuleType:
    if c_twin is None:
        pytest.skip("the C core was not built")
    monkeypatch.setattr(shapes, "FEWEST", 1)
    return c_twin
