"""The event loop of a Python kernel: one for its whole life, so that tasks go on from call to call.

A part of python.py, its `kernel`.
"""

sys = kernel.sys
State, Streams, getpid = kernel.State, kernel.Streams, kernel.getpid


def event_loop():
    asyncio = kernel.with_own_path(__import__, "asyncio")
    if State.loop is None or State.loop.is_closed():
        State.loop = asyncio.new_event_loop()
    asyncio.set_event_loop(State.loop)
    return State.loop


def wait_for(awaitable):
    """Its value. The loop stays, and with it the tasks that the user made."""
    loop = event_loop()
    cancelled = sys.modules["asyncio"].CancelledError

    async def wait():
        try:
            return await awaitable
        except cancelled as error:
            if State.was_interrupted:
                raise KeyboardInterrupt().with_traceback(error.__traceback__) from None
            raise

    task = State.task = loop.create_task(wait())
    try:
        return loop.run_until_complete(task)
    except cancelled:
        if State.was_interrupted:
            raise KeyboardInterrupt from None  # before it began
        raise
    finally:
        if not task.done() and getpid() == kernel.PID:
            task.cancel()
            try:
                loop.run_until_complete(task)
            except cancelled:
                pass
        State.task = None


async def run_code(first, last, namespace):
    value = None
    for code in (first, last):
        if code:
            value = eval(code, namespace)
            if code.co_flags & kernel.COROUTINE:
                value = await value
    return value if last else None


def wait_idle():
    """Until there are orders. What the user left to the event loop goes on meanwhile."""
    loop, all_tasks = State.loop, sys.modules["asyncio"].all_tasks
    while not loop.is_closed() and all_tasks(loop):
        ready = loop.create_future()
        loop.add_reader(Streams.orders, lambda: ready.done() or ready.set_result(True))
        try:
            return loop.run_until_complete(ready)
        except BaseException as error:
            if getpid() != kernel.PID:
                kernel.ERRORS.end_child(kernel.judge(error))
        finally:
            loop.remove_reader(Streams.orders)
