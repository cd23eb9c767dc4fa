-- what: looks at the rows of the archive's partition $3 with addresses (ctid) behind $6 and before $7; $4 and $5 are the times that it holds.
--       Of those of kind $1 with args that not the key $2 alone has encrypted, up to $8 in the order of their addresses, as JSON:
--       address, digest, args and id of each. Answers with how many these are, too.
-- called by: admin/sealed/archived: before archive_reseal.
-- index: none: a range of the partition's pages, each read once.
-- locks: none.
with sealed as materialized (
    select ctid as address, id, args
    from fastq.job_archive
    where finalized_at >= $4::text::timestamptz and finalized_at < $5::text::timestamptz and tableoid = $3::bigint::oid
      and ctid > $6::text::tid and ctid < $7::text::tid
      and kind = $1::text and strpos(args::text, '"$fq"') > 0
      -- Each '"$fq"' begins an envelope of the newest key, or a program looks at the row.
      and ((length(args::text) - length(replace(args::text, '"$fq"', ''))) / 5) <> ((length(args::text)
          - length(replace(args::text, '"$fq":1,"key":"' || $2::text || '"', ''))) / length('"$fq":1,"key":"' || $2::text || '"'))
    order by ctid
    limit $8::bigint
)
select count(*), coalesce(json_agg(json_build_array(address::text, md5(args::text), args, id) order by address), '[]')::text
from sealed
