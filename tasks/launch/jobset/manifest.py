"""Makes the JobSet of a run from its plan: nodes, pods, and the frame around the trainer."""

import io
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from configs.backends.jobset import JobSet, Volume
from tasks.launch.cluster.naming import SLICE_JOB, as_pods_see, check_out, family_of
from tasks.records.plan import RunPlan
from tasks.resolve.trainers.trainer import CONFIG_IN_POD
from tasks.store.directories import RunDirectory, config_text

type Object = dict[str, Any]

COORDINATOR_PORT = 8476  # JAX's own default for TPU pods
BUCKET = "gs://"
# The first argument is the run's config; the others are the trainer's command. A signal ends `wait` early.
_FRAME = f"""\
mkdir -p {CONFIG_IN_POD.rpartition("/")[0]} && printf %s "$1" > {CONFIG_IN_POD} || exit
shift
echo "XPK Start: $(date)"
trap 'AGAIN=1; kill -TERM "$PID" 2> /dev/null' TERM
"$@" &
PID=$! AGAIN=1
while [ "$AGAIN" ]; do AGAIN=; wait "$PID"; EXIT_CODE=$?; done
echo "XPK End: $(date)"
echo "EXIT_CODE=$EXIT_CODE"
exit "$EXIT_CODE"
"""
# The place of a pod among all pods of the job: https://jobset.sigs.k8s.io/docs/concepts/
_RANK = 'export JAX_PROCESS_ID="$((JOB_INDEX * {hosts} + JOB_COMPLETION_INDEX))"\n'


def make_manifest(plan: RunPlan, settings: JobSet, name: str, extra_argv: tuple[str, ...]) -> Object:
    """Return the JobSet of an attempt. plan: as its pods see it. Other tools' JobSets: docs/decisions/0104.

    JobSet restarts nothing, because maxview restarts a run by the cause of its end.
    """
    hosts = settings.slice_hosts
    script, environment = _FRAME, {"PYTHONUNBUFFERED": "1"} | plan.environment
    processes = hosts * settings.num_slices
    finds_others = settings.topology is not None or settings.alone  # GKE tells the pods of TPU slices about each other
    if not finds_others:
        script = _RANK.format(hosts=hosts) + script
        address = f"{name}-{SLICE_JOB}-0-0.{name}:{COORDINATOR_PORT}"
        environment = {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": str(processes)} | environment
    container: Object = {
        "name": "trainer",
        "image": settings.image,
        "command": ["bash", "-c", script, "trainer"],
        "args": [_literal(word) for word in (config_text(plan), *plan.argv, *extra_argv)],
        "env": [{"name": key, "value": _literal(value)} for key, value in environment.items()],
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},
            *(
                {"name": f"volume-{n}", "mountPath": volume.path, "readOnly": volume.read_only}
                for n, volume in enumerate(settings.volumes)
            ),
        ],
    }
    if not finds_others:
        index = {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/job-index']"}
        container["env"].append({"name": "JOB_INDEX", "valueFrom": {"fieldRef": index}})
    # the limit of 64 MB that containers have by default is too small for the workers of data pipelines
    volumes = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    pod: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": settings.grace_s,
        "containers": [container],
        "volumes": volumes + [{"name": f"volume-{n}"} | _source_of(v) for n, v in enumerate(settings.volumes)],
    }
    if settings.selector:
        pod["nodeSelector"] = settings.selector
    if settings.limits:
        container["resources"] = {"limits": settings.limits}
        pod["tolerations"] = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in settings.limits]
        pod |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if settings.priority:
        pod["priorityClassName"] = settings.priority
    if settings.service_account:
        pod["serviceAccountName"] = settings.service_account
    template: Object = {"spec": pod}
    if any(volume.source.startswith(BUCKET) for volume in settings.volumes):
        template = {"metadata": {"annotations": {"gke-gcsfuse/volumes": "true"}}, "spec": pod}
    job = {"parallelism": hosts, "completions": hosts, "backoffLimit": 0, "template": template}
    metadata: Object = {"name": name, "namespace": settings.namespace}
    if settings.queue:
        metadata["labels"] = {"kueue.x-k8s.io/queue-name": settings.queue}
    if settings.topology:
        exclusive = "alpha.jobset.sigs.k8s.io/exclusive-topology"
        metadata["annotations"] = {exclusive: "cloud.google.com/gke-nodepool"}  # a slice is a node pool
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {
            "ttlSecondsAfterFinished": settings.ttl_s,
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [{"name": SLICE_JOB, "replicas": settings.num_slices, "template": {"spec": job}}],
        },
    }


def write_manifest(plan: RunPlan, directory: RunDirectory) -> str:
    """Return the JobSet of the plan's first attempt as YAML. Raises LaunchError if pods cannot write the output."""
    assert isinstance(plan.launch, JobSet)
    check_out(plan, plan.launch, directory)
    seen, _ = as_pods_see(plan, directory, ())
    yaml, text = YAML(), io.StringIO()
    yaml.default_flow_style, yaml.width = False, 4096
    yaml.dump(_in_blocks(make_manifest(seen, plan.launch, family_of(plan), ())), text)
    return text.getvalue()


def _literal(text: str) -> str:
    """Return a text that Kubernetes does not expand: it replaces $(NAME), and $$ by $."""
    return text.replace("$", "$$")


def _source_of(volume: Volume) -> Object:
    """Return a volume's source as in the pod's spec."""
    if volume.source.startswith(BUCKET):
        bucket = {"bucketName": volume.source.removeprefix(BUCKET), "hostNetworkPodKSA": "true"}
        driver = "gcsfuse.csi.storage.gke.io"
        return {"csi": {"driver": driver, "readOnly": volume.read_only, "volumeAttributes": bucket}}
    if volume.source.startswith("/"):
        return {"hostPath": {"path": volume.source}}
    return {"persistentVolumeClaim": {"claimName": volume.source}}


def _in_blocks(value: Any) -> Any:
    """Return the value with its texts of several lines as blocks of YAML."""
    if isinstance(value, dict):
        return {key: _in_blocks(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_in_blocks(item) for item in value]
    return LiteralScalarString(value) if isinstance(value, str) and "\n" in value else value
