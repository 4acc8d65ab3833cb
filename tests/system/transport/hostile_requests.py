"""Requests that two parsers could read differently, or that exceed a limit, each with its expected status.

A shape is (name, bytes, statuses). Most are followed by SMUGGLED, a complete request that creates a conversation: a
server that reads the shape too short, or too long, answers that one as well.
"""

SMUGGLED = b"POST /v1/conversations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
HOST = b"Host: localhost\r\n"
BAD = {400}


def request(head, body=b"", method=b"POST", target=b"/v1/conversations", version=b"HTTP/1.1"):
    return method + b" " + target + b" " + version + b"\r\n" + HOST + head + b"\r\n" + body


def chunked(body):
    return request(b"Transfer-Encoding: chunked\r\n", body)


def name_of(data):
    return repr(data[:40])[2:-1]


def transfer_encodings():
    values = [b"identity", b"gzip", b"chunked, identity", b"identity, chunked", b"gzip, chunked", b"chunked, chunked", b"xchunked",
              b"chunked x", b"chunke", b'"chunked"', b"'chunked'", b"chunked;q=1", b"chunked,", b",chunked", b"\x0bchunked", b"chunked\x0b",
              b"\x00chunked", b"chunked\x00", b"chunked\x7f", b"\xc2\xa0chunked", b"cow", b"", b"trailers", b"deflate", b"chun\tked", b"chunked\x1f"]
    for value in values:
        header, length = b"Transfer-Encoding: " + value + b"\r\n", b"Content-Length: 5\r\n"
        for kind, head in (("alone", header), ("before a length", header + length), ("behind a length", length + header)):
            yield f"Transfer-Encoding {name_of(value)} {kind}", request(head, b"0\r\n\r\n" + SMUGGLED), BAD
    names = [b"Transfer-Encoding ", b"Transfer-Encoding\t", b" Transfer-Encoding", b"\tTransfer-Encoding", b"Transfer_Encoding",
             b"Transfer-Encoding\x00", b"Transfer-Encoding\x0b", b"Transfer\\-Encoding", b"Transfer-Encoding\r", b"Transfer-Encoding\xff",
             b"\rTransfer-Encoding", b"\x00Transfer-Encoding", b"X: y\nTransfer-Encoding", b"X: y\rTransfer-Encoding", b"X\n Transfer-Encoding"]
    for name in names:
        for length in (b"", b"Content-Length: 5\r\n"):
            yield f"header {name_of(name)} {name_of(length)}", request(length + name + b": chunked\r\n", b"0\r\n\r\n" + SMUGGLED), BAD
    both = [b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
            b"transfer-encoding: CHUNKED\r\ncontent-length: 6\r\n"]
    for head in both:
        yield f"two framings {name_of(head)}", request(head, b"0\r\n\r\n" + SMUGGLED), BAD
    yield "chunked in HTTP/1.0", request(b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n" + SMUGGLED, version=b"HTTP/1.0"), BAD


def content_lengths():
    values = [b"+2", b"-2", b"-0", b"2 2", b"2,2", b"2, 2", b"0x2", b"2a", b"a", b"2.0", b"2;", b'"2"', b"", b"\xd9\xa2", b"2\x00", b"\x0b2", b"2e0",
              b"18446744073709551616", b"18446744073709551618", b"9" * 20, b"9" * 400, b"0 2", b"two", b"2\t2", b"0b10", b"1_0"]
    for value in values:
        yield f"Content-Length {name_of(value)}", request(b"Content-Length: " + value + b"\r\n", b"{}" + SMUGGLED), BAD
    for value in (b"4194305", b"99999999999", b"999999999999999999"):
        yield f"Content-Length {value.decode()}", request(b"Content-Length: " + value + b"\r\n", b"{}" + SMUGGLED), {413}
    for name in (b"Content-Length ", b" Content-Length", b"Content-Length\t", b"Content_Length", b"Content-Length\x00", b"\x00Content-Length",
                 b"X: y\nContent-Length", b"Content-Length\x85"):
        yield f"header {name_of(name)}", request(name + b": 2\r\n", b"{}" + SMUGGLED), BAD
    for first, second in ((b"2", b"2"), (b"2", b"3"), (b"0", b"2"), (b"2", b""), (b"", b"2"), (b"2", b"-2")):
        head = b"Content-Length: " + first + b"\r\nContent-Length: " + second + b"\r\n"
        yield f"two lengths {name_of(first)} {name_of(second)}", request(head, b"{}" + SMUGGLED), BAD


def hosts():
    def with_hosts(lines):
        return b"GET /v1/models HTTP/1.1\r\n" + lines + b"\r\n" + SMUGGLED
    for lines in (b"", b"Host: localhost\r\nHost: localhost\r\n", b"Host: localhost\r\nHost: evil.example\r\n", b"Host: localhost, evil.example\r\n",
                  b"Host: localhost/x\r\n", b"Host: me@localhost\r\n", b"Host: local host\r\n", b"Host: localhost\x00\r\n", b"Host : localhost\r\n",
                  b" Host: localhost\r\n", b"Host: localhost?\r\n", b"Host: localhost#\r\n", b"Host: localhost\\\r\n", b"Ho_st: x\r\n",
                  b"Host: localhost\r\n Host: evil.example\r\n", b"Host: \xc3\xa9\r\n"):
        yield f"hosts {name_of(lines)}", with_hosts(lines), BAD
    for name in (b"evil.example", b"evil.example:80", b"127.0.0.1.evil.example", b"localhost.evil.example", b"", b"0", b"[::2]", b"10.0.0.1"):
        yield f"another host {name_of(name)}", with_hosts(b"Host: " + name + b"\r\nConnection: close\r\n"), {421}


def first_lines():
    rest = b"\r\n" + HOST + b"\r\n" + SMUGGLED
    for line in (b"", b" ", b"GET", b"GET ", b"GET /", b"GET  / HTTP/1.1", b"GET /  HTTP/1.1", b" GET / HTTP/1.1", b"GET\t/ HTTP/1.1", b"GET /\tHTTP/1.1",
                 b"GET / HTTP/1.1 ", b"GET / HTTP/1.1\t", b"GET / HTTP/1.1\r", b"GET / HTTP/1.1x", b"GET / HTTP/1.2", b"GET / HTTP/1.10", b"GET / HTTP/1",
                 b"GET / HTTP/1.", b"GET / HTTP/2.0", b"GET / HTTP/0.9", b"GET / HTTP/3", b"GET / http/1.1", b"GET / HTTP 1.1", b"GET / HTTQ/1.1", b"GET / /1.1",
                 b"GET / HTTP/-1.1", b"GET / HTTP/1,1", b"G\x00ET / HTTP/1.1", b"G(T / HTTP/1.1", b"\xc3\x89T / HTTP/1.1", b"GET /\x00 HTTP/1.1", b"GET /\x7f HTTP/1.1",
                 b"GET /\xff HTTP/1.1", b"GET / a HTTP/1.1", b"GET /a\x0bb HTTP/1.1", b"GET /\r/ HTTP/1.1", b"GET /\n/ HTTP/1.1", b"\xef\xbb\xbfGET / HTTP/1.1",
                 b"\x00", b"\r", b"\n", b"HTTP/1.1 200 OK"):
        yield f"first line {name_of(line)}", line + rest, BAD
    for target in (b"*", b"v1/models", b"localhost:80", b"?", b"#", b"%2fv1", b"/%", b"/%u002f", b"/v1/models%2", b"/%z", b"/%zz", b"/%0", b"/%00", b"/v1/models?%0g", b"/v1/models?a=%00", b"http://",
                   b"http://localhost", b"http:///v1/models", b"http://evil.example/v1/models", b"https://evil.example/v1/models", b"ftp://localhost/v1/models",
                   b"http://localhost@evil.example/v1/models", b"HTTP://localhost/v1/models", b"javascript:alert(1)"):
        yield f"target {name_of(target)}", b"GET " + target + b" HTTP/1.1" + rest, BAD
    yield "CONNECT", b"CONNECT localhost:22 HTTP/1.1" + rest, BAD
    yield "a long target", b"GET /" + b"a" * 5000 + b" HTTP/1.1" + rest, {414}
    yield "a very long target", b"GET /" + b"a" * 20000 + b" HTTP/1.1" + rest, {431}
    yield "a very long method", b"A" * 20000 + b" / HTTP/1.1" + rest, {431}
    for name, data in (("TLS on a plain port", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x11" * 300), ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
                       ("SSH", b"SSH-2.0-OpenSSH_9.2\r\n"), ("zeros", b"\x00" * 100), ("an empty line first", b"\r\n" + SMUGGLED), ("a line feed first", b"\n" + SMUGGLED),
                       ("PROXY", b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + SMUGGLED), ("SOCKS", b"\x05\x01\x00" + SMUGGLED)):
        yield name, data, BAD


def line_ends():
    whole = request(b"X: y\r\n", method=b"GET", target=b"/v1/models")
    for name, data in (("line feeds only", whole.replace(b"\r\n", b"\n")), ("carriage returns only", whole.replace(b"\r\n", b"\r") + b"G"),
                       ("reversed", whole.replace(b"\r\n", b"\n\r")), ("a doubled carriage return", whole.replace(b"\r\n", b"\r\r\n")),
                       ("a feed at the end of the head", whole[:-2] + b"\n"), ("a feed behind the first line", whole.replace(b"\r\n", b"\n", 1)),
                       ("a feed behind a header", whole.replace(b"y\r\n", b"y\n")), ("a return inside a header", whole.replace(b"X: y", b"X: a\rb")),
                       ("two lines in one", whole.replace(b"X: y", b"X: a\nContent-Length: 70"))):
        yield name, data + SMUGGLED, BAD


def headers():
    for c in b'()<>@,;\\"/[]?={} \t':
        yield f"{chr(c)!r} in a name", request(b"X" + bytes([c]) + b"Y: z\r\n", SMUGGLED), BAD
    for c in [*range(0x00, 0x09), 0x0b, 0x0c, *range(0x0e, 0x20), 0x7f]:
        yield f"{c:#04x} in a value", request(b"X: a" + bytes([c]) + b"b\r\n", SMUGGLED), BAD
        yield f"{c:#04x} in a name", request(b"X" + bytes([c]) + b": b\r\n", SMUGGLED), BAD
    for line in (b"no colon", b"X", b": y", b":", b" ", b"\t", b"X: y\r\n z", b"X: y\r\n\tz", b"X: y\r\n \r\nZ: a", b"\xe2\x80\xae: y", b"Content-Length: 0\r\n 5"):
        yield f"header line {name_of(line)}", request(line + b"\r\n", SMUGGLED), BAD
    yield "too many headers", request(b"X: y\r\n" * 200, SMUGGLED), {431}
    yield "many headers", request(b"".join(b"X%d: y\r\n" % i for i in range(5000)), SMUGGLED), {431}
    yield "a large header", request(b"X: " + b"y" * 20000 + b"\r\n", SMUGGLED), {431}
    yield "a long name", request(b"X" * 20000 + b": y\r\n", SMUGGLED), {431}
    for name in (b"Origin: http://localhost", b"Authorization: Bearer a", b"X-Api-Key: a", b"Content-Type: application/json"):
        yield f"twice {name.decode()}", request((name + b"\r\n") * 2 + b"Content-Length: 2\r\n", b"{}" + SMUGGLED), BAD
    for origin in (b"http://evil.example", b"null", b"", b"http://localhost:1", b"file://", b"http://localhost.evil.example", b"https://127.0.0.1"):
        yield f"origin {name_of(origin)}", request(b"Connection: close\r\nOrigin: " + origin + b"\r\nContent-Length: 2\r\n", b"{}" + SMUGGLED), {403}
    yield "an image of another site", request(b"Connection: close\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n", SMUGGLED, method=b"GET"), {403}
    for value in (b"gzip", b"deflate", b"br", b"gzip, identity"):
        yield f"Content-Encoding {value.decode()}", request(b"Content-Encoding: " + value + b"\r\nContent-Length: 2\r\n", b"{}" + SMUGGLED), {415}
    for value in (b"200-ok", b"100-continue, x", b"", b"100-continue\r\nExpect: 100-continue"):
        yield f"Expect {name_of(value)}", request(b"Expect: " + value + b"\r\nContent-Length: 2\r\n", b"{}" + SMUGGLED), {417}


def chunks():
    sizes = [b"", b"g", b"-2", b"+2", b"0x2", b" 2", b"2 ", b"2\t", b"2;", b"2;;a", b'2;a="x', b"2 a", b"2;a\rb", b"fffffffffffffffff", b"10000000000000000", b"10000000000000002",
             b"2\x00", b"1_0", b"2,2", b"\xff", b"two", b"2\r", b"2\n2", b"2;\x00", b"2;a\nb", b"2;" + b"a" * 20000, b"z" * 100]
    for size in sizes:
        yield f"chunk size {name_of(size)}", chunked(size + b"\r\n{}\r\n0\r\n\r\n" + SMUGGLED), BAD | {413}
    for size in (b"ffffffffffffffff", b"7fffffffffffffff", b"80000000", b"400001"):
        yield f"chunk size {size.decode()}", chunked(size + b"\r\n{}\r\n0\r\n\r\n" + SMUGGLED), {400, 413}
    for name, body in (("a feed behind a size", b"2\n{}\r\n0\r\n\r\n"), ("a return behind a size", b"2\r{}\r\n0\r\n\r\n"), ("a feed behind the data", b"2\r\n{}\n0\r\n\r\n"),
                       ("data longer than its size", b"2\r\n{} \r\n0\r\n\r\n"), ("data shorter than its size", b"3\r\n{}\r\n0\r\n\r\n"),
                       ("no line behind the data", b"2\r\n{}0\r\n\r\n"), ("two lines behind the data", b"2\r\n{}\r\n\r\n0\r\n\r\n")):
        yield name, chunked(body + SMUGGLED), BAD
    for trailer in (b"X: y", b"Content-Length: 70", b"Transfer-Encoding: chunked", b"Host: evil.example", b"Authorization: Bearer a", b"Connection: close", b"X: a\r\n b",
                    b"no colon", b"X\x00: y", b": y", b"X: " + b"y" * 70000):
        yield f"trailer {name_of(trailer)}", chunked(b"2\r\n{}\r\n0\r\n" + trailer + b"\r\n\r\n" + SMUGGLED), BAD


def upgrades():
    def upgrade(head, body=b"", target=b"/v1/responses"):
        return request(b"Connection: Upgrade\r\nUpgrade: websocket\r\n" + head, body, b"GET", target)
    key = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    yield "an upgrade with a body", upgrade(key + b"Content-Length: 2\r\n", b"{}"), BAD
    yield "an upgrade with chunks", upgrade(key + b"Transfer-Encoding: chunked\r\n", b"2\r\n{}\r\n0\r\n\r\n"), BAD
    yield "an upgrade and a request", upgrade(key, SMUGGLED), BAD
    yield "an upgrade and a frame", upgrade(key, b"\x81\x80\x00\x00\x00\x00"), BAD
    for bad in (b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n", b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + b"A" * 24 + b"\r\n",
                key + b"Sec-WebSocket-Key: BAAAAAAAAAAAAAAAAAAAAA==\r\n"):
        yield f"an upgrade with {name_of(bad)}", upgrade(bad), BAD


def clean_shapes():
    """Well-formed requests for things that do not exist: each is refused, and the next request on the connection is
    unaffected."""
    def get(target, head=b"", method=b"GET"):
        return request(head, method=method, target=target)
    for target in (b"/%2e%2e/v1/models", b"/v1/../v1/models", b"/v1/./models", b"//v1/models", b"/v1//models", b"/v1/models/", b"/v1%5cmodels", b"/v1/models%20", b"/v1/models%09", b"/v1/models%0d%0aX:%20y", b"/v1/models%3fa=b", b"/v1/models;a=b", b"/V1/models", b"/v1/MODELS", b"/v1/models%23",
                   b"/etc/passwd", b"/../../etc/passwd", b"/.git/config", b"/index.html%2500", b"/v1/conversations/../models", b"/v1/conversations/conv_x/",
                   b"/v1/conversations/conv_%2e%2e", b"/v1/responses/resp_x/input_items/..", b"/v1/responses/resp_%0a", b"/a=%3Cscript%3E", b"/v1%2fmodels", b"/v1%2Fmodels", b"/%76%31/models", b"/v1/%6dodels", b"/v1%252fmodels", b"/v1/models%2f",
                   b"/v1%5Cmodels", b"/v1/x%2f..%2fmodels", b"/v1/%2e/models", b"/$(reboot)", b"/`id`", b"/%7b%7b7*7%7d%7d",
                   b"/%F0%9F%98%80", b"/v1/models/%c3%a9"):
        yield f"target {name_of(target)}", get(target), {404}
    for target in (b"/%ff", b"/%c0%ae%c0%ae/v1/models", b"/%c0%af", b"/%ed%a0%80", b"/%f5%80%80%80"):
        yield f"target {name_of(target)}", get(target), {400, 404}
    for method in (b"TRACE", b"OPTIONS", b"PUT", b"PATCH", b"PROPFIND", b"MKCOL", b"LOCK", b"PURGE", b"DELETE", b"get", b"Get", b"GETT", b"BREW", b"LINK", b"SEARCH", b"CHECKOUT"):
        yield f"method {method.decode()}", get(b"/v1/models", method=method), {404, 405}
    plain = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    version, key = b"Sec-WebSocket-Version: 13\r\n", b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    for name, head, method in (("of HTTP/2", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n", b"GET"),
                               ("of TLS", b"Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n", b"GET"), ("that Connection does not name", b"Upgrade: websocket\r\n" + version + key, b"GET"),
                               ("that no header names", b"Connection: Upgrade\r\n" + version + key, b"GET"), ("of another name", b"Connection: Upgrade\r\nUpgrade: websocket2\r\n" + version + key, b"GET")):
        yield f"an upgrade {name}", get(b"/v1/responses", head, method), {426}
    for name, head in (("elsewhere", plain + version + key), ("at a path of the page", plain + version + key)):
        yield f"an upgrade {name}", get(b"/v1/models" if name == "elsewhere" else b"/", head), {404}
    for method in (b"POST", b"PUT", b"DELETE"):
        yield f"an upgrade by {method.decode()}", get(b"/v1/responses/resp_x/x", plain + version + key, method), {404, 405}
    for body in (b"null", b"[]", b"{", b'{"a":1,}', b"\x00", b"\xff\xfe{}", b'{"metadata":' + b"[" * 70 + b"]" * 70 + b"}", b'{"metadata": "\xed\xa0\x80"}', b'{"a":NaN}', b"{}{}", b"{} x",
                 b'{"metadata":1}', b'{"items":{}}', b"<xml/>", b"a=b&c=d"):
        yield f"body {name_of(body)}", request(b"Content-Length: %d\r\n" % len(body), body), {400}
        yield f"body in chunks {name_of(body)}", chunked(b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"), {400}


def shapes():
    for part in (transfer_encodings, content_lengths, hosts, first_lines, line_ends, headers, chunks, upgrades):
        yield from part()
