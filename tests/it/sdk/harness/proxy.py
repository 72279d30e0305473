"""A TCP proxy that cuts the streams it carries."""

import socket
import struct
import threading
from urllib.parse import urlsplit

DELTA = b"event: assistant_delta"
RESET = struct.pack("ii", 1, 0)


class Proxy:
    """Each cut belongs to one opening of a stream, in order: after how many deltas, and how.

    `reset` aborts the connection within a frame, `close` ends it within the body but between two frames, `refuse` ends
    it before there is any answer. Openings without a cut are left alone."""

    def __init__(self, url, cuts=()):
        parts = urlsplit(url)
        self.upstream = (parts.hostname, parts.port)
        self.cuts = list(cuts)
        # The position each opening asked for.
        self.openings = []
        self.reopened = threading.Event()
        self.live = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            Connection(self, client).start()

    def opening(self, head):
        """A stream is asked for: returns its cut."""
        lines = head.decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        query = urlsplit(lines[0].split(" ")[1]).query
        position = headers.get("last-event-id")
        assert query == ("" if position is None else f"lastSeq={position}"), (query, position)
        with self.lock:
            self.openings.append(int(position or 0))
            if len(self.openings) > 1:
                self.reopened.set()
            return self.cuts.pop(0) if self.cuts else None

    def cut_now(self):
        """Aborts every live stream."""
        with self.lock:
            live, self.live = self.live, []
        for connection in live:
            connection.end(abort=True)


class Connection:
    def __init__(self, proxy, client):
        self.proxy = proxy
        self.client = client
        self.server = socket.create_connection(proxy.upstream)
        self.cut = None
        self.deltas = 0

    def start(self):
        for work in (self.requests, self.responses):
            threading.Thread(target=self.guarded, args=(work,), daemon=True).start()

    def guarded(self, work):
        try:
            work()
        except OSError:
            pass
        finally:
            self.end(abort=False)

    def requests(self):
        while data := self.client.recv(65536):
            head, _, _ = data.partition(b"\r\n\r\n")
            if head.startswith(b"GET ") and b"/stream" in head.split(b"\r\n")[0]:
                self.cut = self.proxy.opening(head)
                self.proxy.live.append(self)
                if self.cut and self.cut[1] == "refuse":
                    return
            self.server.sendall(data)

    def responses(self):
        while data := self.server.recv(65536):
            through = self.before_cut(data)
            self.client.sendall(data if through is None else data[:through])
            if through is not None:
                return self.end(abort=self.cut[1] == "reset")

    def before_cut(self, data):
        """How much of this still gets through, if the cut is in it."""
        if self.cut is None:
            return None
        limit, how = self.cut
        at = data.find(DELTA)
        while at >= 0:
            self.deltas += 1
            if self.deltas == limit:
                end = data.find(b"\n\n", at)
                return at + len(DELTA) if how == "reset" or end < 0 else end + 2
            at = data.find(DELTA, at + 1)
        return None

    def end(self, abort):
        how = socket.SHUT_RDWR
        if abort:
            self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            # Only wakes whoever reads here; the reset goes out when the socket is closed.
            how = socket.SHUT_RD
        for side, way in ((self.client, how), (self.server, socket.SHUT_RDWR)):
            try:
                side.shutdown(way)
            except OSError:
                pass
            side.close()
