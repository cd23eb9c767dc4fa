-- 0010 rates: events of the log that say for how long nothing may start at a key, and the debts of keys.
-- Locks: gate_event, exclusively for the moment of adding a column without a default. Time: milliseconds.

-- Null for events that are not about rates. With it an event says that nothing may start at the rates of this line until then; that
-- the jobs, if it names one, have left and wait again; and if it names none, that as much as a job of this line weighs has started
-- somewhere else (client.spend).
alter table fastq.gate_event add column until timestamptz;

-- Keys at rates with a debt of more than a bucket, as the gatekeeper has it in its memory, for the one that follows it. It alone
-- writes here, and deletes what is past.
create table fastq.gate_debt (
    gate  text collate "C",
    key   text collate "C",
    until timestamptz not null,                 -- nothing may start before then
    constraint gate_debt_pkey primary key (gate, key)
);
