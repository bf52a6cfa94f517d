"""Starts a real etcd and kube-apiserver on loopback, with the kinds, accounts and roles that launching needs.

The caller provides the binaries. The definitions of JobSet and Kueue are minimal, or those in the folder $MAXVIEW_CRDS.
"""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import yaml
from access import ADMIN, documented_objects
from server import queue_objects

type Object = dict[str, Any]

HERE = Path(__file__).parent
START_S = 120.0
FLOWS, OVERLOADED = "/apis/flowcontrol.apiserver.k8s.io/v1", "overloaded"
KUEUE_KINDS = {
    "Workload": "Namespaced", "LocalQueue": "Namespaced", "ClusterQueue": "Cluster", "ResourceFlavor": "Cluster"
}  # fmt: skip
KIND_OF = {f"{kind.lower()}s": kind for kind in KUEUE_KINDS}


def definition(group: str, kind: str, plural: str, versions: list[str], scope: str = "Namespaced") -> Object:
    """A custom resource: a spec and a status without a schema."""
    anything: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {"name": name, "served": True, "storage": not n, "schema": schema, "subresources": {"status": {}}}
                for n, name in enumerate(versions)
            ],
        },
    }


class RealServer:
    """A running API server with its store; `stop` and `start` make an outage."""

    def __init__(self, folder: Path, apiserver: str, etcd: str) -> None:
        self.folder, self.apiserver = folder, apiserver
        self.port, client, peer = free_port(), free_port(), free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.certificate = folder / "server.crt"
        make_keys(folder)
        self._etcd_url = f"http://127.0.0.1:{client}"
        own = f"http://127.0.0.1:{peer}"
        self._etcd_argv = [
            etcd, f"--data-dir={folder / 'etcd'}", f"--listen-client-urls={self._etcd_url}", "--name=one",
            f"--advertise-client-urls={self._etcd_url}", f"--listen-peer-urls={own}",
            f"--initial-advertise-peer-urls={own}", f"--initial-cluster=one={own}",
        ]  # fmt: skip
        self.etcd = run(folder, "etcd", self._etcd_argv)
        rule = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
        (folder / "audit.json").write_text(json.dumps(rule))
        (folder / "tokens.csv").write_text(f'{ADMIN},admin,admin,"system:masters"\n')
        self._endless: ssl.SSLSocket | None = None  # the connection of a request that does not end
        self.process = self._run()
        headers = {"Authorization": f"Bearer {ADMIN}"}
        tls = ssl.create_default_context(cafile=self.certificate)
        none = httpx.Limits(max_keepalive_connections=0)  # tests count open connections
        self.http = httpx.Client(
            base_url=self.url, verify=tls, headers=headers, trust_env=False, limits=none, timeout=60
        )
        try:
            self.wait()
            self._fill()
        except BaseException:
            self.close()
            raise

    def _run(self) -> "subprocess.Popen[bytes]":
        folder = self.folder
        return run(
            folder, "apiserver",
            [self.apiserver, f"--etcd-servers={self._etcd_url}", f"--secure-port={self.port}",
             "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
             f"--tls-cert-file={self.certificate}", f"--tls-private-key-file={folder / 'server.key'}",
             "--service-account-issuer=https://loopback", f"--service-account-key-file={folder / 'accounts.key'}",
             f"--service-account-signing-key-file={folder / 'accounts.key'}", "--authorization-mode=RBAC",
             f"--token-auth-file={folder / 'tokens.csv'}", "--service-cluster-ip-range=10.0.0.0/24",
             f"--audit-policy-file={folder / 'audit.json'}", f"--audit-log-path={folder / 'audit.log'}",
             "--disable-admission-plugins=ServiceAccount", "--kubelet-preferred-address-types=InternalIP"],
        )  # fmt: skip

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request with all rights."""
        return self.http.request(method, path, **more)

    def requests(self) -> list[str]:
        """METHOD PATH of every request that was answered, without those of the tests and of the kubelet."""
        methods = {"create": "POST", "delete": "DELETE", "patch": "PATCH", "update": "PUT"}
        entries = [json.loads(line) for line in (self.folder / "audit.log").read_text().splitlines()]
        done = [e for e in entries if e["stage"] == "ResponseComplete" and e["user"]["username"] != "admin"]
        return [f"{methods.get(entry['verb'], 'GET')} {entry['requestURI']}" for entry in done]

    def denied(self, account: str) -> set[str]:
        """VERB PATH of every request of a service account that was denied."""
        entries = [json.loads(line) for line in (self.folder / "audit.log").read_text().splitlines()]
        return {
            f"{entry['verb']} {entry['requestURI']}"
            for entry in entries
            if entry["user"]["username"] == f"system:serviceaccount:default:{account}"
            and entry.get("responseStatus", {}).get("code") == 403
        }

    def stop(self) -> None:
        """End the API server; etcd continues."""
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        """Start the API server again, without waiting until it serves."""
        self.process = self._run()

    def kill_etcd(self) -> None:
        """Take the API server its store: it answers 500, or not at all."""
        self.etcd.kill()
        self.etcd.wait()

    def start_etcd(self) -> None:
        """Give the API server its store back; does nothing if it has it."""
        if self.etcd.poll() is not None:
            self.etcd = run(self.folder, "etcd", self._etcd_argv)

    def pause(self, seconds: float) -> None:
        """Let the API server answer that many seconds late."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def overload(self, account: str, token: str) -> None:
        """Let the API server answer an account's requests for JobSets by 429: at most one runs, which does not end."""
        limited = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "limitResponse": {"type": "Reject"}}
        level = {"spec": {"type": "Limited", "limited": limited | {"borrowingLimitPercent": 0}}}
        resources = [{"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["*"], "namespaces": ["*"]}]
        subject = {"kind": "ServiceAccount", "serviceAccount": {"name": account, "namespace": "default"}}
        schema = {
            "priorityLevelConfiguration": {"name": OVERLOADED}, "matchingPrecedence": 2,
            "rules": [{"subjects": [subject], "resourceRules": resources}],
        }  # fmt: skip
        self._create(f"{FLOWS}/prioritylevelconfigurations", {"metadata": {"name": OVERLOADED}} | level)
        self._create(f"{FLOWS}/flowschemas", {"metadata": {"name": OVERLOADED}, "spec": schema})
        time.sleep(0.5)  # until the server has loaded them
        tls = ssl.create_default_context(cafile=self.certificate)
        self._endless = tls.wrap_socket(socket.create_connection(("127.0.0.1", self.port)), server_hostname="127.0.0.1")
        path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        self._endless.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 999\r\n\r\n{{".encode())

    def relieve(self) -> None:
        """End the overload, if there is one."""
        if self._endless is not None:
            self._endless.close()
            self._endless = None
        for kind in ("flowschemas", "prioritylevelconfigurations"):
            self.request("DELETE", f"{FLOWS}/{kind}/{OVERLOADED}")

    def close(self) -> None:
        """End everything."""
        self.http.close()
        self.stop()
        self.etcd.kill()
        self.etcd.wait()

    def wait(self) -> None:
        """Until the API server is ready."""
        deadline = time.monotonic() + START_S
        while True:
            try:
                if self.http.get("/readyz").is_success:
                    return
            except httpx.TransportError:
                pass
            assert time.monotonic() < deadline, (self.folder / "apiserver.log").read_text()[-3000:]
            time.sleep(0.2)

    def token(self, account: str, *, xpk: bool = True) -> str:
        """A new token of a service account, which is created if missing, with the documented roles.

        xpk: also with the roles for xpk.
        """
        made = {"metadata": {"name": account}}
        self._create("/api/v1/namespaces/default/serviceaccounts", made)
        subject = [{"kind": "ServiceAccount", "name": account, "namespace": "default"}]
        group = "rbac.authorization.k8s.io"
        for item in documented_objects(xpk=xpk):
            name, kind = item["metadata"]["name"], item["kind"]
            place = "/namespaces/default" if kind == "Role" else ""
            self._create(f"/apis/{group}/v1{place}/{kind.lower()}s", item)
            binding = {
                "metadata": {"name": f"{name}-{account}"}, "subjects": subject,
                "roleRef": {"apiGroup": group, "kind": kind, "name": name},
            }  # fmt: skip
            self._create(f"/apis/{group}/v1{place}/{kind.lower()}bindings", binding)
        wanted = {"spec": {"expirationSeconds": 3600}}
        path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
        answer = self.request("POST", path, json=wanted)
        answer.raise_for_status()
        return str(answer.json()["status"]["token"])

    def revoke(self, account: str, token: str) -> None:
        """Make the tokens of a service account invalid, and wait until the server's cache has expired."""
        self.request("DELETE", f"/api/v1/namespaces/default/serviceaccounts/{account}").raise_for_status()
        headers = {"Authorization": f"Bearer {token}"}
        while self.request("GET", "/api/v1/namespaces/default/pods", headers=headers).status_code != 401:
            time.sleep(0.2)

    def _create(self, path: str, item: Object) -> None:
        answer = self.request("POST", path, json=item)
        assert answer.is_success or answer.status_code == 409, answer.text

    def _fill(self) -> None:
        kinds = [
            definition("jobset.x-k8s.io", "JobSet", "jobsets", ["v1alpha2"]),
            *(
                definition("kueue.x-k8s.io", kind, f"{kind.lower()}s", ["v1beta2", "v1beta1"], scope)
                for kind, scope in KUEUE_KINDS.items()
            ),
        ]
        if "MAXVIEW_CRDS" in os.environ:
            kinds = [yaml.safe_load(path.read_text()) for path in sorted(Path(os.environ["MAXVIEW_CRDS"]).iterdir())]
        for item in kinds:
            self._create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", item)
        kueue = [f"kueue.x-k8s.io/v1beta1/{kind.lower()}s" for kind in KUEUE_KINDS]
        for path in ("jobset.x-k8s.io/v1alpha2/jobsets", *kueue):
            while not self.request("GET", f"/apis/{path}").is_success:
                time.sleep(0.1)
        for group, version, plural, item in queue_objects():
            place = "/namespaces/default" if plural == "localqueues" else ""
            kind = (
                {} if group.startswith("scheduling") else {"kind": KIND_OF[plural], "apiVersion": f"{group}/{version}"}
            )
            self._create(f"/apis/{group}/{version}{place}/{plural}", item | kind)


def run(folder: Path, name: str, argv: list[str]) -> "subprocess.Popen[bytes]":
    """Start a server with its output in a file."""
    with (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, cwd=folder)


def start_kubelet(server: RealServer, folder: Path, *arguments: str) -> "tuple[subprocess.Popen[bytes], str]":
    """The process that plays everything except the API server, and its address."""
    port_file = folder / "port"
    argv = [sys.executable, str(HERE / "kubelet.py"), str(port_file), str(folder), server.url, str(server.certificate)]
    process = run(folder, "kubelet", [*argv, *arguments])
    while not port_file.exists():
        assert process.poll() is None, (folder / "kubelet.log").read_text()
        time.sleep(0.1)
    return process, f"https://127.0.0.1:{port_file.read_text()}"


def make_keys(folder: Path) -> None:
    """The server's certificate, which kubelets share, and the key that signs the tokens of accounts."""
    key, shown = folder / "server.key", folder / "server.crt"
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    quiet: Object = {"check": True, "capture_output": True, "env": os.environ}
    subprocess.run([*new, *names, "-keyout", str(key), "-out", str(shown)], **quiet)
    subprocess.run(["openssl", "genrsa", "-out", str(folder / "accounts.key"), "2048"], **quiet)


def free_port() -> int:
    """A port of loopback that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
