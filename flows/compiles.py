"""Turns the plans of compiles into the comparison of each case, several at once as far as memory allows."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import groupby

import psutil
from prefect import get_run_logger

from configs.comparison import load_target
from configs.errors import ConfigError
from flows.runs import run_in_turn
from tasks.preflight.read import find_missing_compilers
from tasks.records import ComparisonRecord, RunPlan
from tasks.resolve.plans import Request
from tasks.services.events import Events, Planned, Troubled
from tasks.services.running_jobs import Jobs
from tasks.steps import diff_compiles_step, publish_step, resolve_step
from tasks.store import Store

COMPILE_BYTES = 3 * 2**30  # of memory that one compile may take: seed-1b took 1.8 on v6e-32, with libtpu 0.0.50


def compile_cases(plans: list[RunPlan], store: Store, events: Events, jobs: Jobs) -> Iterator[ComparisonRecord]:
    """The comparison of every case, in their order; what was compiled before is read."""
    with ThreadPoolExecutor(max_workers=count_lanes(len(plans)), thread_name_prefix="compile") as lanes:
        futures = {
            plan.run_name: lanes.submit(copy_context().run, run_in_turn, plan, store, events, jobs, among=[plan])
            for plan in plans
        }
        try:
            for case, group in groupby(plans, key=lambda plan: plan.case):
                records = [futures[plan.run_name].result() for plan in group]
                yield diff_compiles_step(case, records, store)
        except BaseException as error:
            for future in futures.values():
                future.cancel()
            if not isinstance(error, Exception):  # the flow is being ended: the lanes see it by their jobs
                jobs.stop_all()
            raise


def count_lanes(compiles: int) -> int:
    """How many compiles at once this machine has memory and processors for; at least one."""
    return max(1, min(compiles, os.cpu_count() or 1, int(psutil.virtual_memory().available // COMPILE_BYTES)))


def find_refused(
    request: Request, target: str, store: Store, events: Events, jobs: Jobs
) -> dict[str, ComparisonRecord]:
    """The cases that cannot run on the target's slice, as its compiler says, with the comparison that tells why.

    None where the target is no slice, and where there is no compiler: then that is reported, and the runs go on.
    """
    if load_target(target).topology is None:
        return {}
    try:
        plans = resolve_step(request.model_copy(update={"compile_only": True}), store)
        missing = find_missing_compilers(plans)
    except ConfigError as error:
        plans, missing = [], list(error.problems)
    if missing:
        message = f"preflight was left out: {'; '.join(missing)}"
        get_run_logger().warning("%s", message)
        events.put(Troubled(message))
        return {}
    events.put(Planned(plans))
    refused = {}
    for record in compile_cases(plans, store, events, jobs):
        if record.programs and record.programs.unfit:
            refused[record.case] = record.model_copy(update={"headline": f"nothing was launched: {record.headline}"})
        else:
            publish_step(record, store)
    return refused
