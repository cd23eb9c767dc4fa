"""Stacks of threads and of tasks: the user's calls in their order, bounded, without a value of a variable."""

import asyncio
import threading
from contextlib import contextmanager

import pytest

from fastq.work.execute import frames
from fastq.work.execute.frames import LONGEST, of_task, of_thread, of_threads

SECRET = "hunter2"  # the value that no text may have


@contextmanager
def waiting(function):
    """Run a function in a thread, which is to wait for the event that it is given; give the thread once it does."""
    arrived, over = threading.Event(), threading.Event()

    def wait():
        arrived.set()
        over.wait(20)

    thread = threading.Thread(target=function, args=(wait,))
    thread.start()
    arrived.wait(20)
    try:
        yield thread
    finally:
        over.set()
        thread.join()


def outer(wait, password=SECRET):
    inner(wait, password)


def inner(wait, password):
    held = [password]
    wait()
    return held


def deep(wait, left):
    if left:
        deep_again(wait, left - 1)
    else:
        wait()


def deep_again(wait, left):
    deep(wait, left)


def test_a_thread_is_told_from_the_users_code_on_and_no_value_of_a_variable():
    with waiting(outer) as thread:
        text = of_thread(of_threads()[thread.ident])

    lines = [line for line in text.splitlines() if line.startswith("  File")]
    assert [line.rpartition(", in ")[2] for line in lines][:3] == ["outer", "inner", "wait"]
    assert "    inner(wait, password)\n" in text
    assert SECRET not in text


def test_the_calls_around_the_users_code_alone_are_left_out():
    with waiting(lambda wait: wait()) as thread:
        text = of_thread(of_threads()[thread.ident])

    assert "threading.py" not in text.partition("in <lambda>")[0]
    assert "in wait" in text


def test_a_deep_stack_has_its_first_and_its_last_calls():
    with waiting(lambda wait: deep(wait, 300)) as thread:
        text = of_thread(of_threads()[thread.ident])

    assert "calls left out ..." in text
    assert len(text) <= LONGEST + 100
    assert text.count("in deep") <= 101
    assert "in wait" in text


def test_a_thread_that_is_gone_has_no_stack():
    assert of_thread(None) == ""


def run(check):
    """Run a coroutine, and return what it returns."""
    return asyncio.run(check())


async def asks(wait, password=SECRET):
    await asked(wait, password)


async def asked(wait, password):
    held = [password]
    await wait
    return held


async def started(coroutine):
    """Start a task, and let it come to where it waits."""
    task = asyncio.get_running_loop().create_task(coroutine)
    for _ in range(5):
        await asyncio.sleep(0)
    return task


async def end(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_a_task_that_waits_is_told_with_the_coroutines_that_it_awaits():
    async def check():
        task = await started(asks(asyncio.get_running_loop().create_future()))
        text = of_task(task, of_threads()[threading.get_ident()])
        await end(task)
        return text

    text = run(check)

    assert [line.rpartition(", in ")[2] for line in text.splitlines() if "File" in line] == ["asks", "asked"]
    assert "    await wait\n" in text
    assert SECRET not in text


async def gathers(wait):
    await asyncio.gather(asks(wait), asks(wait))


async def awaits(task):
    await task


async def in_generator(wait):
    async for _ in numbers(wait):
        pass


async def numbers(wait):
    yield 1
    await wait


@pytest.mark.parametrize("how", ["task", "gather"])
def test_a_task_that_waits_for_others_is_told_with_the_stack_of_the_first(how):
    async def check():
        future = asyncio.get_running_loop().create_future()
        below = await started(asks(future))
        task = await started(awaits(below) if how == "task" else gathers(future))
        text = of_task(task, None)
        await end(task, below)
        return text

    text = run(check)

    assert "which waits for the task 'Task-" in text
    assert text.index("in awaits" if how == "task" else "in gathers") < text.index("in asks") < text.index("in asked")


def test_an_asynchronous_generator_is_told_as_far_as_python_tells():
    async def check():
        task = await started(in_generator(asyncio.get_running_loop().create_future()))
        text = of_task(task, None)
        await end(task)
        return text

    assert "in in_generator" in run(check)


def test_a_task_that_runs_at_this_moment_is_where_its_event_loop_is():
    async def works():
        return of_task(asyncio.current_task(), of_threads()[threading.get_ident()])

    text = run(works)

    assert "in works" in text


def test_of_a_chain_of_tasks_the_first_ones_are_told(monkeypatch):
    monkeypatch.setattr(frames, "TASKS", 3)

    async def check():
        tasks = [await started(asks(asyncio.get_running_loop().create_future()))]
        for _ in range(5):
            tasks.append(await started(awaits(tasks[-1])))
        text = of_task(tasks[-1], None)
        await end(*tasks)
        return text

    assert run(check).count("which waits for the task") == 2
