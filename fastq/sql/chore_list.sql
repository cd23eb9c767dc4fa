-- what: the last run of each chore of each lease.
-- called by: admin/leaders.
-- index: none: some ten rows.
-- locks: none.
select lease, name, term, ran_at, took, runs, changed, fenced, error from fastq.chore order by lease, name
