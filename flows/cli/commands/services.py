"""The commands `maxview up` and `down`, which start and end a Prefect server and worker, and `maxview doctor`.

Each function returns the exit status.
"""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from flows.cli.commands.common_options import DEFAULT_OUT, Json, Out, absolute_place, check_store

State = Annotated[Path | None, Parameter(help="Folder of the server's database and logs.")]


def up(
    *,
    out: Out = DEFAULT_OUT,
    state: State = None,
    host: str = "127.0.0.1",
    port: int = 4200,
    json_: Json = False,
) -> int:
    """Start a Prefect server with pool, limits, automations, deployments and a worker; if it runs, update it.

    Exit status: 0; 2 if it cannot be started.

    PREFECT_SERVER_API_AUTH_STRING (user:password) sets a password, PREFECT_SERVER_DATABASE_CONNECTION_URL selects
    PostgreSQL instead of SQLite, MAXVIEW_WEBHOOK_URL is an address that receives the changes of every night.

    Parameters
    ----------
    host
        The address to listen at; an address that other machines can reach needs a password.
    """
    from tasks.services import up as services
    from tasks.store.state_folder import state_folder

    where = state or state_folder()
    place = services.Place(state=where.absolute(), out=absolute_place(out), host=host, port=port)
    check_store(out)
    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    services.start_services(place, errors.print)
    if json_:
        print(json.dumps({"url": place.url, "api": f"{place.url}/api", "state": str(place.state), "out": place.out}))
        return 0
    print(f"Prefect: {place.url}")
    print("maxview down ends it")
    print(f"next: PREFECT_API_URL={place.url}/api prefect deployment run compare/linen-vs-nnx --watch")
    return 0


def down(*, state: State = None, json_: Json = False) -> int:
    """End the worker that `maxview up` started, its running flow runs, and the server; their data stays.

    Also ends every embedded server (a command's own server, if `maxview up` did not start one) that no command uses.
    Exit status: 0, even if nothing was up.
    """
    from tasks.services import up as services
    from tasks.services.embedded_server import end_idle
    from tasks.store.state_folder import state_folder

    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    ended = services.stop_services(state or state_folder(), errors.print)
    idle = end_idle(errors.print)
    if json_:
        print(json.dumps({"ended": bool(ended or idle)}))
    elif not idle and not ended:
        errors.print("nothing is up")
    return 0


def doctor(
    *,
    out: Out = DEFAULT_OUT,
    target: Annotated[str | None, Parameter(help="Check this target, with every right in its cluster.")] = None,
    json_: Json = False,
) -> int:
    """Report the tools and settings that this machine, or a given target, has and lacks.

    Exit status: 2 if something required is missing, else 0.
    """
    from flows.cli.doctor import examine

    return examine(out, target, as_json=json_)
