// Graphile Worker as a measured program, by its public API. A queue of the order is a task identifier here: what Graphile Worker
// calls a queue works one job after the other.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { argsOf, enqueue, order, tell, until, untilEnd, work } from "./common.mjs";

const given = await order();
const preset = {
  worker: {
    connectionString: given.database,
    concurrentJobs: Math.max(given.slots, Math.min(given.slots * given.queues.length, 100)),
    maxPoolSize: 25,
    localQueue: { size: given.job === "cpu" ? -1 : 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
};
const logger = new Logger(() => () => {});

if (given.verb === "work") {
  const taskList = {};
  for (const queue of given.queues) taskList[queue] = (payload, { job }) => work(given.job, payload, job.attempts);
  tell("ready");
  await until("go");
  await run({ preset, logger, taskList, noHandleSignals: true });
  await untilEnd();
  process.exit(0);
}

const utils = await makeWorkerUtils({ preset, logger });
if (given.verb === "setup") {
  await utils.migrate();
  tell("done");
} else {
  const runAt = given.due ? new Date(given.due * 1e3) : undefined;
  await utils.withPgClient((client) => client.query("select 1"));
  tell("ready");
  await enqueue(given, (numbers, queue) =>
    given.batch === 1
      ? utils.addJob(queue, argsOf(given.job, numbers[0], given.path), { runAt })
      : utils.addJobs(
          numbers.map((number) => ({ identifier: queue, payload: argsOf(given.job, number, given.path), runAt })),
        ),
  );
  await untilEnd();
}
await utils.release();
process.exit(0);
