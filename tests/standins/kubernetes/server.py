"""A Kubernetes API server on loopback that runs pods as processes of this machine, with faults to order.

    server.py PORT_FILE FOLDER [--pods N] [--python BIN_FOLDER]

Serves the requests of kubectl 1.32, xpk 1.16, Prefect's worker and the Python client: discovery, create, read, list,
patch, delete, watch, pod logs. As on a real one, a request needs a token (`access.py`; 401) whose roles grant it (403),
JobSets are validated (`validation.py`), and one that is deleted in the foreground stays until its pods have ended. A
JobSet gets a Kueue workload, its first N pods, and the end that follows from its pods; a Job one pod. `POST /_faults`
takes a list of faults, `{"kind", …}`: each happens to one JobSet or Job (with `of`: to one whose manifest contains that
text), or to some requests:

| kind | effect |
|---|---|
| never_scheduled | the JobSet stays suspended |
| pull_error | its pods wait with ErrImagePull |
| preempted, evicted, node_shutdown, oom_killed | once its log has `when`: the pod ends in `grace_s`, with that reason |
| node_gone | once its log has `when`: pod, log and node are gone |
| node_not_ready | once its log has `when`: the node is silent, its pod shows no end, and is evicted after `evict_s` |
| kueue_evicted | once its log has `when`: Kueue ends its pods and puts it back into the queue |
| cut_log | log streams break after every `bytes` bytes, `times` times |
| error | `times` requests whose path holds `path` are answered with `code` |
| slow | the same, but `seconds` late |
| restart | at once: connections break for `away_s`, then the server denies everything for `denied_s` |
| log_away | at once: log streams break, and logs are answered with 502 for `seconds` |
| rotate_log | at once: earlier lines of the logs are removed, except for open streams |
| expired | at once: a `token` is not valid any more |
| rules | at once: a `token` has these `rules` |
| pods | JobSets get this `number` of pods |
| no_v1beta1 | Kueue's v1beta1 is not served |
| refused | creating a JobSet is answered with `code` and `message` |
| sticky | JobSets that are deleted stay, after their pods, for `seconds` |
"""

import argparse
import asyncio
import base64
import contextlib
import copy
import datetime
import json
import os
import random
import re
import signal
import string
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from access import RUNNER, Accounts
from aiohttp import web
from validation import check_jobset, fill_in

type Object = dict[str, Any]
type Key = tuple[str, str, str, str]  # group, plural, namespace, name

KUEUE = {
    "workloads": "Workload", "localqueues": "LocalQueue", "clusterqueues": "ClusterQueue",
    "resourceflavors": "ResourceFlavor",
}  # fmt: skip
KINDS: dict[tuple[str, str], dict[str, str]] = {
    ("", "v1"): {
        "pods": "Pod", "configmaps": "ConfigMap", "serviceaccounts": "ServiceAccount", "namespaces": "Namespace",
        "events": "Event", "secrets": "Secret", "nodes": "Node",
    },
    ("batch", "v1"): {"jobs": "Job"},
    ("jobset.x-k8s.io", "v1alpha2"): {"jobsets": "JobSet"},
    ("kueue.x-k8s.io", "v1beta2"): KUEUE,
    ("kueue.x-k8s.io", "v1beta1"): KUEUE,
    ("scheduling.k8s.io", "v1"): {"priorityclasses": "PriorityClass"},
    ("authorization.k8s.io", "v1"): {"selfsubjectaccessreviews": "SelfSubjectAccessReview"},
    ("rbac.authorization.k8s.io", "v1"): {"roles": "Role", "rolebindings": "RoleBinding"},
}  # fmt: skip
CLUSTER_WIDE = (
    "namespaces", "nodes", "selfsubjectaccessreviews", "clusterqueues", "resourceflavors", "priorityclasses",
)  # fmt: skip
UNEXPANDED = re.compile(r"\$(?:\$|\(([^)]*)\))")
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
OPEN = ("/version", "/readyz", "/healthz", "/livez", "/api", "/apis", "/openapi")  # granted to every account
PRIORITIES = {"very-low": 100, "low": 250, "medium": 500, "high": 750, "very-high": 1000}  # as xpk makes them
ENDINGS = {
    # kind: (the pod's reason, the reason of its condition DisruptionTarget)
    "preempted": ("Preempted", "PreemptionByScheduler"),
    "evicted": ("Evicted", "TerminationByKubelet"),
    "node_shutdown": ("NodeShutdown", "TerminationByKubelet"),
    "oom_killed": (None, None),
}


def now(*, fine: bool = False) -> str:
    moment = datetime.datetime.now(datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f000Z" if fine else "%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, reason: str, message: str) -> Object:
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now()}


def failure(code: int, reason: str, message: str, *, wait_s: int | None = None, **details: Any) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code}
    headers = {} if wait_s is None else {"Retry-After": str(wait_s)}
    return web.json_response(
        body | {"message": message, "reason": reason, "details": details}, status=code, headers=headers
    )


