"""The handle of a run on a cluster."""

from tasks.launch.cluster.handle import HANDLE as HANDLE
