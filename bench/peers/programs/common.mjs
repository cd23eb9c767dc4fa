// What every measured program of Node.js does alike, as `fastq/bench/cells/speak.py` does for those of Python:
// hear the order, say when it is ready, enqueue at a pace, note times.
import { appendFileSync, openSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as rest } from "node:timers/promises";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

export async function order() {
  return JSON.parse((await lines.next()).value);
}

export function tell(word, facts = {}) {
  process.stdout.write(`${word} ${JSON.stringify(facts)}\n`);
}

export async function until(word) {
  const { value } = await lines.next();
  if (value !== word) process.exit(0);
}

export async function untilEnd() {
  while (!(await lines.next()).done);
}

const TEXT = "lorem ipsum dolor sit amet, consetetur sadipscing elitr, sed diam nonumy eirmod tempor invidunt ut labore";

export function argsOf(job, number, path) {
  if (job === "clock") return { number, path };
  if (job !== "large") return { number };
  const args = { number, user: number * 7, weight: number / 4, urgent: number % 3 === 0 };
  for (let place = 0; place < 8; place++) args[`text${place}`] = TEXT;
  return args;
}

const files = new Map();

function note({ number, path }) {
  const row = Buffer.alloc(16);
  row.writeBigInt64LE(BigInt(number), 0);
  row.writeBigInt64LE(process.hrtime.bigint(), 8); // CLOCK_MONOTONIC, which all programs of the machine read
  if (!files.has(path)) files.set(path, openSync(path, "a"));
  writeSync(files.get(path), row);
}

function spin() {
  const began = process.cpuUsage();
  for (let spent = 0; spent < 1000; ) {
    const { user, system } = process.cpuUsage(began);
    spent = user + system;
  }
}

// What a job does; `attempt` counts from 1.
export function work(job, args, attempt) {
  if (job === "clock") note(args);
  else if (job === "sleep") return rest(5);
  else if (job === "cpu") spin();
  else if (job === "fail" && attempt === 1) throw new Error("not yet");
  return undefined;
}

async function one(given, thread, send, rows) {
  const began = performance.now();
  let at = began;
  let jobs = 0;
  let call = 0;
  for (let first = thread * given.batch; first < given.count; first += given.threads * given.batch) {
    if (given.gap) at += (given.gap[0] + Math.random() * (given.gap[1] - given.gap[0])) * 1e3;
    else if (given.rate) at = began + ((first + given.batch) / given.rate) * 1e3;
    if (given.seconds && performance.now() > began + given.seconds * 1e3) break;
    const left = at - performance.now();
    if (left > 0) await rest(left);
    const queue = given.queues[(call++ * given.threads + thread) % given.queues.length];
    const numbers = [];
    for (let number = first; number < Math.min(first + given.batch, given.count); number++) numbers.push(given.first + number);
    const sent = process.hrtime.bigint();
    await send(numbers, queue);
    rows.push([numbers.at(-1), sent, process.hrtime.bigint()]);
    jobs += numbers.length;
  }
  return jobs;
}

export async function enqueue(given, send) {
  await until("go");
  const rows = [];
  const began = process.hrtime.bigint();
  const threads = Array.from({ length: given.threads }, (_, thread) => one(given, thread, send, rows));
  const jobs = (await Promise.all(threads)).reduce((sum, count) => sum + count, 0);
  const ended = process.hrtime.bigint();
  if (given.sent) {
    const text = Buffer.alloc(rows.length * 24);
    rows.forEach((row, place) => row.forEach((value, field) => text.writeBigInt64LE(BigInt(value), place * 24 + field * 8)));
    appendFileSync(given.sent, text);
  }
  tell("done", { jobs, began: Number(began), ended: Number(ended) });
}
