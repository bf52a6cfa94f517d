"""The process of an embedded server: Prefect's server on a loopback port, which ends when its standard input does.

The other end of that pipe is the command's alone, so the server ends with the command, whichever way that ends.
"""

import os
import sys
import threading

import uvicorn


def main(port: int) -> None:
    """Serve until SIGTERM, or until nobody is left to serve."""
    threading.Thread(target=_end_with_input, daemon=True, name="whoever started this").start()
    uvicorn.run(
        "prefect.server.api.server:create_app",
        factory=True,
        host="127.0.0.1",
        port=port,
        log_level="error",
        lifespan="on",
    )


def _end_with_input() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
