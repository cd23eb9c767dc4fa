-- 0011 paces: an operator's time and burst of a rate, beside its number.
-- Locks: gate, exclusively for the moment of adding two columns without a default. Time: milliseconds.

-- Null: that of the code holds. No other sort of gate has them.
alter table fastq.gate
    add column per   float8,                    -- seconds in which at_most may start
    add column burst integer,                   -- how many more may start at once after a pause
    add constraint per_is_a_time check (per >= 1),
    add constraint burst_is_no_debt check (burst >= 0);
