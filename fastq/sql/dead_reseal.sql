-- what: writes the args $3 of the discarded jobs $1 for a replay if they still have the digests $2. Answers with the ids of those that it
--       wrote, joined like the lists.
-- called by: admin/sealed/archived. Lists of one length, joined by E'\x1e'.
-- index: dead_pkey.
-- locks: the rows, in the order of their ids; rows that others have locked are skipped.
with given as materialized (
    select id, was, args
    from unnest(
        string_to_array($1::text, E'\x1e')::bigint[],
        string_to_array($2::text, E'\x1e'),
        string_to_array($3::text, E'\x1e')
    ) as given (id, was, args)
), mine as (
    select dead.id, given.args
    from given
    join fastq.dead on dead.id = given.id
    where md5(dead.args::text) = given.was
    order by dead.id
    for update of dead skip locked
), written as (
    update fastq.dead
    set args = mine.args::json
    from mine
    where dead.id = mine.id
    returning dead.id::text as written
)
select coalesce(string_agg(written, E'\x1e'), '') from written
