"""Creates the JobSet of an attempt, after a rehearsal by the API server."""

from configs.backends.jobset import JobSet
from tasks.launch.cluster.handle import ClusterHandle
from tasks.launch.cluster.job_view import is_there
from tasks.launch.cluster.kube import Invalid, KubeApi
from tasks.launch.jobset.check import check_fit
from tasks.launch.jobset.manifest import make_manifest
from tasks.launch.patience import retry_outages
from tasks.records.plan import RunPlan


def create_jobset(api: KubeApi, plan: RunPlan, extra_argv: tuple[str, ...], handle: ClusterHandle) -> None:
    """Create the JobSet; see `Create`. Raises LaunchError with the reason if the cluster refuses it.

    Before, the queue is checked, and the API server's validation, webhooks and quotas judge the JobSet (`dryRun=All`).
    """
    settings = plan.launch
    assert isinstance(settings, JobSet)
    manifest = make_manifest(plan, settings, handle.job_name, extra_argv)
    retry_outages(lambda: check_fit(api, settings))
    try:
        retry_outages(lambda: api.create_jobset(manifest, dry_run=True))
    except Invalid as error:
        if "does not support dry run" not in str(error):  # a webhook with side effects
            raise
    try:
        retry_outages(lambda: api.create_jobset(manifest, dry_run=False))
    except Invalid:  # a request whose answer was lost has created it
        if not retry_outages(lambda: is_there(api.jobset(handle.job_name))):
            raise
