"""A limit on a queue, with real processes: never more of its jobs at once, of all kinds, also of those that came without it."""

APP = "tests.process.narrow:registry"


def test_no_more_jobs_of_a_queue_run_at_once_than_its_limit_says_though_they_came_without_it(supervise, jobs):
    supervisor = supervise(APP, procs="2", queues="narrow=8,default=4")
    ids = [job for kind in ("mail", "chat") for job in jobs.add_all(kind, [{"seconds": 0.03}] * 15, queue="narrow")]
    jobs.wait_until_none_is_left(40.0)

    running, most = set(), 0
    for line in jobs.told():
        (running.add if line.what == "start" else running.discard)(line.id)
        most = max(most, len(running))
    assert most == 2
    assert {jobs.fate(id_).attempt for id_ in ids} == {1}
    assert supervisor.said.count("job.ungated") <= 4  # of each kind, in each process
