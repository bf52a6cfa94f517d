"""A client of a cluster's API server: returns JSON objects and log streams; distinguishes outages from denials."""

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import httpx
import urllib3
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, kube_config, load_incluster_config, load_kube_config
from yaml import YAMLError  # type: ignore[import-untyped]  # kubernetes depends on it

from configs.backends.cluster import ClusterSettings
from tasks.launch.backend import LaunchError, NotSubmitted
from tasks.launch.cluster import rights
from tasks.launch.cluster.job_view import find_node_loss
from tasks.launch.cluster.rights import Right
from tasks.launch.patience import NotAnswering
from tasks.records.plan import JobCause

TIMEOUT_S = 20.0  # per request, except for the data of a log
# A stream without data for this time is reopened, because its connection may be broken.
SILENCE_S = 60.0
MAX_WAIT_S = 60.0  # limit of a server's Retry-After
STARTING_S = 60.0  # time after an outage in which the server may deny rights, because it still loads its roles
KUEUE_VERSIONS = ("v1beta2", "v1beta1")
INVALID = (httpx.codes.BAD_REQUEST, httpx.codes.CONFLICT, httpx.codes.UNPROCESSABLE_ENTITY)
DENIALS = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)

type Object = dict[str, Any]


class Refused(LaunchError):
    """The API server denies this account a right."""


class Invalid(NotSubmitted):
    """The API server refuses an object, for example by a webhook or because of a quota; it will refuse it again."""


class NotServed(LaunchError):
    """The API server does not serve this kind of object, for example because JobSet is not installed."""


