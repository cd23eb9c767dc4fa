"""What a statement means does not hang on the search path of the session that runs it.

The tests have Postgres parse each file of fastq/sql as it stands and qualified, and compare the trees: the body of a function is
kept as one. The qualified text is parsed where a rival of each function, operator, type and collation of Postgres' own is found
first, too: what is looked up by its bare name is found there, and makes another tree.
"""

import re
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

import fastq
from fastq.sql import statements
from tests.helpers import create_database, drop_database

NAMES = sorted(path.stem for path in (Path(fastq.__file__).parent / "sql").glob("*.sql"))
NAMELESS = {"chore_list", "gate_values", "job_seq_last"}  # they call nothing and compare nothing
WORDS_OF_THE_GRAMMAR = {"bigint", "boolean", "int", "integer", "smallint"}
POSTGRES, RIVALS = "pg_catalog", "rivals, pg_catalog"

RIVAL_FUNCTIONS = """
do $$
declare one record; text text;
begin
    for one in select oid, prokind, proname from pg_proc where pronamespace = 'pg_catalog'::regnamespace and prokind <> 'p' loop
        begin
            if one.prokind = 'a' then
                select format('create aggregate rivals.%I (%s) (sfunc = %s, stype = %s%s%s%s)', proname,
                    pg_get_function_arguments(a.oid), aggtransfn, format_type(aggtranstype, null),
                    case when aggfinalfn <> 0 then ', finalfunc = ' || aggfinalfn else '' end,
                    case when aggfinalextra then ', finalfunc_extra' else '' end,
                    case when agginitval is not null then format(', initcond = %L', agginitval) else '' end)
                into text from pg_proc a join pg_aggregate on aggfnoid = a.oid where a.oid = one.oid;
            else
                text := regexp_replace(pg_get_functiondef(one.oid), 'FUNCTION pg_catalog\\.', 'FUNCTION rivals.');
            end if;
            execute text;
        exception when others then null;  -- some cannot be made by anybody: what the tests need is counted below
        end;
    end loop;
end $$
"""

RIVAL_OPERATORS = """
do $$
declare one record;
begin
    for one in select oprname, oprleft, oprright, oprcode from pg_operator
        where oprnamespace = 'pg_catalog'::regnamespace and oprcode <> 0
    loop
        execute format('create operator rivals.%s (%s rightarg = %s, function = %s)', one.oprname,
            case when one.oprleft <> 0 then format('leftarg = %s,', format_type(one.oprleft, null)) else '' end,
            format_type(one.oprright, null), one.oprcode);
    end loop;
end $$
"""

RIVAL_TYPES = """
do $$
declare one record;
begin
    for one in select typname from pg_type
        where typnamespace = 'pg_catalog'::regnamespace and typtype in ('b', 'd') and typcategory <> 'A' and typname !~ '^_'
    loop
        begin
            execute format('create domain rivals.%I as pg_catalog.%I', one.typname, one.typname);
        exception when others then null;
        end;
    end loop;
end $$
"""


@pytest.fixture(scope="module")
def parser(server, migrated_template):
    """Give a session on a database with the schema and with the rivals."""
    name = f"{migrated_template}_rivals"
    with psycopg.connect(create_database(server, name, migrated_template), autocommit=True) as connection:
        connection.execute("create schema rivals; create schema trees")
        for text in (RIVAL_FUNCTIONS, RIVAL_OPERATORS, RIVAL_TYPES):
            connection.execute(text)
        connection.execute('create collation rivals."C" from pg_catalog."POSIX"')
        yield connection
    drop_database(server, name)


def tree(parser, text, path):
    """Return what Postgres makes of a statement under a search path, without what only tells of the text."""
    types = {int(number): kind for number, kind in re.findall(r"\$(\d+)::(?:pg_catalog\.)?([\w.]+(?:\[\])?)", text)}
    given = ", ".join(_named(types[number]) for number in range(1, max(types, default=0) + 1))
    parser.execute(f"set search_path = {path}")
    for answer in ("setof record", "void"):
        with suppress(psycopg.errors.InvalidFunctionDefinition):
            parser.execute(f"create function trees.one({given}) returns {answer} language sql begin atomic {text}; end")
            break
    [(made,)] = parser.execute("select prosqlbody from pg_catalog.pg_proc where proname operator(pg_catalog.=) 'one'").fetchall()
    parser.execute("drop function trees.one")
    return re.sub(r":(\w*location|stmt_len|list_start|list_end|operName) (\([^()]*\)|<>|-?\d+)", "", made)


def _named(kind):
    return (
        kind
        if "." in kind or kind.removesuffix("[]") in ("bigint", "boolean", "int", "integer", "smallint", "interval")
        else f"pg_catalog.{kind}"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_means_the_same_whatever_the_search_path(name, parser):
    meant = tree(parser, statements.statement(name), POSTGRES)

    assert tree(parser, statements.qualified(name), POSTGRES) == meant
    assert tree(parser, statements.qualified(name), RIVALS) == meant


@pytest.mark.parametrize("name", sorted(set(NAMES) - NAMELESS))
def test_a_rival_would_change_a_statement_that_is_not_qualified(name, parser):
    text = statements.statement(name)
    meant = tree(parser, text, POSTGRES)

    try:
        changed = tree(parser, text, RIVALS) != meant
    except psycopg.Error:  # it does not even parse with a rival in it: an array of a rival's type, a comparison of rows by one
        changed = True

    assert changed
