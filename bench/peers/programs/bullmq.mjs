// BullMQ on Redis as a measured program, by its public API. Jobs that have ended are removed.
import { Queue, Worker } from "bullmq";
import { argsOf, enqueue, order, tell, until, untilEnd, work } from "./common.mjs";

const given = await order();
const { hostname: host, port } = new URL(given.database);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };

if (given.verb === "setup") {
  tell("done");
} else if (given.verb === "work") {
  const options = { connection, concurrency: given.slots, autorun: false };
  const workers = given.queues.map(
    (queue) => new Worker(queue, (job) => work(given.job, job.data, job.attemptsMade + 1), options),
  );
  for (const worker of workers) worker.on("error", () => {});
  await Promise.all(workers.map((worker) => worker.waitUntilReady()));
  tell("ready");
  await until("go");
  for (const worker of workers) worker.run();
  await untilEnd();
} else {
  const queues = new Map(given.queues.map((queue) => [queue, new Queue(queue, { connection })]));
  await Promise.all([...queues.values()].map((queue) => queue.waitUntilReady()));
  const options = () => ({
    removeOnComplete: true,
    attempts: 2,
    delay: given.due ? Math.max(0, Math.round(given.due * 1e3 - Date.now())) : undefined,
  });
  tell("ready");
  await enqueue(given, (numbers, queue) =>
    given.batch === 1
      ? queues.get(queue).add(given.job, argsOf(given.job, numbers[0], given.path), options())
      : queues.get(queue).addBulk(
          numbers.map((number) => ({ name: given.job, data: argsOf(given.job, number, given.path), opts: options() })),
        ),
  );
  await untilEnd();
}
process.exit(0);
