-- what: changes jobs that hold a key and have not started. $11 says how: 'replace' gives them new args, time, priority,
--       max_attempts and tags; 'debounce' does so, too, and puts them off up to $12 seconds after they got the key; 'collect'
--       appends the list in field $13 to theirs, up to $14 elements and $15 bytes of args. The JSON of the other fields stays
--       as it was written. Answers for each in the order given: 'changed' and the wake-ups that it takes (null: none); 'full':
--       it would hold too much; 'other': it is of another kind; 'started'; or 'gone': it holds the key no longer.
-- called by: enqueue/uniques: for the clients, in the caller's transaction. $1-$9 are those of job_enqueue_many; $10 ids of the
--            holders. Lists of one length as there; an empty element is null.
-- index: unique_key_pkey; job_pkey; gate_permit_pkey.
-- locks: the jobs, in the order of their ids: a claim passes them over until the transaction ends. Then keys with an end in
--        time.
with given as materialized (
    select nth, kind, priority, max_attempts, args::json as args, tags, meta, due, job_id, how, into_field, most, most_bytes, longest,
        decode((meta -> 'unique'::text) ->> 0, 'hex') as key, ((meta -> 'unique'::text) ->> 2)::float8 as within
    from (
        select nth, kind, priority, max_attempts, args, tags, meta::jsonb as meta, job_id, how, longest, into_field, most, most_bytes,
            coalesce(at, statement_timestamp() + make_interval(secs => delay), statement_timestamp()) as due
        from unnest(
            string_to_array($1::text, E'\x1e'),
            string_to_array($2::text, E'\x1e'),
            string_to_array($3::text, E'\x1e')::smallint[],
            string_to_array($4::text, E'\x1e')::smallint[],
            string_to_array($5::text, E'\x1e'),
            string_to_array($6::text, E'\x1e', ''),
            string_to_array($7::text, E'\x1e', '')::float8[],
            string_to_array($8::text, E'\x1e', '')::timestamptz[],
            string_to_array($9::text, E'\x1e', ''),
            string_to_array($10::text, E'\x1e')::bigint[],
            string_to_array($11::text, E'\x1e'),
            string_to_array($12::text, E'\x1e', '')::float8[],
            string_to_array($13::text, E'\x1e', ''),
            string_to_array($14::text, E'\x1e')::int[],
            string_to_array($15::text, E'\x1e')::int[]
        ) with ordinality as given (kind, queue, priority, max_attempts, args, tags, delay, at, meta, job_id, how, longest, into_field,
            most, most_bytes, nth)
    ) as stated
), mine as materialized (
    select ordered.*, held.since, job.state, job.priority as had_priority, job.args as had, job.meta as had_meta
    from (select * from given order by job_id) as ordered
    cross join lateral (
        select since from fastq.unique_key where unique_key.key = ordered.key and unique_key.job_id = ordered.job_id limit 1
    ) as held
    cross join lateral (
        select state, priority, args, meta from fastq.job
        where job.id = ordered.job_id and job.kind = ordered.kind and job.attempted_at is null and job.state <> 'running'
        for update
    ) as job
), merged as materialized (
    select mine.*, how = 'collect' as collects,
        case when how = 'collect' then (
            select '{' || string_agg(to_json(field.name)::text || ':' || case when field.name = into_field then '[' || concat_ws(',',
                    case when json_array_length(field.value) > 0 then substr(field.value::text, 2, length(field.value::text) - 2) end,
                    case when json_array_length(args -> into_field) > 0
                        then substr((args -> into_field)::text, 2, length((args -> into_field)::text) - 2) end) || ']'
                else field.value::text end, ',' order by field.place) || '}'
            from json_each(had) with ordinality as field (name, value, place)
        ) else args::text end as written,
        json_array_length(had -> into_field) + json_array_length(args -> into_field) as elements,
        case when how = 'debounce' then least(due, since + make_interval(secs => longest)) else due end as at
    from mine
), settled as materialized (
    select merged.*, at > statement_timestamp() as later, meta ->> 'gates'::text as gates,
        collects or not at > statement_timestamp() and state <> 'scheduled' and priority = had_priority
            and coalesce(had_meta ->> 'gates'::text, '') = coalesce(meta ->> 'gates'::text, '') as stays
    from merged
    where not collects or elements <= most and octet_length(written) <= most_bytes
), changed as (
    update fastq.job
    set args = settled.written::json,
        priority = case when collects then job.priority else settled.priority end,
        max_attempts = case when collects then job.max_attempts else settled.max_attempts end,
        tags = case when collects then job.tags else string_to_array(settled.tags, E'\x1f') end,
        meta = case when collects then job.meta else settled.meta end,
        state = (case when stays then job.state::text when later then 'scheduled' when gates is not null then 'waiting' else 'available' end)::fastq.state,
        seq = case when stays then job.seq when later or gates is not null then null else nextval('fastq.job_seq') end,
        scheduled_at = case when stays then job.scheduled_at when later then at end,
        waits_for = case when stays then job.waits_for when later then null else gates end
    from settled
    where job.id = settled.job_id and job.id >= (select min(job_id) from settled) and job.id <= (select max(job_id) from settled)
    returning job.id, settled.nth, job.queue, job.priority, case when not stays then job.waits_for end as waits_for, not stays as leaves, had_meta,
        case when stays then null when later then '@due' when job.waits_for is not null then '@gate' else job.queue end as wake
), arrived as (
    insert into fastq.gate_event (queue, gates, jobs, priority, job)
    select queue, waits_for, count(*), priority, min(id) from changed where waits_for is not null group by queue, waits_for, priority
    returning id
), freed as (
    delete from fastq.gate_permit
    where job = any (array(select id from (select id, had_meta as meta from changed where leaves) as gone where meta ->> 'gates'::text is not null))
    returning queue, gates
), told as (
    insert into fastq.gate_event (queue, gates, jobs) select queue, gates, count(*) from freed group by queue, gates returning id
), longer as (
    update fastq.unique_key
    set expires_at = settled.at + make_interval(secs => settled.within)
    from settled
    where unique_key.key = settled.key and unique_key.job_id = settled.job_id and settled.within is not null and not settled.collects
    returning 1
), told_of as (
    select nth, 'changed' as outcome, wake || case when exists (select from freed) then E'\x1e' || '@gate' else '' end as wake from changed
    union all
    select given.nth, case when nth in (select nth from mine) then 'full' when job.kind <> given.kind then 'other'
        when job.attempted_at is not null then 'started' else 'gone' end, null
    from given
    left join lateral (
        select job.kind, job.attempted_at
        from fastq.unique_key join fastq.job on job.id = unique_key.job_id
        where unique_key.key = given.key and unique_key.job_id = given.job_id
        limit 1
    ) as job on true
    where not nth in (select nth from changed)
)
select outcome, wake from told_of cross join (select count(*) from longer) as done order by nth
