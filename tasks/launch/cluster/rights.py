"""Lists the rights that runs on a cluster need; a few are optional. A backend may need more."""

from configs.frozen import Frozen

JOBSET, KUEUE = "jobset.x-k8s.io", "kueue.x-k8s.io"


class Right(Frozen):
    """A verb that an account may use on a kind of object. `without`: the effect if it is denied; "": it is required."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    cluster_wide: bool = False
    without: str = ""

    @property
    def kind(self) -> str:
        """The kind of object, as kubectl names it."""
        return f"{self.resource}{'/' * bool(self.subresource)}{self.subresource}{'.' * bool(self.group)}{self.group}"

    def __str__(self) -> str:
        return f"{self.verb} {self.kind}"


GET_JOBSETS = Right(verb="get", resource="jobsets", group=JOBSET)
LIST_JOBSETS = Right(verb="list", resource="jobsets", group=JOBSET)
CREATE_JOBSETS = Right(verb="create", resource="jobsets", group=JOBSET)
DELETE_JOBSETS = Right(verb="delete", resource="jobsets", group=JOBSET)
LIST_PODS = Right(verb="list", resource="pods")
GET_LOGS = Right(verb="get", resource="pods", subresource="log")
LIST_WORKLOADS = Right(verb="list", resource="workloads", group=KUEUE, without="the reason why a run waits is unknown")
GET_NODES = Right(
    verb="get", resource="nodes", cluster_wide=True, without="a lost node looks like a lost pod or a failed trainer"
)
UNCHECKED = "the queue is not checked before a launch"
LIST_QUEUES = Right(verb="list", resource="localqueues", group=KUEUE, without=UNCHECKED)
GET_CLUSTER_QUEUES = Right(verb="get", resource="clusterqueues", group=KUEUE, cluster_wide=True, without=UNCHECKED)
GET_FLAVORS = Right(verb="get", resource="resourceflavors", group=KUEUE, cluster_wide=True, without=UNCHECKED)
GET_PRIORITIES = Right(
    verb="get", resource="priorityclasses", group="scheduling.k8s.io", cluster_wide=True,
    without="the priority is not checked before a launch",
)  # fmt: skip
# Every logged-in account has these: https://kubernetes.io/docs/reference/access-authn-authz/rbac/#discovery-roles
DISCOVER = Right(verb="get", resource="apis", cluster_wide=True, without="the versions are not checked")
REVIEW_RIGHTS = Right(
    verb="create", resource="selfsubjectaccessreviews", group="authorization.k8s.io", cluster_wide=True
)

NEEDED = (
    GET_JOBSETS, LIST_JOBSETS, CREATE_JOBSETS, DELETE_JOBSETS, LIST_PODS, GET_LOGS, LIST_WORKLOADS, GET_NODES,
)  # fmt: skip
