-- what: writes what was decided over steps: the change of their unmet edges, their fate, and the steps that have cancelled them (json).
-- called by: lead/workflow/steward: in the transaction that has locked the workflows. Arrays of one length: $1 workflows, $2 steps, $3 changes, $4 fates,
--            $5 the steps that have cancelled them.
-- index: workflow_step_pkey.
-- locks: the steps.
update fastq.workflow_step as step
set unmet = step.unmet + given.change, fate = coalesce(given.fate, step.fate), because = coalesce(given.because::jsonb, step.because)
from unnest($1::bigint[], $2::int[], $3::int[], $4::text[], $5::text[]) as given (workflow, step, change, fate, because)
where step.workflow = given.workflow and step.step = given.step
