"""A server on this machine, for tests of downloads."""

import hashlib
import http.server
import threading
from functools import partial

from helpers.presets.schema import File


class Served:
    """A folder, and a server on this machine that gives what lies in it; ``requests`` are the paths that it gave."""

    def __init__(self, root):
        self.root, self.requests = root, []
        root.mkdir()
        served = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                served.requests.append(self.path)

            def send_header(self, key, value):
                ends_early = key == "Content-Length" and "short" in self.path
                super().send_header(key, str(int(value) + 5) if ends_early else value)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=root))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def file(self, name, content, **other):
        (self.root / name).write_bytes(content)
        checksum = {"sha256": hashlib.sha256(content).hexdigest()}
        return File(url=f"http://127.0.0.1:{self.server.server_port}/{name}", **(checksum | other))
