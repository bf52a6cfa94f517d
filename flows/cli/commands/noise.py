"""The command `maxview noise fit`: fits the stated noise of equal runs to the logs of a fleet."""

from typing import Annotated, Literal

from cyclopts import Parameter

from flows.cli.commands.common_options import Json


def noise(
    action: Annotated[Literal["fit"], Parameter(help="fit: fit the noise that configs/noise.yml states.")],
    /,
    *systems: Annotated[
        str, Parameter(help="A folder or pattern for each system, with the logs of two or more equal runs; or gs://.")
    ],
    kind: Annotated[
        Literal["tpu", "gpu", "cpu"] | None, Parameter(help="Kind of device; default: the one that the logs name.")
    ] = None,
    json_: Json = False,
) -> int:
    """Fit the noise of equal runs to logs of several systems, and print it as configs/noise.yml states it."""
    from configs.verdict_rules import device_kind_of
    from flows.cli.byte_progress import open_stderr, show_reads
    from tasks.diff.examine.fit_noise import NoiseFitError, fit_noise, measure_system
    from tasks.ingest.given_logs import open_arms
    from tasks.metrics.compute_facts import with_facts
    from tasks.metrics.time_metrics import STEP_TIME
    from tasks.publish.terminal.noise_fit import show_noise_fit
    from tasks.records.run import RunRecord

    measured, kinds = [], set()
    for words in systems:
        with show_reads(open_stderr()), open_arms(([words], [words]), aa=True) as arms:
            levels = []
            for run in arms.baseline:
                environment = run.reading.environment
                kinds.add(device_kind_of(environment.device_kind, environment.backend))
                record = RunRecord(
                    plan=None, arm=words, label=words, commit=None, log=str(run.file), reading=run.reading
                )
                facts = with_facts(record).facts
                if facts and (level := facts.levels.get(STEP_TIME.name)):
                    levels.append(level.quick.seconds)
        measured.append(measure_system(words, levels))
    if kind is None and len(kinds) > 1:
        raise NoiseFitError(f"the logs are of several kinds of device ({', '.join(sorted(kinds))}); give --kind")
    fit = fit_noise(measured)
    print(fit.model_dump_json() if json_ else show_noise_fit(fit, kind or kinds.pop()))
    return 0