def no_such_path() -> web.Response:
    return web.Response(text="404 page not found\n", status=404)


def merge(into: Object, patch: Object) -> None:
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


def tell_end(fault: Object | None, code: int) -> tuple[str, Object]:
    """The reason of a container's end after a fault, and the additional fields of its pod's status."""
    kind = fault["kind"] if fault else ""
    reason, disruption = ENDINGS.get(kind, (None, None))
    more: Object = {"reason": reason, "message": f"Pod was {kind}"} if reason else {}
    if disruption:
        more["conditions"] = [condition("DisruptionTarget", disruption, f"the pod was {kind}")]
    return ("OOMKilled" if kind == "oom_killed" else "Error" if code else "Completed"), more


def selector(query: Any) -> Callable[[Object], bool]:
    wanted = [term.partition("=") for term in query.get("labelSelector", "").split(",") if term]
    fields = [term.partition("=") for term in query.get("fieldSelector", "").split(",") if term]

    def fits(item: Object) -> bool:
        meta = item["metadata"]
        labels = meta.get("labels", {})
        return all(key in labels and (not eq or labels[key] == value.lstrip("=")) for key, eq, value in wanted) and all(
            meta["name"] == value.lstrip("=") for key, _, value in fields if key == "metadata.name"
        )

    return fits


def verb_of(request: web.Request) -> tuple[str, str, str]:
    """The verb, group and resource (with its subresource) of the right that a request needs; no resource: none."""
    words = [word for word in request.path.split("/") if word]
    if f"/{words[0]}" in OPEN and (words[0] not in ("api", "apis") or len(words) < (3 if words[0] == "api" else 4)):
        return "get", "", ""
    group, rest = ("", words[2:]) if words[0] == "api" else (words[1], words[3:])
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    if rest[0] == "selfsubjectaccessreviews":  # allowed for every account
        return "create", group, ""
    verb = VERBS.get(request.method)
    if verb is None:
        watches = request.query.get("watch") in ("true", "1")
        verb = "get" if len(rest) > 1 else "watch" if watches else "list"
    return verb, group, "/".join([rest[0], *rest[2:3]])


