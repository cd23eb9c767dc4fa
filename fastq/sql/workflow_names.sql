-- what: those of the names $2 (a list in json) that steps of a workflow have, each with its step. $1 id.
-- called by: enqueue/flows: before steps are added.
-- index: workflow_step_name.
-- locks: none: the workflow's row is locked already.
select step.name, step.step
from json_array_elements_text($2::text::json) as given (name)
join fastq.workflow_step as step on step.workflow = $1::bigint and step.name = given.name
