"""JobSets field by field beside those of xpk 1.16.0 and `gcluster job submit`, and their frame around the trainer."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from configs.backends.jobset import JobSet
from configs.comparison import load_target
from configs.errors import ConfigError
from configs.read import CONFIG_ROOT
from configs.topologies import TOPOLOGIES
from tasks.launch.jobset.manifest import make_manifest, write_manifest
from tasks.records.plan import RunPlan
from tasks.store.directories import RunDirectory
from tests.wording.sentences import Wording

type Object = dict[str, Any]

DECISION = CONFIG_ROOT.parent / "docs" / "decisions" / "0104-jobsets-without-xpk.md"
JOB = "spec.replicatedJobs[0].template.spec"
PLACES = {"pod": f"{JOB}.template.spec", "job": JOB, "container": f"{JOB}.template.spec.containers[0]"}
# shape → xpk's and gcluster's name of it, and what our target says
SHAPES: dict[str, tuple[str, str, int]] = {
    "v5e-32": ("v5litepod-32", "v5e:4x8", 1),
    "v6e-32": ("v6e-32", "v6e:4x8", 1),
    "v5p-64": ("v5p-64", "v5p:2x4x4", 1),
    "two slices": ("v6e-32", "v6e:4x8", 2),
}
XPK = os.environ.get("MAXVIEW_XPK") or shutil.which("xpk")
COMMON = {"cluster": "c", "project": "p", "zone": "us-east5-b", "image": "gcr.io/p/t:1", "priority": "medium"}


def plan_of(argv: tuple[str, ...] = ("python", "train.py"), **changes: Any) -> RunPlan:
    fields: Object = {"run_name": "r", "case": "c", "arm": "a", "repeat": 0, "identity": "i", "directory": "/o"}
    fields |= {"environment": {}, "config": {"steps": 3}, "origins": {}, "argv": argv, "comparison": "m", "target": "t"}
    fields |= {"trainer": "maxview", "backend": "jobset", "commit": None, "dirty": False, "versions": {}}
    fields |= {"time_limit_s": 60}
    return RunPlan.model_construct(**(fields | changes))


def settings_of(**changes: Any) -> JobSet:
    return JobSet.model_validate(COMMON | changes)


def ours(shape: str) -> Object:
    _, topology, slices = SHAPES[shape]
    return make_manifest(plan_of(), settings_of(topology=topology, num_slices=slices), "w", ())


def gcluster(shape: str) -> Object:
    """The manifest of `gcluster job submit` with equal options: as its reference documents and its templates write it.

    cluster-toolkit of June 2026, `--queue multislice-queue --priority medium --restarts 0 --gke-ttl-after-finished 12h
    --grace-period 1m`. https://docs.cloud.google.com/cluster-toolkit/docs/reference/gcluster-job-submit
    """
    accelerators = {
        "v5e-32": "tpu-v5-lite-podslice", "v6e-32": "tpu-v6e-slice", "v5p-64": "tpu-v5p-slice",
        "two slices": "tpu-v6e-slice",
    }  # fmt: skip
    topology = "2x4x4" if shape == "v5p-64" else "4x8"
    pools = {"key": "cloud.google.com/gke-nodepool", "operator": "NotIn", "values": ["default-pool"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [pools]}]}
    pod = {
        "hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet", "terminationGracePeriodSeconds": 60,
        "priorityClassName": "medium", "restartPolicy": "Never",
        "containers": [{
            "name": "workload-container", "image": "gcr.io/p/t:1", "command": ["/bin/bash", "-c", "python train.py"],
            "resources": {"limits": {"google.com/tpu": 4}}, "env": None,
        }],
        "nodeSelector": {
            "cloud.google.com/gke-tpu-accelerator": accelerators[shape], "cloud.google.com/gke-tpu-topology": topology,
        },
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        "tolerations": [{"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}],
    }  # fmt: skip
    label = {"gcluster.google.com/workload": "w"}
    job = {
        "parallelism": 8, "completions": 8, "backoffLimit": 0,
        "template": {
            "metadata": {"labels": label, "annotations": {"cloud.google.com/gke-tpu-slice-topology": topology}},
            "spec": pod,
        },
    }  # fmt: skip
    replicas = 2 if shape == "two slices" else 1
    rules = [{"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {
            "name": "w", "labels": label | {"kueue.x-k8s.io/queue-name": "multislice-queue"},
            "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"},
        },
        "spec": {
            "ttlSecondsAfterFinished": 43200, "failurePolicy": {"maxRestarts": 0, "rules": rules},
            "replicatedJobs": [{"name": "main-job", "replicas": replicas, "template": {"spec": job}}],
        },
    }  # fmt: skip


def xpk(shape: str) -> Object:
    """The manifest that xpk 1.16.0 wrote."""
    documents = yaml.safe_load_all((Path(__file__).parent / "xpk-1.16.0.yml").read_text())
    return dict(zip(SHAPES, documents, strict=True))[shape]


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, value) of each field that is set; a list of plain values is one field."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for number, item in enumerate(value):
            yield from flatten(item, f"{path}[{number}]")
    elif value is not None:
        yield path, value


def shorten(path: str) -> str:
    """A path with the names of PLACES."""
    for name in ("container", "pod", "job"):
        if path.startswith(f"{PLACES[name]}."):
            return name + path.removeprefix(PLACES[name])
    return path


def explained() -> dict[str, str]:
    """Path → reason of each deviation in the table of the decision. A path ends with * for all below it."""
    rows = re.findall(r"(?m)^\| (`[^|]+`) \|.*\| ([^|]+) \|$", DECISION.read_text())
    return {path: reason for paths, reason in rows for path in re.findall(r"`([^`]+)`", paths)}


def is_explained(path: str, known: dict[str, str]) -> str | None:
    return next((row for row in known if path == row or (row.endswith("*") and path.startswith(row[:-1]))), None)


def test_every_field_equals_other_tools_or_is_explained() -> None:
    known = explained()
    used: set[str] = set()
    unexplained = []
    for shape in SHAPES:
        own = dict(flatten(ours(shape)))
        for tool in (xpk, gcluster):
            other = dict(flatten(tool(shape)))
            for path in sorted(own.keys() | other.keys()):
                if own.get(path) == other.get(path):
                    continue
                row = is_explained(shorten(path), known)
                used |= {row} if row else set()
                if row is None:
                    unexplained.append((shape, tool.__name__, shorten(path), own.get(path), other.get(path)))
    assert unexplained == []
    assert used == known.keys()  # no reason outlives its deviation
    equal = {shorten(path) for path, value in flatten(ours("v5p-64")) if not is_explained(shorten(path), known)}
    selected = {f"pod.nodeSelector.cloud.google.com/gke-tpu-{kind}" for kind in ("accelerator", "topology")}
    assert selected | {"job.completions", "container.resources.limits.google.com/tpu"} <= equal


@pytest.mark.parametrize("target", ["v5e-32", "v6e-32", "v5p-64"])
def test_targets_of_the_repository_have_these_shapes(target: str) -> None:
    environ = {f"MAXVIEW_{name.upper()}": value for name, value in COMMON.items()}
    settings = load_target(target).launch_settings(environ)
    assert isinstance(settings, JobSet)
    assert make_manifest(plan_of(), settings, "w", ()) == ours(target)


@pytest.mark.long
@pytest.mark.skipif(XPK is None, reason="xpk is not installed: uv tool install xpk==1.16.0, or $MAXVIEW_XPK")
@pytest.mark.parametrize("shape", SHAPES)
def test_the_samples_are_what_xpk_writes(shape: str) -> None:
    assert XPK is not None
    kind, _, slices = SHAPES[shape]
    words = [
        XPK, "workload", "create", "--dry-run", "--workload=w", "--cluster=c", "--project=p", "--project-number=1",
        "--zone=us-east5-b", "--namespace=default", f"--tpu-type={kind}", f"--num-slices={slices}",
        "--docker-image=gcr.io/p/t:1", "--priority=medium", "--termination-grace-period-seconds=60", "--max-restarts=0",
        "--command=python train.py",
    ]  # fmt: skip
    quiet = {"TELEMETRY_ENABLED": "false", "DEPENDENCY_AUTO_DOWNLOAD": "false", "PIP_NO_INDEX": "1"}
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | quiet, timeout=120, check=True)
    written = re.search(r"(?ms)^apiVersion: jobset.*?(?=^\[XPK\])", done.stdout)
    assert written is not None
    assert yaml.safe_load(written[0]) == xpk(shape)


@pytest.mark.long
@pytest.mark.skipif(XPK is None, reason="xpk is not installed: uv tool install xpk==1.16.0, or $MAXVIEW_XPK")
def test_nodes_of_every_topology_are_those_of_xpk() -> None:
    """Those that xpk knows; it sizes v5e and v6e slices of 2x4 as two hosts, as we do."""
    assert XPK is not None
    code = (
        "import json; from xpk.core.system_characteristics import UserFacingNameToSystemCharacteristics as known; "
        "print(json.dumps({n: [s.gke_accelerator, s.vms_per_slice, s.chips_per_vm] for n, s in known.items()}))"
    )
    python = Path(XPK).resolve().parent / "python"
    known = yaml.safe_load(subprocess.run([python, "-c", code], capture_output=True, check=True).stdout)
    prefixes = {"v5e": "v5litepod", "v5p": "v5p", "v6e": "v6e", "v7x": "tpu7x"}
    seen = 0
    for name, topology in TOPOLOGIES.items():
        generation, _, shape = name.partition(":")
        if (row := known.get(f"{prefixes[generation]}-{shape}")) is not None:
            accelerator = topology.gke_labels["cloud.google.com/gke-tpu-accelerator"]
            assert [accelerator, topology.hosts, topology.host_chips] == row, name
            seen += 1
    assert seen > 30


# ---------------------------------------------------------------- other devices


def pod_of(manifest: Object) -> Object:
    (job,) = manifest["spec"]["replicatedJobs"]
    return dict(job["template"]["spec"]["template"]["spec"])


def test_gpus_are_requested_by_the_same_settings() -> None:
    chosen = {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}
    settings = settings_of(gpus=8, hosts=2, num_slices=2, node_selector=chosen)
    manifest = make_manifest(plan_of(), settings, "w", ())
    assert (settings.devices, settings.limits) == (32, {"nvidia.com/gpu": 8})
    assert "annotations" not in manifest["metadata"]  # several jobs may share a pool of nodes
    pod = pod_of(manifest)
    assert pod["nodeSelector"] == chosen
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    (container,) = pod["containers"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 8}}
    given = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert given["JAX_NUM_PROCESSES"] == "4"
    assert given["JAX_COORDINATOR_ADDRESS"] == "w-slice-job-0-0.w:8476"  # https://jobset.sigs.k8s.io/docs/concepts/
    ranks = [
        run_frame(container, ("bash", "-c", "echo $JAX_PROCESS_ID"), JOB_INDEX=str(job), JOB_COMPLETION_INDEX=str(pod))
        for job in range(2) for pod in range(2)
    ]  # fmt: skip
    assert [text.splitlines()[1] for text, _ in ranks] == ["0", "1", "2", "3"]


def test_a_lone_process_looks_for_no_others() -> None:
    (container,) = pod_of(make_manifest(plan_of(), settings_of(gpus=1), "w", ()))["containers"]
    assert not [entry for entry in container["env"] if entry["name"].startswith("JAX_")]


def test_volumes_are_buckets_claims_and_folders() -> None:
    volumes = [
        {"path": "/data", "source": "gs://a-bucket"},
        {"path": "/out", "source": "lustre", "read_only": False},
        {"path": "/local", "source": "/mnt/disks/ssd"},
    ]
    manifest = make_manifest(plan_of(), settings_of(topology="v6e:4x8", volumes=volumes, service_account="me"), "w", ())
    pod = pod_of(manifest)
    assert pod["serviceAccountName"] == "me"
    by_name = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    assert by_name[mounts["/data"]["name"]]["csi"]["volumeAttributes"]["bucketName"] == "a-bucket"
    assert by_name[mounts["/out"]["name"]]["persistentVolumeClaim"] == {"claimName": "lustre"}
    assert by_name[mounts["/local"]["name"]]["hostPath"] == {"path": "/mnt/disks/ssd"}
    assert (mounts["/data"]["readOnly"], mounts["/out"]["readOnly"]) == (True, False)
    (job,) = manifest["spec"]["replicatedJobs"]
    assert job["template"]["spec"]["template"]["metadata"]["annotations"] == {"gke-gcsfuse/volumes": "true"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"topology": "v6e:3x3"}, "unknown topology 'v6e:3x3'; there are: v6e: 1x1, 2x2"),
        ({"topology": "v6e:4x8", "gpus": 8}, "topology v6e:4x8 has its own hosts: leave gpus and hosts out"),
        ({"volumes": [{"path": "/data", "source": "s3://x"}]}, "volumes.0.source"),
        ({"queue": "a b"}, "queue"),
    ],
)
def test_bad_settings_are_refused(settings: Object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        settings_of(**settings)


# ---------------------------------------------------------------- the frame around the trainer


def start_frame(container: Object, words: tuple[str, ...], **variables: str) -> "subprocess.Popen[str]":
    """Start a container's command with other words for the trainer."""
    argv = [*container["command"], container["args"][0], *words]
    return subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | variables
    )


