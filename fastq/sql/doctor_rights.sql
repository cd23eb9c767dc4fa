-- what: which of these rights this role has not, by their numbers, from 1 on: a right $1 on a table or sequence $2, or on its column $3 ('': on
--       the whole); or 'execute' on a function, written with the types of its arguments. Those on what does not exist are left out.
-- called by: admin/doctor/grants. $4 schema.
-- index: none: the catalogue.
-- locks: none.
select wanted.number
from unnest($1::text[], $2::text[], $3::text[]) with ordinality as wanted (privilege, relation, attribute, number)
join pg_catalog.pg_class as relation on relation.relname = wanted.relation
join pg_catalog.pg_namespace on pg_namespace.oid = relation.relnamespace and pg_namespace.nspname = $4::text
left join pg_catalog.pg_attribute on pg_attribute.attrelid = relation.oid and pg_attribute.attname = wanted.attribute
where not case
    when relation.relkind = 'S' then has_sequence_privilege(relation.oid, wanted.privilege)
    when pg_attribute.attnum is null then has_table_privilege(relation.oid, wanted.privilege)
    else has_column_privilege(relation.oid, pg_attribute.attnum, wanted.privilege)
end
union all
select wanted.number
from unnest($1::text[], $2::text[]) with ordinality as wanted (privilege, relation, number)
join pg_catalog.pg_proc as routine on wanted.privilege = 'execute'
    and wanted.relation = (routine.proname || '(' || oidvectortypes(routine.proargtypes) || ')')
join pg_catalog.pg_namespace on pg_namespace.oid = routine.pronamespace and pg_namespace.nspname = $4::text
where not has_function_privilege(routine.oid, wanted.privilege)
order by 1
