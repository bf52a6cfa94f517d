"""Refuses a JobSet as a real API server and JobSet's webhook do, and fills in their defaults."""

import re
from typing import Any

from kubernetes import client

type Object = dict[str, Any]

# the fields of a JobSet that are not core Kubernetes: sigs.k8s.io/jobset, v1alpha2; None: anything
JOBSET: Object = {
    "suspend": None, "network": None, "successPolicy": None, "failurePolicy": None, "startupPolicy": None,
    "managedBy": None, "coordinator": None, "ttlSecondsAfterFinished": None, "volumeClaimPolicies": None,
    "replicatedJobs": None,
}  # fmt: skip
REPLICATED = {"name", "groupName", "replicas", "template", "dependsOn"}
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
MAX_POD_NAME_LENGTH = 63  # characters of a pod's name, which is its hostname


def find_unknown(value: Any, kind: str, path: str) -> list[str]:
    """The fields of a core Kubernetes object that its schema lacks."""
    listed = re.fullmatch(r"list\[(.+)\]", kind, re.IGNORECASE)
    if listed:
        return [name for n, item in enumerate(value or []) for name in find_unknown(item, listed[1], f"{path}[{n}]")]
    model = getattr(client, kind, None)
    if not hasattr(model, "attribute_map") or not isinstance(value, dict):
        return []
    kinds = {shown: model.openapi_types[own] for own, shown in model.attribute_map.items()}
    found = [f"{path}.{key}" for key in value if key not in kinds]
    return found + [
        name for key, item in value.items() if key in kinds for name in find_unknown(item, kinds[key], f"{path}.{key}")
    ]


def check_jobset(item: Object) -> tuple[int, str] | None:
    """The code and message of a refused JobSet; None if it is accepted."""
    spec, name = item.get("spec", {}), item["metadata"]["name"]
    unknown = [f"{key}" for key in item if key not in ("apiVersion", "kind", "metadata", "spec", "status")]
    unknown += find_unknown(item["metadata"], "V1ObjectMeta", "metadata")
    unknown += [f"spec.{key}" for key in spec if key not in JOBSET]
    for number, job in enumerate(spec.get("replicatedJobs", [])):
        path = f"spec.replicatedJobs[{number}]"
        unknown += [f"{path}.{key}" for key in job if key not in REPLICATED]
        unknown += find_unknown(job.get("template", {}), "V1JobTemplateSpec", f"{path}.template")
    if unknown:
        return 400, "strict decoding error: " + ", ".join(f'unknown field "{field}"' for field in unknown)
    if not NAME.fullmatch(name) or len(name) > 253:
        return 422, f'JobSet.jobset.x-k8s.io "{name}" is invalid: metadata.name: Invalid value: "{name}"'
    for job in spec["replicatedJobs"]:
        pods = job["template"]["spec"].get("completions", 1)
        longest = f"{name}-{job['name']}-{job.get('replicas', 1) - 1}-{pods - 1}-abcde"
        if len(longest) > MAX_POD_NAME_LENGTH:
            return 403, f'admission webhook "vjobset.kb.io" denied the request: "{longest}": must be no more than 63'
    return None


def fill_in(item: Object) -> None:
    """Set the defaults that a JobSet gets."""
    spec = item["spec"]
    spec.setdefault("suspend", False)
    spec.setdefault("network", {}).setdefault("enableDNSHostnames", True)
    spec.setdefault("successPolicy", {}).setdefault("operator", "All")
    spec.setdefault("startupPolicy", {}).setdefault("startupPolicyOrder", "AnyOrder")
    for job in spec["replicatedJobs"]:
        job.setdefault("replicas", 1)
        inner = job["template"]["spec"]
        inner.setdefault("completionMode", "Indexed")
        inner["template"]["spec"].setdefault("restartPolicy", "OnFailure")