def run_frame(container: Object, words: tuple[str, ...], **variables: str) -> tuple[str, int]:
    process = start_frame(container, words, **variables)
    output, _ = process.communicate(timeout=30)
    return output, process.returncode


@pytest.fixture
def container(tmp_path: Path) -> Object:
    """The container of a run, with its config in a folder of this test."""
    (made,) = pod_of(make_manifest(plan_of(), settings_of(topology="v6e:4x8"), "w", ()))["containers"]
    made["command"] = [word.replace("/tmp/maxview", str(tmp_path)) for word in made["command"]]
    return dict(made)


@pytest.mark.parametrize(("words", "code"), [(("true",), 0), (("bash", "-c", "exit 37"), 37), (("no-such-word",), 127)])
def test_the_frame_has_the_trainers_exit_code(
    container: Object, tmp_path: Path, words: tuple[str, ...], code: int
) -> None:
    output, exit_code = run_frame(container, words)
    lines = output.splitlines()
    assert exit_code == code
    assert (lines[0][:10], lines[-2][:8], lines[-1]) == ("XPK Start:", "XPK End:", f"EXIT_CODE={code}")
    assert "steps: 3" in (tmp_path / "config.yml").read_text()


def test_a_signal_reaches_the_trainer_and_its_exit_code_returns(container: Object) -> None:
    """A second signal too: `kubectl delete` after an eviction."""
    trainer = "trap 'sleep 0.5; exit 7' TERM; echo ready; sleep 30 &>/dev/null & wait"  # it would hold the output open
    process = start_frame(container, ("bash", "-c", trainer))
    assert process.stdout is not None
    while process.stdout.readline() != "ready\n":
        pass
    for _ in range(2):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
    output, _ = process.communicate(timeout=30)
    assert (process.returncode, output.splitlines()[-1]) == (7, "EXIT_CODE=7")


