"""Plays kubelet, JobSet, Kueue and the Job controller beside a real API server, with the pods of the stand-in.

    kubelet.py PORT_FILE FOLDER API_URL CA_AND_KEY [--pods N] [--python BIN_FOLDER]

The real server does the rest: accounts, roles, validation, deletion, and access to logs, which it requests from this
process like from a kubelet. `POST /_faults` takes the faults of the stand-in that do not concern the server.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import ssl
import sys
from pathlib import Path
from typing import Any

import httpx
from access import ADMIN
from aiohttp import web
from server import CLUSTER_WIDE, Cluster, Key, Object, failure

EVERY_S = 0.2
MERGE = {"Content-Type": "application/merge-patch+json"}
VERSIONS = {"": "v1", "batch": "v1", "jobset.x-k8s.io": "v1alpha2", "kueue.x-k8s.io": "v1beta2"}


class Node(Cluster):
    """The controllers of the stand-in, with the real server's objects."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        super().__init__(arguments.folder, arguments.pods, arguments.python)
        context = ssl.create_default_context(cafile=str(arguments.certificate))
        headers = {"Authorization": f"Bearer {ADMIN}"}
        self.http = httpx.Client(base_url=arguments.url, verify=context, headers=headers, timeout=10, trust_env=False)
        self.port = 0
        self.known: dict[str, Key] = {}  # JobSets and Jobs by uid
        self.ending: set[str] = set()
        self.unsent: dict[tuple[Key, str], Object] = {}  # updates that the server did not accept during an outage

    def path_of(self, group: str, plural: str, namespace: str, *name: str) -> str:
        root = f"/apis/{group}" if group else "/api"
        place = [] if plural in CLUSTER_WIDE else ["namespaces", namespace]
        return "/".join([root, VERSIONS[group], *place, plural, *name])

    def request(self, method: str, path: str, **more: Any) -> Object:
        answer = self.http.request(method, path, **more)
        if answer.status_code not in (404, 409):
            answer.raise_for_status()
        return dict(answer.json())

    def create(self, group: str, version: str, plural: str, namespace: str, item: Object) -> Object:
        status = item.pop("status", None)
        kind = {"pods": "Pod", "nodes": "Node", "workloads": "Workload"}[plural]
        item |= {"apiVersion": f"{group}/{VERSIONS[group]}" if group else "v1", "kind": kind}
        while True:
            try:
                made = self.request("POST", self.path_of(group, plural, namespace), json=item)
                break
            except httpx.HTTPError as error:
                response = getattr(error, "response", None)
                assert response is None or response.status_code != httpx.codes.UNPROCESSABLE_ENTITY, response.text
        name = item["metadata"]["name"]
        if made["kind"] == "Status":  # an earlier job's node
            made = self.request("GET", self.path_of(group, plural, namespace, name))
        key: Key = (group, plural, namespace, name)
        self.objects[key] = made
        if plural == "nodes":
            made["status"] = (status or {}) | {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
            }
            self.put(key, made, "MODIFIED")
        elif status is not None:
            made["status"] = status
            self.put(key, made, "MODIFIED")
        return made

    def find_secret(self, namespace: str, name: str) -> Object:
        return self.request("GET", self.path_of("", "secrets", namespace, name))

    def put(self, key: Key, item: Object, event: str) -> None:
        if key[1] == "jobs":
            item["status"] = finish_status(item["status"])
        if event == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = item
        self.unsent[key, event] = item
        self.send()

    def send(self) -> None:
        """Send the server the pending updates."""
        for (key, event), item in list(self.unsent.items()):
            group, plural, namespace, name = key
            path = self.path_of(group, plural, namespace, name)
            try:
                if event == "MODIFIED":
                    body = {"status": item.get("status", {})}
                    self.request("PATCH", f"{path}/status", content=json.dumps(body), headers=MERGE)
                elif plural == "pods":
                    self.request("DELETE", path, params={"gracePeriodSeconds": "0"})
                elif plural == "jobsets":
                    body = {"metadata": {"finalizers": None}}
                    self.request("PATCH", path, content=json.dumps(body), headers=MERGE)
                else:
                    self.request("DELETE", path)
            except httpx.HTTPError as error:
                response = getattr(error, "response", None)
                if response is None or response.status_code in (401, 403, 429) or response.status_code >= 500:
                    return
                sys.stderr.write(f"refused: {event} {path}: {response.text[:300]}\n")
            self.unsent.pop((key, event), None)

    async def run(self) -> None:
        """Start new objects, and end deleted ones."""
        while True:
            with contextlib.suppress(httpx.HTTPError):
                self.look()
            await asyncio.sleep(EVERY_S)

    def look(self) -> None:
        self.send()
        there: dict[str, Object] = {}
        for group, plural in (("jobset.x-k8s.io", "jobsets"), ("batch", "jobs")):
            root = f"/apis/{group}/{VERSIONS[group]}/{plural}"
            for item in self.request("GET", root).get("items", []):
                there[item["metadata"]["uid"]] = item
                self.see(group, plural, item)
        for uid, key in list(self.known.items()):
            if uid not in there:
                self.known.pop(uid)
                self.objects.pop(key, None)
                if uid not in self.ending:  # deleted in the background: no garbage collector runs here
                    self.start(self.delete_jobset(key[3], 30.0))
        for item in self.request("GET", "/api/v1/pods").get("items", []):
            meta = item["metadata"]
            own = self.objects.get(key := ("", "pods", meta["namespace"], meta["name"]))
            if own is not None and "deletionTimestamp" in meta and meta["uid"] not in self.ending:
                self.ending.add(meta["uid"])
                self.start(self.end_pod(key, own, float(meta.get("deletionGracePeriodSeconds") or 0)))

    def see(self, group: str, plural: str, item: Object) -> None:
        meta = item["metadata"]
        key: Key = (group, plural, meta["namespace"], meta["name"])
        item |= {"apiVersion": f"{group}/{VERSIONS[group]}", "kind": "JobSet" if plural == "jobsets" else "Job"}
        if "deletionTimestamp" in meta:
            if meta["uid"] not in self.ending:
                self.ending.add(meta["uid"])
                self.objects.setdefault(key, item)["metadata"]["deletionTimestamp"] = meta["deletionTimestamp"]
                self.start(self.finish(key, item))
        elif meta["uid"] not in self.known:
            self.known[meta["uid"]] = key
            self.objects[key] = item
            self.start(self.run_jobset(item) if plural == "jobsets" else self.run_job(item))

    async def delete_in_foreground(self, key: Key, item: Object, grace_s: float) -> None:
        """Let the server mark a JobSet whose time to live has passed; `look` sees the mark and ends the rest."""
        while True:
            with contextlib.suppress(httpx.HTTPError):
                self.request("DELETE", self.path_of(*key[:3], key[3]), json={"propagationPolicy": "Foreground"})
                return
            await asyncio.sleep(EVERY_S)

    def evict(self, key: Key, item: Object) -> None:
        """Delete a pod: the server marks it, and waits for its kubelet."""
        self.request("DELETE", self.path_of(*key[:3], key[3]), json={"gracePeriodSeconds": 30})

    async def finish(self, key: Key, item: Object) -> None:
        """End the pods of a JobSet that is being deleted, then let the server forget it."""
        template = item["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        await self.delete_jobset(key[3], float(template["spec"].get("terminationGracePeriodSeconds", 30)))
        self.put(key, item, "DELETED")

    async def kubelet(self, request: web.Request) -> web.StreamResponse:
        """The kubelet's answer to a request for a log."""
        if request.path == "/_faults":
            self.order(await request.json())
            return web.json_response({})
        words = request.path.strip("/").split("/")
        if words[0] != "containerLogs":
            return web.Response(status=404)
        if self.is_still("log_away") or words[2] in self.lost:
            return failure(502, "BadGateway", "the kubelet is away")
        assert request.transport is not None
        self.open.add(entry := (request.transport, True))
        try:
            return await self.log(request, words[2])
        finally:
            self.open.discard(entry)


def finish_status(status: Object) -> Object:
    """A Job's status as its controller writes it: the end is first announced by a condition."""
    announced = {"Failed": "FailureTarget", "Complete": "SuccessCriteriaMet"}
    ends = status.get("conditions", [])
    return {"active": 0, "ready": 0, "terminating": 0} | status | {
        "conditions": [*(end | {"type": announced[end["type"]]} for end in ends), *ends]
    }  # fmt: skip


async def serve(arguments: argparse.Namespace) -> None:
    node = Node(arguments)
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{tail:.*}", node.kubelet)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(arguments.certificate, arguments.certificate.with_suffix(".key"))
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    assert site._server is not None
    node.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    partial = arguments.port_file.with_suffix(".tmp")
    partial.write_text(str(node.port))
    partial.rename(arguments.port_file)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    node.start(node.run())
    await stopped.wait()
    for pod in node.pods.values():
        pod.end(signal.SIGKILL)
    await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port_file", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("url")
    parser.add_argument("certificate", type=Path)
    parser.add_argument("--pods", type=int, default=1)
    parser.add_argument("--python", default="")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
