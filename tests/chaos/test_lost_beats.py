"""Connections that fall silent start no job a second time."""

import pytest

from tests.chaos.lost_beats import run

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.mark.timeout(180)
def test_hosts_whose_connections_fall_silent_again_and_again_are_not_called_gone(database, tmp_path):
    settings = {"FASTQ_PROCESS_TTL": "6", "FASTQ_BEAT_INTERVAL": "1"}

    figures = run(database, tmp_path, 30.0, 1, 10.0, **settings)

    assert figures["connections_lost"] > 0
    assert (figures["started_twice"], figures["never_started"], figures["rescued"]) == (0, 0, 0)
    assert figures["states"] == {"completed": figures["jobs"]}
