-- what: makes an operation, with its record in the audit, and wakes the leader; returns its id. $1 verb, $2 filter as words, $3 change (JSON text), $4 by
--       whom, $5 how many jobs are expected, $6 whether these are only some of them, $7 the place at which it begins.
-- called by: admin/bulk/operations. $8 channel (null: no hint).
-- index: none is read.
-- locks: none but the new rows.
with made as (
    insert into fastq.operation (verb, words, change, asked_by, expected, at_least, place)
    select $1::text, $2::text, $3::text::json, $4::text, $5::bigint, $6::boolean, $7::text
    returning id
), noted as (
    insert into fastq.audit (asked_by, verb, words, operation, jobs, change)
    select $4::text, $1::text, $2::text, id, 0, $3::text::json from made
    returning 1
), woken as (
    select count(pg_notify($8::text, '@operation')) from noted where $8::text is not null
)
select made.id from made cross join woken
