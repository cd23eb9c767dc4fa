-- what: claims those of the jobs that the process $1 holds and of which the database has forgotten the claim: a row that is as it was
--       before, available and with an attempt less. A claim of plain jobs does not wait for the disk, so a crash of the server may lose
--       those of its last half second (docs/adr/0045). Tells how many there were.
-- called by: work/claim/again: on each connection of a process's producer and completer that comes after another one. $1 process,
--            $2 ids, $3 claims, $4 attempts.
-- index: job_pkey; process_pkey. The UPDATE is HOT: it changes no column that an index names.
-- locks: the rows, in the order of the ids given (the caller sorts them); rows that others have locked are skipped, for somebody claims them.
with free as materialized (
    select job.ctid as address, given.claim, given.attempt
    from unnest($2::bigint[], $3::bigint[], $4::smallint[]) as given (id, claim, attempt)
    cross join lateral (
        select job.ctid from fastq.job
        where job.id = given.id and job.state = 'available' and job.attempt = (given.attempt - 1)
        for update skip locked
    ) as job
    where exists (select from fastq.process where process.id = $1::bigint)
), claimed_again as (
    update fastq.job
    set state = 'running', claim = free.claim, attempt = free.attempt, attempted_at = clock_timestamp()
    from free
    where job.ctid = free.address
    returning job.id
)
select count(*) from claimed_again
