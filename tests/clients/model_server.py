"""A web server with models, as Hugging Face's hub, Ollama's registry and plain hosts offer them, whose faults tests choose."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def git_blob(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.requests.append((self.path, dict(self.headers)))
        for fault in list(self.server.faults):
            if fault(self):
                return
        data = self.server.content(self.path.split("?")[0])
        if data is None:
            self.answer(404, b"not here")
        elif isinstance(data, str):
            self.answer(302, headers={"Location": data})
        else:
            self.send_file(data)

    def answer(self, status, body=b"", headers=None):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def wanted_range(self, data):
        """The first byte that is asked for; 0 without a range, or if the file has changed since."""
        unchanged = self.headers.get("If-Range") in (None, self.etag(data))
        asked = self.headers.get("Range")
        return int(asked.removeprefix("bytes=").removesuffix("-")) if asked and unchanged else 0

    @staticmethod
    def etag(data):
        return f'"{sha256(data)[:16]}"'

    def send_file(self, data, upto=None):
        """Sends a file, or the range that is asked for; with `upto` the connection is cut after the file's first bytes."""
        start = self.wanted_range(data)
        if start >= len(data) > 0:
            return self.answer(416, b"no such range", {"Content-Range": f"bytes */{len(data)}"})
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.send_header("ETag", self.etag(data))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        self.wfile.write(data[start:upto])
        if upto is not None:
            self.cut()

    def cut(self):
        self.wfile.flush()
        self.close_connection = True


class ModelServer(ThreadingHTTPServer):
    """`files`: path to bytes, or to the address of a redirect. `faults`: functions that take the handler, and return
    whether they have answered. `requests`: paths and headers so far."""

    daemon_threads = True

    def __init__(self, context=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.faults, self.requests = {}, [], []
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.scheme = "https" if context else "http"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # a client that leaves is part of the tests

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.server_port}"

    def content(self, path):
        return self.files.get(path)

    def add_repository(self, name, files, listed=None):
        """A repository of the hub; `listed` overrides entries of its listing."""
        siblings = []
        for path, data in files.items():
            entry = {"rfilename": path, "size": len(data), "blobId": git_blob(data)}
            if path.endswith((".gguf", ".safetensors")):
                entry["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 134}
            siblings.append({**entry, **(listed or {}).get(path, {})})
            self.files[f"/{name}/resolve/{COMMIT}/{path}"] = data
        self.files[f"/api/models/{name}/revision/main"] = json.dumps({"sha": COMMIT, "siblings": siblings}).encode()

    def add_ollama(self, name, tag, data):
        """A model of the registry: a manifest, and its blob behind a redirect."""
        digest = "sha256:" + sha256(data)
        layers = [{"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "0" * 64, "size": 3},
                  {"mediaType": "application/vnd.ollama.image.model", "digest": digest, "size": len(data)}]
        self.files[f"/v2/{name}/manifests/{tag}"] = json.dumps({"schemaVersion": 2, "layers": layers}).encode()
        self.files[f"/v2/{name}/blobs/{digest}"] = f"{self.url}/store/{sha256(data)}"
        self.files[f"/store/{sha256(data)}"] = data

    def asked(self, part):
        """The headers of the requests for paths with this part."""
        return [headers for path, headers in self.requests if part in path]