def expand(text: str, environ: dict[str, str]) -> str:
    """A word of a container's command or environment, as Kubernetes expands it."""

    def replace(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else environ.get(found[1], found[0])

    return UNEXPANDED.sub(replace, text)


def queue_objects() -> list[tuple[str, str, str, Object]]:
    """(group, version, kind, object) of a queue with the nodes and quota of two v6e-32 slices, and the priorities.

    xpk makes the same: `xpk cluster create`.
    """
    kueue = ("kueue.x-k8s.io", "v1beta2")
    nodes = {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice", "cloud.google.com/gke-tpu-topology": "4x8"}
    quota = {"name": "google.com/tpu", "nominalQuota": "64"}
    group = {"coveredResources": ["google.com/tpu"], "flavors": [{"name": "2xv6e-32", "resources": [quota]}]}
    return [
        (*kueue, "resourceflavors", {"metadata": {"name": "2xv6e-32"}, "spec": {"nodeLabels": nodes}}),
        (*kueue, "clusterqueues", {"metadata": {"name": "cluster-queue"}, "spec": {"resourceGroups": [group]}}),
        (*kueue, "localqueues", {"metadata": {"name": "multislice-queue"}, "spec": {"clusterQueue": "cluster-queue"}}),
        *(
            ("scheduling.k8s.io", "v1", "priorityclasses", {"metadata": {"name": name}, "value": value})
            for name, value in PRIORITIES.items()
        ),
    ]


class Pod:
    """One pod's process, its log with the time of each line, and its end."""

    def __init__(self, name: str, entries: Path) -> None:
        self.name, self.entries = name, entries  # the lines in Cloud Logging
        self.process: asyncio.subprocess.Process | None = None
        self.lines: list[tuple[str, bytes]] = []
        self.dropped = 0  # lines that the kubelet has rotated away
        self.over = asyncio.Event()
        self.grew = asyncio.Condition()

    async def add(self, line: bytes) -> None:
        async with self.grew:
            self.lines.append((time := now(fine=True), line))
            with self.entries.open("a") as file:
                file.write(json.dumps({"timestamp": time, "textPayload": line.decode("utf-8", "replace")}) + "\n")
            self.grew.notify_all()

    def end(self, number: int) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                # SIGTERM reaches the first process of a container, SIGKILL all
                (os.killpg if number == signal.SIGKILL else os.kill)(self.process.pid, number)


class Cluster:
    """The objects, the processes and the faults."""

    def __init__(self, folder: Path, pods: int, python: str) -> None:
        self.folder, self.most_pods, self.usual_pods, self.python = folder, pods, pods, python
        self.objects: dict[Key, Object] = {}
        self.version = 1
        self.watches: list[tuple[asyncio.Queue[Object], Callable[[Key, Object], bool]]] = []
        self.pods: dict[str, Pod] = {}
        self.faults: list[Object] = []
        self.accounts = Accounts()
        self.until: dict[str, float] = {}  # "away", "denied", "log_away": until when, on the loop's clock
        self.lost: dict[str, asyncio.Event] = {}  # pods of nodes that are not ready, until these have left the cluster
        self.open: set[tuple[asyncio.BaseTransport, bool]] = set()  # with a flag for logs
        self.sticky_s = 0.0
        self.tasks: set[asyncio.Task[Any]] = set()

    def put(self, key: Key, item: Object, event: str) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = item
        if event == "DELETED":
            del self.objects[key]
        for queue, fits in list(self.watches):
            if fits(key, item):
                queue.put_nowait({"type": event, "object": copy.deepcopy(item)})

    def create(self, group: str, version: str, plural: str, namespace: str, item: Object) -> Object:
        meta = item.setdefault("metadata", {})
        if "generateName" in meta and "name" not in meta:
            meta["name"] = meta["generateName"] + "".join(random.choices(string.ascii_lowercase, k=5))
        meta.update(uid=str(uuid.uuid4()), creationTimestamp=now(), generation=1)
        if plural not in CLUSTER_WIDE:
            meta["namespace"] = namespace
        item |= {"apiVersion": f"{group}/{version}" if group else version, "kind": KINDS[group, version][plural]}
        self.put((group, plural, namespace, meta["name"]), item, "ADDED")
        if plural == "jobsets":
            self.start(self.run_jobset(item))
        if plural == "jobs":
            self.start(self.run_job(item))
        return item

    def find_secret(self, namespace: str, name: str) -> Object:
        return self.objects["", "secrets", namespace, name]

    def make_pod(self, prefix: str) -> Pod:
        name = f"{prefix}-" + "".join(random.choices(string.ascii_lowercase, k=5))
        return Pod(name, self.folder / f"{name}.jsonl")

    def start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def take_fault(self, item: Object, *kinds: str) -> Object | None:
        for fault in self.faults:
            if fault["kind"] in kinds and fault.get("of", "") in json.dumps(item):
                self.faults.remove(fault)
                return fault
        return None

    # ------------------------------------------------------------ the controllers of a cluster

    async def run_jobset(self, jobset: Object) -> None:
        namespace, name = jobset["metadata"]["namespace"], jobset["metadata"]["name"]
        (spec,) = jobset["spec"]["replicatedJobs"]
        slices, workers = int(spec.get("replicas", 1)), int(spec["template"]["spec"]["completions"])
        template = spec["template"]["spec"]["template"]
        container = template["spec"]["containers"][0]
        owner = {"apiVersion": jobset["apiVersion"], "kind": "JobSet", "name": name, "uid": jobset["metadata"]["uid"]}
        pods_spec = {"containers": [{"name": container["name"], "resources": container.get("resources", {})}]}
        workload = self.create(
            "kueue.x-k8s.io", "v1beta2", "workloads", namespace,
            {
                "metadata": {"name": f"jobset-{name}-{owner['uid'][:5]}", "ownerReferences": [owner]},
                "spec": {
                    "podSets": [{"name": spec["name"], "count": slices * workers, "template": {"spec": pods_spec}}]
                },
                "status": {"conditions": []},
            },
        )  # fmt: skip
        if self.take_fault(jobset, "never_scheduled"):
            workload["status"]["conditions"] = [
                condition("QuotaReserved", "Pending", "couldn't assign flavors: insufficient unused quota")
                | {"status": "False"}
            ]
            self.put(("kueue.x-k8s.io", "workloads", namespace, workload["metadata"]["name"]), workload, "MODIFIED")
            return
        workload["status"] = {
            "conditions": [condition("Admitted", "Admitted", "The workload is admitted")],
            "admission": {
                "clusterQueue": "cluster-queue",
                "podSetAssignments": [{"name": spec["name"], "count": slices * workers}],
            },
        }
        places = [(index, worker) for index in range(slices) for worker in range(workers)][: self.most_pods]
        pull = self.take_fault(jobset, "pull_error") is not None
        fault = self.take_fault(jobset, *ENDINGS, "node_gone", "node_not_ready", "kueue_evicted")
        codes = await asyncio.gather(
            *(
                self.run_pod(jobset, template, container, spec["name"], place, pull=pull, fault=fault)
                for place in places
            )
        )
        key: Key = ("jobset.x-k8s.io", "jobsets", namespace, name)
        gone = self.objects.get(key) is not jobset or "deletionTimestamp" in jobset["metadata"]
        if gone or (fault and fault["kind"] == "kueue_evicted"):
            return
        done = not any(codes)
        end = (
            condition("Completed", "AllJobsCompleted", "jobset completed successfully")
            if done
            else condition("Failed", "FailedJobs", "jobset failed due to one or more job failures")
        )
        jobset["status"] = {"conditions": [end], "terminalState": end["type"], "restarts": 0}
        self.put(key, jobset, "MODIFIED")
        if "ttlSecondsAfterFinished" in jobset["spec"]:
            await asyncio.sleep(jobset["spec"]["ttlSecondsAfterFinished"])
            if self.objects.get(key) is jobset and "deletionTimestamp" not in jobset["metadata"]:
                await self.delete_in_foreground(key, jobset, 0.0)

    async def run_pod(
        self, jobset: Object, template: Object, container: Object, job: str, place: tuple[int, int], *,
        pull: bool, fault: Object | None,
    ) -> int:  # fmt: skip
        namespace, name = jobset["metadata"]["namespace"], jobset["metadata"]["name"]
        index, worker = place
        pod = self.make_pod(f"{name}-{job}-{index}-{worker}")
        node = f"node-{index}-{worker}"
        if ("", "nodes", "", node) not in self.objects:
            ready = {"conditions": [condition("Ready", "KubeletReady", "kubelet is posting ready status")]}
            self.create("", "v1", "nodes", "", {"metadata": {"name": node}, "status": ready})
        labels = template.get("metadata", {}).get("labels", {}) | {
            "jobset.sigs.k8s.io/jobset-name": name,
            "jobset.sigs.k8s.io/replicatedjob-name": job,
            "jobset.sigs.k8s.io/job-index": str(index),
            "batch.kubernetes.io/job-completion-index": str(worker),
        }
        image = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}

        def show(phase: str, state: Object, **more: Any) -> None:
            item["status"] = {"phase": phase, "containerStatuses": [image | {"ready": False, "state": state}]} | more
            if self.objects.get(key) is item:
                self.put(key, item, "MODIFIED")

        spec = {"nodeName": node, "containers": [{"name": container["name"], "image": container["image"]}]}
        item = self.create(
            "", "v1", "pods", namespace, {"metadata": {"name": pod.name, "labels": labels}, "spec": spec}
        )
        key: Key = ("", "pods", namespace, pod.name)
        if pull:
            waiting = {"reason": "ErrImagePull", "message": f"failed to pull and unpack image {container['image']!r}"}
            show("Pending", {"waiting": waiting})
            await pod.over.wait()
            return 1
        self.pods[pod.name] = pod
        environ = {k: v for k, v in os.environ.items() if k != "KUBECONFIG"} | {
            "JAX_PLATFORMS": "cpu", "JOB_COMPLETION_INDEX": str(worker), "PATH": f"{self.python}:{os.environ['PATH']}",
        }  # fmt: skip
        own_variables: dict[str, str] = {}
        for entry in container.get("env") or []:
            named = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
            value = labels[named.split("'")[1]] if named else str(entry.get("value", ""))
            own_variables[entry["name"]] = expand(value, own_variables)
        environ |= own_variables
        # the pods of all stand-ins share this machine's folders, and each unpacks its config to the same path
        own = str(self.folder / "files" / pod.name)
        words = [*container["command"], *container.get("args", [])]
        process = pod.process = await asyncio.create_subprocess_exec(
            *(expand(word, own_variables).replace("/tmp/maxview", own) for word in words), env=environ,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True, limit=1 << 28,
        )  # fmt: skip
        (self.folder / f"{pod.name}.pid").write_text(str(process.pid))
        if self.objects.get(key) is not item:  # deleted before its pods started
            pod.end(signal.SIGKILL)
        started = now()
        show("Running", {"running": {"startedAt": started}})
        happened = False
        assert process.stdout is not None
        while line := await process.stdout.readline():
            await pod.add(line)
            if fault and not happened and fault["when"].encode() in line:
                happened = True
                self.start(self.strike(fault, pod, key, item, node))
        code = await process.wait()
        code = 128 - code if code < 0 else code
        if pod.name in self.lost:
            await self.lost[pod.name].wait()
            return code
        terminated = {"exitCode": code, "startedAt": started, "finishedAt": now()}
        why, more = tell_end(fault if happened else None, code)
        show("Failed" if code else "Succeeded", {"terminated": terminated | {"reason": why}}, **more)
        pod.over.set()
        async with pod.grew:
            pod.grew.notify_all()
        return code

    async def run_job(self, job: Object) -> None:
        """A Job of one pod without retries, as Prefect's workers create them."""
        namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
        template = job["spec"]["template"]
        container = template["spec"]["containers"][0]
        fault = self.take_fault(job, *ENDINGS, "node_gone")
        key: Key = ("batch", "jobs", namespace, name)

        def show(**status: Any) -> None:
            job["status"] = {"startTime": job["metadata"]["creationTimestamp"]} | status
            if self.objects.get(key) is job:
                self.put(key, job, "MODIFIED")

        pod, node = self.make_pod(name), f"node-of-{name}"
        self.create("", "v1", "nodes", "", {"metadata": {"name": node}})
        labels = template["metadata"].get("labels", {}) | {"batch.kubernetes.io/job-name": name, "job-name": name}
        spec = template["spec"] | {"nodeName": node}
        shown = {"metadata": {"name": pod.name, "labels": labels}, "spec": spec, "status": {"phase": "Pending"}}
        item = self.create("", "v1", "pods", namespace, shown)
        self.pods[pod.name] = pod
        values = {entry["name"]: str(entry.get("value", "")) for entry in container.get("env") or []}
        for entry in container.get("env") or []:
            if "valueFrom" in entry:
                wanted = entry["valueFrom"]["secretKeyRef"]
                secret = self.find_secret(namespace, wanted["name"])
                values[entry["name"]] = base64.b64decode(secret["data"][wanted["key"]]).decode()
        process = pod.process = await asyncio.create_subprocess_exec(
            *(container.get("command") or []), *(container.get("args") or []),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True, limit=1 << 28,
            env={"PATH": f"{self.python}:{os.environ['PATH']}", "HOME": str(self.folder)} | values,
        )  # fmt: skip
        (self.folder / f"{pod.name}.pid").write_text(str(process.pid))
        image = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
        running = {"running": {"startedAt": now()}}
        item["status"] = {"phase": "Running", "containerStatuses": [image | {"ready": True, "state": running}]}
        self.put(("", "pods", namespace, pod.name), item, "MODIFIED")
        show(active=1, ready=1)
        assert process.stdout is not None
        happened = False

        async def end_with_the_first() -> None:
            """The end of a container's first process ends the others."""
            await process.wait()
            pod.end(signal.SIGKILL)

        self.start(end_with_the_first())
        while line := await process.stdout.readline():
            await pod.add(line)
            if fault and not happened and fault["when"].encode() in line:
                happened = True
                self.start(self.strike(fault, pod, ("", "pods", namespace, pod.name), item, node))
        code = await process.wait()
        pod.over.set()
        (self.folder / f"{pod.name}.log").write_bytes(b"".join(line for _, line in pod.lines))
        why, more = tell_end(fault if happened else None, code)
        terminated = {"terminated": {"exitCode": 128 - code if code < 0 else code, "reason": why}}
        phase = "Failed" if code else "Succeeded"
        item["status"] = {"phase": phase, "containerStatuses": [image | {"ready": False, "state": terminated}]} | more
        if self.objects.get(("", "pods", namespace, pod.name)) is item:
            self.put(("", "pods", namespace, pod.name), item, "MODIFIED")
            if happened and fault and fault["kind"] == "preempted":  # the scheduler deletes it
                self.put(("", "pods", namespace, pod.name), item, "DELETED")
        if code:
            show(failed=1, conditions=[condition("Failed", "BackoffLimitExceeded", "Job has reached its limit")])
        else:
            show(succeeded=1, completionTime=now(), conditions=[condition("Complete", "", "")])

    async def strike(self, fault: Object, pod: Pod, key: Key, item: Object, node: str) -> None:
        """Remove a pod's machine."""
        if fault["kind"] in ("oom_killed", "node_gone"):
            if fault["kind"] == "node_gone":
                self.put(key, item, "DELETED")
                self.pods.pop(pod.name, None)
                gone: Key = ("", "nodes", "", node)
                if gone in self.objects:
                    self.put(gone, self.objects[gone], "DELETED")
            pod.end(signal.SIGKILL)
            return
        if fault["kind"] == "node_not_ready":
            await self.lose(pod, key, item, node, fault["evict_s"])
            return
        grace_s = float(fault.get("grace_s", 30))
        if fault["kind"] == "kueue_evicted":
            name = item["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"]
            await asyncio.gather(*(self.end_pod(*of_it, grace_s) for of_it in self.of_jobset("pods", name)))
            for other, workload in self.of_jobset("workloads", name):
                message = "Preempted to accommodate a workload (UID: 1) due to prioritization in the ClusterQueue"
                workload["status"] = {"conditions": [condition("Evicted", "Preempted", message)]}
                self.put(other, workload, "MODIFIED")
            return
        if grace_s:
            pod.end(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(pod.over.wait(), grace_s)
        pod.end(signal.SIGKILL)

    async def lose(self, pod: Pod, key: Key, item: Object, node: str, evict_s: float) -> None:
        """Let a node stop reporting; the node controller marks it, and later evicts its pod, which cannot end."""
        back = self.lost[pod.name] = asyncio.Event()
        pod.end(signal.SIGKILL)
        machine: Key = ("", "nodes", "", node)
        silent = condition("Ready", "NodeStatusUnknown", "Kubelet stopped posting node status.")
        self.objects[machine]["status"]["conditions"] = [silent | {"status": "Unknown"}]
        self.put(machine, self.objects[machine], "MODIFIED")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(back.wait(), evict_s)
        if not back.is_set() and self.objects.get(key) is item:
            message = "Taint manager: deleting due to NoExecute taint"
            item["status"]["conditions"] = [condition("DisruptionTarget", "DeletionByTaintManager", message)]
            self.put(key, item, "MODIFIED")
            self.evict(key, item)
        await back.wait()
        if machine in self.objects:
            self.put(machine, self.objects[machine], "DELETED")

    def evict(self, key: Key, item: Object) -> None:
        """Delete a pod as the taint manager does."""
        item["metadata"] |= {"deletionTimestamp": now(), "deletionGracePeriodSeconds": 30}
        self.put(key, item, "MODIFIED")

    def of_jobset(self, plural: str, name: str) -> list[tuple[Key, Object]]:
        """The pods or the workload of a JobSet."""

        def owner(meta: Object) -> str | None:
            if plural == "pods":
                return meta["labels"].get("jobset.sigs.k8s.io/jobset-name")
            return meta["ownerReferences"][0]["name"]

        return [
            (key, item) for key, item in self.objects.items() if key[1] == plural and owner(item["metadata"]) == name
        ]

    async def end_pod(self, key: Key, item: Object, grace_s: float) -> None:
        """End a pod as the kubelet does, then forget it."""
        if key[3] in self.lost:  # no kubelet confirms its end
            await self.lost[key[3]].wait()
        pod = self.pods.get(key[3])
        if pod is not None and key[3] not in self.lost:
            pod.end(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(pod.over.wait(), grace_s)
            pod.end(signal.SIGKILL)
            await asyncio.sleep(0.5)  # the kubelet reports the end of the container with this delay
        if self.objects.get(key) is item:
            self.put(key, item, "DELETED")

    async def delete_jobset(self, name: str, grace_s: float) -> None:
        """End the pods of a deleted JobSet as the kubelet does, then forget them."""
        for key, workload in self.of_jobset("workloads", name):
            self.put(key, workload, "DELETED")
        await asyncio.gather(*(self.end_pod(*of_it, grace_s) for of_it in self.of_jobset("pods", name)))
        await asyncio.sleep(self.sticky_s)

    async def delete_in_foreground(self, key: Key, item: Object, grace_s: float) -> None:
        """Keep a JobSet until its pods are gone."""
        item["metadata"] |= {"deletionTimestamp": now(), "finalizers": ["foregroundDeletion"]}
        self.put(key, item, "MODIFIED")
        await self.delete_jobset(key[3], grace_s)
        self.put(key, item, "DELETED")

    # ------------------------------------------------------------ requests

    async def answer(self, request: web.Request) -> web.StreamResponse:
        with (self.folder / "requests.txt").open("a") as file:
            file.write(f"{request.method} {request.path_qs}\n")
        if request.path == "/_faults":
            self.order(await request.json())
            return web.json_response({})
        transport = request.transport
        assert transport is not None
        if self.is_still("away"):
            transport.abort()
            return web.Response()
        self.open.add(entry := (transport, request.path.endswith("/log")))
        try:
            return await self.refuse(request) or await self.serve(request)
        finally:
            self.open.discard(entry)

    def is_still(self, what: str) -> bool:
        return asyncio.get_running_loop().time() < self.until.get(what, 0.0)

    def order(self, faults: list[Object]) -> None:
        """Set the faults of tests; some happen at once."""
        clock = asyncio.get_running_loop().time()
        self.faults, self.until, self.sticky_s, self.most_pods = [], {}, 0.0, self.usual_pods
        if not faults:
            self.accounts = Accounts()
            for back in self.lost.values():
                back.set()
        for fault in faults:
            kind = fault["kind"]
            if kind == "restart":
                self.until = {"away": clock + fault["away_s"], "denied": clock + fault["away_s"] + fault["denied_s"]}
            elif kind == "log_away":
                self.until["log_away"] = clock + fault["seconds"]
            elif kind == "rotate_log":
                for pod in self.pods.values():
                    pod.dropped = len(pod.lines)
            elif kind == "expired":
                self.accounts.rules.pop(fault["token"], None)
            elif kind == "rules":
                self.accounts.rules[fault["token"]] = fault["rules"]
            elif kind == "pods":
                self.most_pods = fault["number"]
            elif kind == "sticky":
                self.sticky_s = fault["seconds"]
            else:
                self.faults.append(fault)
            for transport, is_log in list(self.open):
                if kind == "restart" or (kind == "log_away" and is_log):
                    transport.abort()

    async def refuse(self, request: web.Request) -> web.Response | None:
        """The answer to a request that the server does not serve now, or denies to this account."""
        for fault in self.faults:
            if fault["kind"] in ("error", "slow") and fault["path"] in request.path_qs and fault["times"] > 0:
                fault["times"] -= 1
                if fault["kind"] == "error":
                    message = fault.get("message", "the stand-in was told to fail")
                    return failure(fault["code"], "InternalError", message, wait_s=fault.get("retry_after"))
                await asyncio.sleep(fault["seconds"])
        token = self.accounts.find(request.headers)
        if token is None:
            return failure(401, "Unauthorized", "Unauthorized")
        verb, group, resource = verb_of(request)
        denied = self.is_still("denied")
        if denied or (resource and not self.accounts.allows(token, verb, group, resource)):
            name = "runner" if token == RUNNER else "somebody"
            loading = ": RBAC: roles are not loaded" if denied else ""
            message = (
                f'{resource}{"." * bool(group)}{group} is forbidden: User "{name}" cannot {verb} resource{loading}'
            )
            return failure(403, "Forbidden", message)
        lost = resource == "pods/log" and request.path.split("/")[-2] in self.lost
        if lost or (self.is_still("log_away") and resource == "pods/log"):
            return failure(502, "BadGateway", "dial tcp 10.0.0.7:10250: connect: connection refused")
        return None

    async def serve(self, request: web.Request) -> web.StreamResponse:
        words = [word for word in request.path.split("/") if word]
        if words == ["version"]:
            return web.json_response({"major": "1", "minor": "32", "gitVersion": "v1.32.4"})
        if words in (["readyz"], ["healthz"], ["livez"]):
            return web.Response(text="ok")
        if words == ["api"]:
            return web.json_response({"kind": "APIVersions", "versions": ["v1"]})
        if words == ["apis"]:
            return web.json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": [
                {"name": group, "versions": [{"groupVersion": f"{group}/{version}", "version": version}],
                 "preferredVersion": {"groupVersion": f"{group}/{version}", "version": version}}
                for group, version in KINDS if group
            ]})  # fmt: skip
        if request.path == "/openapi/v3":
            return web.json_response({"paths": {}})
        if request.path == "/openapi/v2":  # an empty one is valid, and unknown kinds are not validated
            kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
            return web.Response(body=b"", headers={"Content-Type": kind})
        words += [""] * (words[0] == "apis" and len(words) == 2)
        group, version, rest = ("", words[1], words[2:]) if words[0] == "api" else (words[1], words[2], words[3:])
        kinds = KINDS.get((group, version))
        if not version:
            versions = [known for owner, known in KINDS if owner == group]
            if not versions:
                return no_such_path()
            shown = [{"groupVersion": f"{group}/{known}", "version": known} for known in versions]
            return web.json_response({"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": shown})
        if kinds is None or (version == "v1beta1" and any(fault["kind"] == "no_v1beta1" for fault in self.faults)):
            return no_such_path()
        if not rest:
            verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
            return web.json_response({"kind": "APIResourceList", "apiVersion": "v1", "resources": [
                {"name": plural, "singularName": kind.lower(), "namespaced": plural not in CLUSTER_WIDE, "kind": kind,
                 "verbs": verbs} for plural, kind in kinds.items()
            ], "groupVersion": f"{group}/{version}" if group else version})  # fmt: skip
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name, sub = rest[0], (rest[1] if len(rest) > 1 else ""), (rest[2] if len(rest) > 2 else "")
        if plural not in kinds:
            return no_such_path()
        if plural == "selfsubjectaccessreviews":
            return await self.review(request)
        key: Key = (group, plural, namespace, name)
        if request.method == "POST":
            item = await request.json()
            refused = check_jobset(item) if plural == "jobsets" else None
            webhook = self.take_fault(item, "refused") if plural == "jobsets" else None
            if webhook is not None:
                refused = webhook["code"], webhook["message"]
            if refused is not None:
                return failure(refused[0], "Invalid", refused[1])
            if plural == "jobsets":
                fill_in(item)
            if plural == "roles" and (more := self.accounts.exceeds(request.headers, item["rules"])):
                return failure(403, "Forbidden", f"attempting to grant RBAC permissions not currently held: {more}")
            if (group, plural, namespace, item["metadata"].get("name", "")) in self.objects:
                return failure(409, "AlreadyExists", f'{plural} "{item["metadata"]["name"]}" already exists')
            if request.query.get("dryRun") == "All":
                return web.json_response(item, status=201)
            return web.json_response(self.create(group, version, plural, namespace, item), status=201)
        if not name:
            return await self.list(request, group, version, plural, namespace)
        if key not in self.objects:
            reported = f'{plural}{"." + group if group else ""} "{name}" not found'
            return failure(404, "NotFound", reported, name=name, group=group, kind=plural)
        if sub == "log":
            return await self.log(request, name)
        item = self.objects[key]
        if request.method == "PUT":
            item = await request.json()
            self.put(key, item, "MODIFIED")
        elif request.method == "PATCH":
            merge(item, json.loads(await request.text()))
            self.put(key, item, "MODIFIED")
        elif request.method == "DELETE":
            if plural == "jobsets":
                spec = item["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
                grace_s = float(spec.get("terminationGracePeriodSeconds", 30))
                text = await request.text()
                if text and json.loads(text).get("propagationPolicy") == "Foreground":
                    if "deletionTimestamp" not in item["metadata"]:
                        self.start(self.delete_in_foreground(key, item, grace_s))
                        await asyncio.sleep(0)
                    return web.json_response(item)
                self.start(self.delete_jobset(name, grace_s))
            self.put(key, item, "DELETED")
            details = {"name": name, "uid": item["metadata"]["uid"]}
            return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Success", "details": details})
        return web.json_response(item)

    async def review(self, request: web.Request) -> web.Response:
        """Whether an account has a right: SelfSubjectAccessReview."""
        body = await request.json()
        asked = body["spec"]["resourceAttributes"]
        token = self.accounts.find(request.headers) or ""
        resource = asked["resource"] + (f"/{asked['subresource']}" if asked.get("subresource") else "")
        allowed = self.accounts.allows(token, asked["verb"], asked.get("group", ""), resource)
        return web.json_response(body | {"status": {"allowed": allowed}}, status=201)

    async def list(
        self, request: web.Request, group: str, version: str, plural: str, namespace: str
    ) -> web.StreamResponse:
        query = request.query
        chosen = selector(query)

        def fits(key: Key, item: Object) -> bool:
            return key[:2] == (group, plural) and namespace in ("", key[2]) and chosen(item)

        if query.get("watch") not in ("true", "1"):
            shown = {"apiVersion": f"{group}/{version}" if group else version}
            items = [item | shown for key, item in self.objects.items() if fits(key, item)]
            return web.json_response({
                "kind": KINDS[group, version][plural] + "List", "items": items,
                "apiVersion": f"{group}/{version}" if group else version,
                "metadata": {"resourceVersion": str(self.version)},
            })  # fmt: skip
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        since, queue = int(query.get("resourceVersion") or 0), asyncio.Queue[Object]()
        for key, item in list(self.objects.items()):
            if fits(key, item) and int(item["metadata"]["resourceVersion"]) > since:
                queue.put_nowait({"type": "ADDED" if since == 0 else "MODIFIED", "object": item})
        self.watches.append((queue, fits))
        try:
            while True:
                event = await asyncio.wait_for(queue.get(), float(query.get("timeoutSeconds") or 3600))
                await response.write(json.dumps(event).encode() + b"\n")
        except (TimeoutError, ConnectionError):
            pass
        finally:
            self.watches = [watch for watch in self.watches if watch[0] is not queue]
        return response

    async def log(self, request: web.Request, name: str) -> web.StreamResponse:
        pod, query = self.pods[name], request.query
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        cut = next((fault for fault in self.faults if fault["kind"] == "cut_log" and fault["times"] > 0), None)
        sent = 0
        with contextlib.suppress(ConnectionError):  # the reader may be killed
            async for line in self.lines(pod, query):
                if cut is not None and sent + len(line) > cut["bytes"]:
                    cut["times"] -= 1
                    await response.write(line[: max(0, cut["bytes"] - sent)])
                    assert request.transport is not None
                    request.transport.abort()
                    return response
                await response.write(line)
                sent += len(line)
        return response

    async def lines(self, pod: Pod, query: Any) -> AsyncIterator[bytes]:
        since = query.get("sinceTime", "")[:19]  # whole seconds, like in the API server
        begin = next((n for n, (time, _) in enumerate(pod.lines) if time[:19] >= since), len(pod.lines))
        begin = max(begin, pod.dropped)
        if "tailLines" in query:
            begin = max(begin, len(pod.lines) - int(query["tailLines"]))
        while True:
            for time, line in pod.lines[begin:]:
                yield (time.encode() + b" " if query.get("timestamps") == "true" else b"") + line
                begin += 1
            if query.get("follow") != "true":
                return
            async with pod.grew:
                if begin == len(pod.lines):
                    if pod.over.is_set():
                        return
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(pod.grew.wait(), 1.0)


async def serve(arguments: argparse.Namespace) -> None:
    cluster = Cluster(arguments.folder, arguments.pods, arguments.python)
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{tail:.*}", cluster.answer)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    cluster.create("", "v1", "namespaces", "", {"metadata": {"name": "default"}})
    for group, version, plural, item in queue_objects():
        cluster.create(group, version, plural, "default" if plural == "localqueues" else "", item)
    partial = arguments.port_file.with_suffix(".tmp")
    partial.write_text(str(port))
    partial.rename(arguments.port_file)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    for pod in cluster.pods.values():
        pod.end(signal.SIGKILL)
    await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port_file", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pods", type=int, default=1)
    parser.add_argument("--python", default="")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
