"""Speaks to a cluster's API server: JSON objects in and out, log streams as bytes, and errors that say what to type."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import httpx
import urllib3
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, kube_config, load_incluster_config, load_kube_config
from yaml import YAMLError  # type: ignore[import-untyped]  # the reader that kubernetes has

from configs.launch import Xpk
from tasks.launch.errors import LaunchError

TIMEOUT_S = 20.0
# a stream that is silent for as long is opened again: a connection that broke without a word looks the same
SILENCE_S = 60.0

type Object = dict[str, Any]


class NotAnswering(LaunchError):
    """The API server does not answer, or not with what it should: it may be well again in a moment."""


class KubeApi:
    """One namespace of one cluster."""

    def __init__(self, configuration: Configuration, namespace: str) -> None:
        self._configuration = configuration
        self._namespace = namespace
        self._http = httpx.Client(
            base_url=configuration.host, verify=_tls(configuration), timeout=TIMEOUT_S, trust_env=False
        )

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def jobset(self, name: str) -> Object | None:
        """A JobSet, or None if there is none of this name."""
        return self._read(f"{self._jobsets}/{name}")

    def jobsets(self) -> list[Object]:
        """All JobSets of the namespace."""
        return list((self._read(self._jobsets) or {}).get("items", []))

    def pods(self, jobset: str) -> list[Object]:
        """The pods of a JobSet."""
        found = self._read(self._pods, labelSelector=f"jobset.sigs.k8s.io/jobset-name={jobset}")
        return list((found or {}).get("items", []))

    def workloads(self, jobset: str) -> list[Object]:
        """Kueue's workloads for a JobSet; none where there is no Kueue."""
        found = self._read(f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{self._namespace}/workloads")
        return [
            item
            for item in (found or {}).get("items", [])
            if any(owner.get("name") == jobset for owner in item["metadata"].get("ownerReferences", []))
        ]

    def node_exists(self, name: str) -> bool:
        """Whether a node is still part of the cluster."""
        return self._read(f"/api/v1/nodes/{name}") is not None

    def delete_jobset(self, name: str) -> None:
        """Delete a JobSet with all that belongs to it; its pods get their grace. Nothing if there is none."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
        self._request("DELETE", f"{self._jobsets}/{name}", json=body)

    @contextmanager
    def log(self, pod: str, container: str, **query: str) -> Iterator[Iterator[bytes]]:
        """A pod's log in pieces. Raises LaunchError, and NotAnswering, also in the middle of it."""
        timeout = httpx.Timeout(TIMEOUT_S, read=SILENCE_S)
        params = {"container": container, **query}
        with (
            _translated(self._configuration.host),
            self._http.stream(
                "GET", f"{self._pods}/{pod}/log", params=params, headers=self._headers(), timeout=timeout
            ) as response,
        ):
            if response.status_code != httpx.codes.OK:
                response.read()
                self._check_rights(response)
                raise NotAnswering(f"the log of {pod}: {_reason(response)}")
            yield response.iter_bytes()

    @property
    def _jobsets(self) -> str:
        return f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{self._namespace}/jobsets"

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self._namespace}/pods"

    def _headers(self) -> dict[str, str]:
        token = self._configuration.get_api_key_with_prefix("authorization")  # renewed when it has run out
        return {"Authorization": token} if token else {}

    def _read(self, path: str, **query: str) -> Object | None:
        return self._request("GET", path, params=query)

    def _request(self, method: str, path: str, **more: Any) -> Object | None:
        """The object in the answer; None if there is none. Raises LaunchError, NotAnswering."""
        with _translated(self._configuration.host):
            response = self._http.request(method, path, headers=self._headers(), **more)
        if response.status_code == httpx.codes.NOT_FOUND:
            return None
        self._check_rights(response)
        if not response.is_success:
            raise NotAnswering(f"{self._configuration.host}: {_reason(response)}")
        try:
            return dict(response.json())
        except ValueError as error:
            raise NotAnswering(f"{self._configuration.host}: its answer is no JSON ({error})") from error

    def _check_rights(self, response: httpx.Response) -> None:
        if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise LaunchError(
                f"{self._configuration.host} refuses: {_reason(response)}; log in with `gcloud auth login`, and ask "
                f"for the rights to use JobSets, pods and their logs in the namespace {self._namespace}"
            )


@contextmanager
def _translated(host: str) -> Iterator[None]:
    try:
        yield
    except (httpx.TransportError, urllib3.exceptions.HTTPError) as error:
        raise NotAnswering(f"{host} does not answer: {type(error).__name__}: {error}") from error


def _reason(response: httpx.Response) -> str:
    try:
        message = str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        message = response.text[:200]
    return f"{response.status_code} {message}"


def _tls(configuration: Configuration) -> ssl.SSLContext | bool:
    if not configuration.host.startswith("https:"):
        return True
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
    if not configuration.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
    return context


def choose_context(settings: Xpk) -> str | None:
    """The kubeconfig's context for the target's cluster; None where a pod's own credentials serve. Raises LaunchError.

    The current context is never taken for it: a run must not land in whatever cluster somebody looked at last.
    """
    if settings.context is not None:
        return settings.context
    known = _contexts()
    region = settings.zone.rpartition("-")[0]
    names = [f"gke_{settings.project}_{place}_{settings.cluster}" for place in (settings.zone, region)]
    for name in known:
        if name in names:
            return name
    try:
        load_incluster_config(Configuration())  # type: ignore[no-untyped-call]
    except ConfigException as error:
        holds = f"holds the contexts {', '.join(known)}, and none of" if known else "knows no"
        raise LaunchError(
            f"the kubeconfig {holds} cluster {settings.cluster}: `gcloud container clusters get-credentials "
            f"{settings.cluster} --location {region} --project {settings.project}`, or set `context` of the target"
            + (" to one of them" if known else "")
        ) from error
    return None


def _contexts() -> list[str]:
    """The names of the kubeconfig's contexts, whether or not one of them is the current one. Raises LaunchError."""
    place = str(kube_config.KUBE_CONFIG_DEFAULT_LOCATION)
    try:
        merged = kube_config.KubeConfigMerger(place).config  # type: ignore[no-untyped-call]
        return [str(context["name"]) for context in merged["contexts"]] if merged is not None else []
    except (ConfigException, OSError, YAMLError, AttributeError, LookupError, TypeError) as error:
        raise LaunchError(
            f"the kubeconfig {place} cannot be read: {' '.join(str(error).split())}; mend it, or move it away "
            "and write it anew with `gcloud container clusters get-credentials`"
        ) from error


@lru_cache(maxsize=16)
def connect(context: str | None, namespace: str) -> KubeApi:
    """The API server of a context, or of the cluster that this process runs in. Raises LaunchError."""
    configuration = Configuration()
    try:
        if context is None:
            load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        else:
            load_kube_config(context=context, client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError, YAMLError) as error:
        raise LaunchError(
            f"the kubeconfig cannot be used for {context or 'this pod'}: {error}; `kubectl config get-contexts` shows "
            "what it holds, `gcloud container clusters get-credentials` adds a cluster"
        ) from error
    return KubeApi(configuration, namespace)
