-- what: notes how far the operation $1 is: its state $2, its place $3 (null: as it was), how many jobs more are done ($4) and skipped, by reason ($5, JSON), and an error ($6).
--       When it ends, its record in the audit gets the number of its jobs.
-- called by: lead/bulk/chunks: at the end of the transaction of a chunk, whose first statement is fenced.
-- index: operation_pkey; audit_at, from the time on at which it was made.
-- locks: the operation's row, which the transaction has locked; that of its record.
with noted as (
    update fastq.operation
    set state = $2::text, place = coalesce($3::text, place), done = done + $4::bigint, error = coalesce($6::text, error),
        started_at = coalesce(started_at, clock_timestamp()), ended_at = case when $2::text <> 'running' then clock_timestamp() end,
        skipped = (
            select coalesce(jsonb_object_agg(reason, jobs), '{}')
            from (
                select key as reason, sum(value::bigint) as jobs
                from (select * from jsonb_each_text(skipped) union all select * from jsonb_each_text($5::text::jsonb)) as each_of_them
                group by key
            ) as added
        )
    where id = $1::bigint
    returning id, created_at, done, ended_at
), recorded as (
    update fastq.audit set jobs = noted.done
    from noted
    where audit.operation = noted.id and audit.at >= (noted.created_at - interval '1 minute') and audit.at <= (noted.created_at + interval '1 minute')
      and noted.ended_at is not null
    returning 1
)
select done, (select count(*) from recorded) from noted
