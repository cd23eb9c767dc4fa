-- what: the role of this session, the owner of the tables of a schema, whether the role is a member of the owner, whether it may use the
--       schema, whether it sees the sessions of other roles, and all tables and sequences of the schema.
-- called by: admin/doctor/grants. $1 schema.
-- index: none: the catalogue.
-- locks: none.
select current_user::text, pg_get_userbyid(job.relowner)::text, pg_has_role(job.relowner, 'usage'),
    has_schema_privilege(pg_namespace.oid, 'usage'), pg_has_role('pg_read_all_stats', 'usage'),
    array(
        select relation.relname::text from pg_catalog.pg_class as relation
        where relation.relnamespace = pg_namespace.oid and (relation.relkind = 'r' or relation.relkind = 'p')
          and not relation.relispartition
    ),
    array(
        select relation.relname::text from pg_catalog.pg_class as relation
        where relation.relnamespace = pg_namespace.oid and relation.relkind = 'S'
    )
from pg_catalog.pg_namespace
join pg_catalog.pg_class as job on job.relnamespace = pg_namespace.oid and job.relname = 'job'
where pg_namespace.nspname = $1::text
