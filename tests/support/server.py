"""An application on a real socket."""

from contextlib import contextmanager
from threading import Thread
from time import sleep


@contextmanager
def serving(app, limits=None):
    """Serve an application on a real socket, in a thread, until the block ends; yield its address."""
    from harpoon.apps.server.limits import Limits
    from harpoon.apps.server.run import listen, make_server

    with listen("127.0.0.1", 0) as sock:
        server = make_server(app, limits or Limits())
        thread = Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            while thread.is_alive() and not server.started:
                sleep(0.01)
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
