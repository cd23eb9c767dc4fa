// pg-boss as a measured program, by its public API: batches, and the shortest interval between two looks that it allows.
import { PgBoss } from "pg-boss";
import { argsOf, enqueue, order, tell, until, untilEnd, work } from "./common.mjs";

const given = await order();
const boss = new PgBoss({ connectionString: given.database, max: 20, useListenNotify: true, supervise: false, schedule: false });
boss.on("error", () => {});
await boss.start();
if (given.verb === "setup") {
  tell("done");
} else {
  for (const queue of given.queues) await boss.createQueue(queue, { retryLimit: 2, retryDelay: 0, notify: true });
  tell("ready");
  if (given.verb === "work") {
    await until("go");
    const options = {
      batchSize: given.slots,
      pollingIntervalSeconds: 0.5,
      notifyPollingIntervalSeconds: 0.5,
      burstWhenBatchFull: true,
      includeMetadata: given.job === "fail",
    };
    for (const queue of given.queues)
      await boss.work(queue, options, (jobs) =>
        Promise.all(jobs.map((job) => work(given.job, job.data, (job.retryCount ?? 0) + 1))),
      );
    await untilEnd();
  } else {
    const startAfter = given.due ? new Date(given.due * 1e3) : undefined;
    await enqueue(given, (numbers, queue) =>
      given.batch === 1
        ? boss.send(queue, argsOf(given.job, numbers[0], given.path), { startAfter })
        : boss.insert(
            queue,
            numbers.map((number) => ({ data: argsOf(given.job, number, given.path), startAfter })),
          ),
    );
    await untilEnd();
  }
}
process.exit(0);
