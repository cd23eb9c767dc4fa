"""No memory and no references are left behind, however many jobs pass through."""

import gc
import sys
from pathlib import Path

import pytest

from fastq.args.kinds import Kind
from fastq.work.codec.codec import decode
from tests.codec.claims import Flat, claimed, workers_of

pytestmark = pytest.mark.further

BATCH = 1_000
PAGE = 4096
FLAT = Kind("flat", Flat)


def resident():
    """Return the bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def pass_through(codec, batches, rows, workers):
    """Claim, decode and encode."""
    for _ in range(batches):
        good, bad, _, _ = decode(claimed(rows), workers, codec.read)
        assert len(good) + len(bad) == BATCH
        codec.encode_ints([job.id for job in good])
        codec.encode_texts([job.args.s for job in good])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.parametrize("jobs", [1_000_000, pytest.param(10_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
def test_nothing_grows(codec, jobs):
    workers = workers_of(FLAT)
    rows = [
        ("flat", b'{"n":%d,"f":%d.25,"s":"text %d","b":true,"o":null,"x":[1,{"y":"\\u00e9"}]}' % (n, n, n)) for n in range(BATCH)
    ]
    rows[77] = ("flat", b'{"n":"bad"}')
    rows[78] = ("flat", b'{"n":1,"f":0.30000000000000004,"s":"\\ud83d\\ude00"}')
    pass_through(codec, 50, rows, workers)
    gc.collect()
    objects, references, memory = len(gc.get_objects()), sys.getrefcount(None), resident()

    pass_through(codec, jobs // BATCH, rows, workers)

    gc.collect()
    more = len(gc.get_objects()) - objects, sys.getrefcount(None) - references, resident() - memory
    print(f"{codec.__name__}: after {jobs:,} jobs {more[0]} objects, {more[1]} references, {more[2] / 2**20:.2f} MiB more")
    assert more[0] < 200
    assert more[1] < 200
    assert more[2] < 8 * 2**20  # an allocator keeps a few pages; 10 bytes a job would be 10 MB at least
