"""A program that declares the queue as many workers do when they start at once."""

import multiprocessing
import sys
from multiprocessing.synchronize import Barrier

from seller_platform.orchestration import celery_runs

_WORKERS = 8


def _begin(barrier: Barrier) -> None:
    barrier.wait()
    application = celery_runs.app
    with application.connection_for_read() as broker:
        application.amqp.queues["dagster"](broker.default_channel).declare()


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(_WORKERS)
    workers = [context.Process(target=_begin, args=(barrier,)) for _ in range(_WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.exit(sum(worker.exitcode != 0 for worker in workers))