class KubeApi:
    """One namespace of one cluster. `load` reads the address and credentials; called again if these are rejected."""

    def __init__(self, load: Callable[[], Configuration], namespace: str) -> None:
        self._load, self._namespace = load, namespace
        self._configuration = load()
        self._http = self._open()
        self._replaced: list[httpx.Client] = []  # clients with an earlier certificate
        self._granted: set[Right] = set()  # rights that the server has granted before
        self._granted_path: str | None = None  # path of the last granted GET request; None: none yet
        self._away_at = -STARTING_S  # time of the last outage, monotonic seconds
        self._kueue: str | None = None  # version of Kueue's API in the cluster; None: not known yet

    def close(self) -> None:
        """Close the connections to the API server."""
        for http in (self._http, *self._replaced):
            http.close()

    def jobset(self, name: str) -> Object | None:
        """Return the JobSet of this name; None if it does not exist."""
        return self._read(rights.GET_JOBSETS, f"{self._jobsets}/{name}")

    def jobsets(self) -> list[Object]:
        """Return all JobSets of the namespace. Raises LaunchError if the cluster does not serve JobSets."""
        return list((self._read(rights.LIST_JOBSETS, self._jobsets) or {}).get("items", []))

    def pods(self, jobset: str) -> list[Object]:
        """Return the pods of a JobSet."""
        selector = f"jobset.sigs.k8s.io/jobset-name={jobset}"
        found = self._read(rights.LIST_PODS, self._pods, labelSelector=selector)
        return list((found or {}).get("items", []))

    def workloads(self, jobset: str) -> list[Object] | None:
        """Return Kueue's workloads for a JobSet; [] if there is no Kueue, None if this account may not list them."""
        try:
            found = self._read_kueue(rights.LIST_WORKLOADS, f"namespaces/{self._namespace}/workloads")
        except NotServed:
            return []
        except Refused:
            return None
        return [
            item
            for item in (found or {}).get("items", [])
            if any(owner.get("name") == jobset for owner in item["metadata"].get("ownerReferences", []))
        ]

    def versions(self, group: str) -> list[str]:
        """Return the versions of a group of kinds that the cluster serves; [] if it serves none. Raises Refused."""
        try:
            found = self._read(rights.DISCOVER, f"/apis/{group}") or {}
        except NotServed:
            return []
        return [str(item["version"]) for item in found.get("versions", [])]

    def local_queues(self) -> dict[str, Object]:
        """Return Kueue's queues of the namespace by name. Raises Refused, NotServed."""
        items = (self._read_kueue(rights.LIST_QUEUES, f"namespaces/{self._namespace}/localqueues") or {})["items"]
        return {str(item["metadata"]["name"]): item for item in items}

    def cluster_queue(self, name: str) -> Object | None:
        """Return Kueue's ClusterQueue of this name; None if it does not exist. Raises Refused, NotServed."""
        return self._read_kueue(rights.GET_CLUSTER_QUEUES, f"clusterqueues/{name}")

    def flavor(self, name: str) -> Object | None:
        """Return Kueue's ResourceFlavor of this name; None if it does not exist. Raises Refused, NotServed."""
        return self._read_kueue(rights.GET_FLAVORS, f"resourceflavors/{name}")

    def priority_class(self, name: str) -> Object | None:
        """Return the PriorityClass of this name; None if it does not exist. Raises Refused."""
        return self._read(rights.GET_PRIORITIES, f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")

    def lost_node(self, name: str) -> JobCause | None:
        """Return why a node is lost; None if it is not, or if this account may not read nodes."""
        try:
            return find_node_loss(name, self._read(rights.GET_NODES, f"/api/v1/nodes/{name}"))
        except Refused:
            return None

    def create_jobset(self, manifest: Object, *, dry_run: bool) -> None:
        """Create a JobSet, or only let admission judge it. Raises LaunchError with the reason of a refusal."""
        query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        self._request(rights.CREATE_JOBSETS, "POST", self._jobsets, json=manifest, params=query)

    def delete_jobset(self, name: str) -> None:
        """Delete a JobSet and, after the pods' grace period, its pods; does nothing if the JobSet is missing."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
        self._request(rights.DELETE_JOBSETS, "DELETE", f"{self._jobsets}/{name}", json=body)

    def allows(self, right: Right) -> bool:
        """Return whether this account has a right; asks the API server with a SelfSubjectAccessReview."""
        namespace = {} if right.cluster_wide else {"namespace": self._namespace}
        attributes = {"verb": right.verb, "group": right.group, "resource": right.resource}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes | namespace | {"subresource": right.subresource}},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        found = self._request(rights.REVIEW_RIGHTS, "POST", path, json=body) or {}
        return bool(found.get("status", {}).get("allowed"))

    @contextmanager
    def log(self, pod: str, container: str, **query: str) -> Iterator[Iterator[bytes]]:
        """Yield an iterator over a pod's log, in pieces. Raises LaunchError; during iteration, NotAnswering."""
        with _translated(self._configuration.host), self._open_log(pod, container, query) as response:
            if response.status_code != httpx.codes.OK:
                response.read()
                self._check_rights(rights.GET_LOGS, response)
                raise NotAnswering(f"the log of {pod}: {_reason(response)}", _wait_s(response))
            self._granted.add(rights.GET_LOGS)
            yield response.iter_bytes()

    @contextmanager
    def _open_log(self, pod: str, container: str, query: dict[str, str]) -> Iterator[httpx.Response]:
        """Yield the response to a request for a log; retries once if the credentials are rejected."""
        for again in (True, False):
            with self._http.stream(
                "GET",
                f"{self._pods}/{pod}/log",
                params={"container": container, **query},
                headers=self._headers(),
                timeout=httpx.Timeout(TIMEOUT_S, read=SILENCE_S),
            ) as response:
                if response.status_code != httpx.codes.UNAUTHORIZED or not again:
                    yield response
                    return
            self._renew()

    @property
    def _jobsets(self) -> str:
        return f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{self._namespace}/jobsets"

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self._namespace}/pods"

    def _open(self) -> httpx.Client:
        return httpx.Client(
            base_url=self._configuration.host, verify=_tls(self._configuration), timeout=TIMEOUT_S, trust_env=False
        )

    def _renew(self) -> None:
        """Reload the credentials from the kubeconfig, its plugin, or the pod's token. Raises NotAnswering."""
        try:
            self._configuration = self._load()
        except LaunchError as error:
            raise NotAnswering(str(error)) from error
        if self._configuration.cert_file:  # open connections use the old certificate
            self._replaced.append(self._http)
            self._http = self._open()

    def _headers(self) -> dict[str, str]:
        """Return a request's authentication headers; the library renews an expired token. Raises NotAnswering."""
        try:
            found: dict[str, Any] = dict(self._configuration.auth_settings())
        except (ConfigException, OSError) as error:
            raise NotAnswering(f"the credentials for {self._configuration.host} cannot be renewed: {error}") from error
        return {item["key"]: item["value"] for item in found.values() if item["in"] == "header" and item["value"]}

    def _read_kueue(self, right: Right, path: str) -> Object | None:
        """Return an object of Kueue; None if it does not exist. Raises Refused, NotServed without Kueue."""
        for version in (self._kueue,) if self._kueue else KUEUE_VERSIONS:
            try:
                found = self._read(right, f"/apis/kueue.x-k8s.io/{version}/{path}")
            except NotServed:
                self._kueue = None  # an upgrade may remove a version
                continue
            self._kueue = version
            return found
        raise NotServed(f"{self._configuration.host} does not serve {right.kind}")

    def _read(self, right: Right, path: str, **query: str) -> Object | None:
        return self._request(right, "GET", path, params=query)

    def _request(self, right: Right, method: str, path: str, **more: Any) -> Object | None:
        """Return the object in the response; None if the object does not exist. Raises LaunchError, NotAnswering."""
        response = self._send(method, path, **more)
        if response.status_code == httpx.codes.UNAUTHORIZED:
            self._renew()
            response = self._send(method, path, **more)
        if method == "POST" and (response.status_code in INVALID or _is_refusal(response)):
            raise Invalid(f"{self._configuration.host} refuses the job: {_reason(response)}")
        self._check_rights(right, response)
        if response.status_code == httpx.codes.NOT_FOUND and not _names_object(response):
            cure = "its administrator has to install JobSet and Kueue: docs/launching.md"
            why = f"{self._configuration.host} does not serve {right.kind}; {cure}"
            raise NotAnswering(why) if right in self._granted and not right.without else NotServed(why)
        if response.is_success or response.status_code == httpx.codes.NOT_FOUND:
            self._granted.add(right)
            self._granted_path = path if method == "GET" else self._granted_path
        if response.status_code == httpx.codes.NOT_FOUND:
            return None
        if not response.is_success:
            raise NotAnswering(f"{self._configuration.host}: {_reason(response)}", _wait_s(response))
        try:
            return dict(response.json())
        except ValueError as error:
            raise NotAnswering(f"{self._configuration.host}: its answer is no JSON ({error})") from error

    def _send(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            with _translated(self._configuration.host):
                response = self._http.request(method, path, headers=self._headers(), **more)
        except NotAnswering:
            self._away_at = time.monotonic()
            raise
        if response.is_server_error or response.status_code == httpx.codes.TOO_MANY_REQUESTS:
            self._away_at = time.monotonic()
        return response

    def _check_rights(self, right: Right, response: httpx.Response) -> None:
        """If a right is denied, raise NotAnswering if the denial is probably temporary, else Refused.

        Every denial of an optional right (`without`) raises Refused. A server temporarily denies everything while it
        loads its roles after a start, and after a token has expired.
        """
        if response.status_code not in DENIALS:
            return
        host, place = self._configuration.host, "" if right.cluster_wide else f" in the namespace {self._namespace}"
        temporary = right in self._granted or (self._granted_path is not None and self._denies(self._granted_path))
        if not temporary and self._granted_path is not None and right != rights.REVIEW_RIGHTS:
            temporary = self.allows(right)  # the server may have loaded its roles by now
        starts = self._granted_path is None and time.monotonic() - self._away_at < STARTING_S
        if (temporary or starts) and not right.without:
            self._renew()
            raise NotAnswering(f"{host} temporarily denies permission to {right}{place}: {_reason(response)}")
        cure = (
            f"ask for the role of docs/launching.md{place}, or log in with `gcloud auth login`"
            if self._headers() or self._configuration.cert_file
            else "the kubeconfig has no credentials for it: log in with `gcloud auth login`, and see whether "
            "gke-gcloud-auth-plugin is installed"
        )
        raise Refused(f"{host} denies permission to {right}{place}: {_reason(response)}; {cure}")

    def _denies(self, path: str) -> bool:
        return self._send("GET", path, params={"limit": "1"}).status_code in DENIALS


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


def _is_refusal(response: httpx.Response) -> bool:
    """Return whether a webhook or a quota refuses the object; False: the account lacks a right."""
    return response.status_code == httpx.codes.FORBIDDEN and (
        "admission webhook" in response.text or "exceeded quota" in response.text
    )


def _names_object(response: httpx.Response) -> bool:
    """Return whether a 404 response is about a missing object; False: the cluster does not serve the kind of object."""
    try:
        return bool(response.json()["details"]["name"])
    except (ValueError, KeyError, TypeError):
        return False


def _wait_s(response: httpx.Response) -> float:
    """Return the pause that the server requested, in seconds, at most MAX_WAIT_S; 0 if it requested none."""
    text = response.headers.get("Retry-After", "")
    return min(float(text), MAX_WAIT_S) if text.isdecimal() else 0.0


def _tls(configuration: Configuration) -> ssl.SSLContext | bool:
    if not configuration.host.startswith("https:"):
        return True
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
    if not configuration.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
    return context


def choose_context(settings: ClusterSettings) -> str | None:
    """Return the name of the kubeconfig's context for the target's cluster; None to use this pod's own credentials.

    The target's `context` has precedence. Ignores the kubeconfig's current context, which may be of another cluster.
    Raises LaunchError.
    """
    if settings.context is not None:
        return settings.context
    contexts = _contexts()
    for name in contexts:
        if name in settings.gke_contexts:
            return name
    try:
        load_incluster_config(Configuration())  # type: ignore[no-untyped-call]
    except ConfigException as error:
        others = f" (its contexts: {', '.join(contexts)})" if contexts else ""
        add = f"run `{settings.get_credentials}`, or " if settings.project else ""
        raise LaunchError(
            f"the kubeconfig has no context for cluster {settings.cluster}{others}; {add}set `context` of the target"
            + (" to one of them" if contexts else "")
        ) from error
    return None


def _contexts() -> list[str]:
    """Return the names of the kubeconfig's contexts, even if none is current. Raises LaunchError."""
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
    """Return a client, which is cached, of a context's cluster. Raises LaunchError.

    context: None for the cluster that this pod runs in.
    """
    return KubeApi(partial(_load, context), namespace)


def _load(context: str | None) -> Configuration:
    """Return the address and credentials of a context, or of the pod that this process runs in. Raises LaunchError."""
    configuration = Configuration()
    try:
        if context is None:
            load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        else:
            load_kube_config(context=context, client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError, YAMLError) as error:
        raise LaunchError(
            f"the kubeconfig cannot be used for {context or 'this pod'}: {error}; `kubectl config get-contexts` lists "
            "its contexts, `gcloud container clusters get-credentials` adds a cluster"
        ) from error
    return configuration
