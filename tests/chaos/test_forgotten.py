"""What a database forgets under a supervisor with default settings runs for nobody for seconds at most."""

import pytest

from tests.chaos import forgotten
from tests.chaos.servers import Servers, scratch

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.mark.parametrize("fault", forgotten.FAULTS)
def test_no_job_runs_for_nobody_5_s_after_a_fault(fault):
    with scratch() as folder, Servers(folder) as servers:
        result = forgotten.measure(fault, servers, folder)

    assert result["problems"] == []