def test_words_are_no_text_of_a_shell(container: Object, tmp_path: Path) -> None:
    hostile = ("; touch x", "$(touch x)", "`touch x`", "a\nb", "'", '"', "*")
    output, code = run_frame(container, ("printf", "<%s>", *hostile))
    assert code == 0
    assert "".join(f"<{word}>" for word in hostile) in output
    assert not Path("x").exists()


# ---------------------------------------------------------------- the manifest as text


def test_the_text_is_the_manifest(tmp_path: Path) -> None:
    plan = plan_of(argv=("python", "-c", "print('$HOME')"), launch=settings_of(topology="v6e:4x8", shared_out=True))
    text = write_manifest(plan, RunDirectory(tmp_path))
    read = yaml.safe_load(text)
    (container,) = pod_of(read)["containers"]
    assert container["args"][1:] == ["python", "-c", "print('$$HOME')"]  # Kubernetes replaces $$ by $
    assert read == make_manifest(plan, settings_of(topology="v6e:4x8", shared_out=True), read["metadata"]["name"], ())
    assert "\n              - |\n                # r: " in text


def test_pods_must_be_able_to_write(tmp_path: Path, wording: Wording) -> None:
    from tasks.launch.job import write_manifest as write

    plan = plan_of(backend="jobset", target="v6e-32", trainer="command", launch=settings_of(topology="v6e:4x8"))
    plan = plan.replace(start=None, aa=False)
    with pytest.raises(ConfigError, match="/o: choose --out gs://BUCKET/FOLDER") as error:
        write(plan, RunDirectory(tmp_path))
    wording("errors", error.value)
