"""The transport's WebSocket against Autobahn's 517 cases, as packaged by kosoku:

    scripts/python tests/system/transport/conformance_test.py [--echo-server PATH] [--cases GLOB]

A test binary echoes through the server's own transport and settings; only the message size limit is raised for the
large-message cases (9.*). Every verdict must match the expected one; exits with 1 otherwise.
"""

import argparse
import asyncio
import collections
import contextlib
import os
import subprocess
import sys
from pathlib import Path

import kosoku

ROOT = Path(__file__).resolve().parents[3]
PATH = "/echo"
CASES = 517
SERVER_MESSAGE_BYTES, LARGE_MESSAGE_BYTES = 4 << 20, 64 << 20
LARGE = "9.*"
# Verdicts other than OK that the suite itself does not count as failures. After a protocol violation the connection may
# close before an earlier message is echoed; invalid UTF-8 may be refused at the end of its frame; the standard leaves
# some closes open; permessage-deflate is not offered.
NON_STRICT = {"3.2", "3.3", "3.4", "4.1.3", "4.1.4", "4.1.5", "4.2.3", "4.2.4", "4.2.5", "5.15", "6.4.1", "6.4.2", "6.4.3", "6.4.4"}
INFORMATIONAL = {"7.1.6", "7.13.1", "7.13.2"}


@contextlib.contextmanager
def echo_server(binary, max_message_bytes):
    """Runs an echo server; yields its port."""
    with subprocess.Popen([binary, PATH, str(max_message_bytes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()
            assert process.wait(60) == 0, "the echo server did not end well"


def run(port, cases, exclude=None):
    """Returns the verdict of every case."""
    async def measured():
        return await kosoku.run_fuzzingclient(f"127.0.0.1:{port}{PATH}", cases, exclude)

    try:
        return asyncio.run(measured())
    except kosoku.FailureError as failure:
        return failure.results


def allowed(case):
    if case.split(".")[0] in ("12", "13"):
        return {"UNIMPLEMENTED"}
    return {"OK"} | ({"NON-STRICT"} if case in NON_STRICT else set()) | ({"INFORMATIONAL"} if case in INFORMATIONAL else set())


def complaints(results):
    for result in results:
        verdict, close = result.behavior.value, result.behavior_close.value
        good_close = {"OK", "INFORMATIONAL"} if verdict != "UNIMPLEMENTED" else {close}
        if verdict not in allowed(result.case_id) or close not in good_close:
            yield f"{result.case_id}: {verdict}, close {close}: {result.result}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", help="only these: a number, perhaps with a *")
    parser.add_argument("--echo-server", default=os.environ.get("RINGSIDE_ECHO_SERVER") or str(ROOT / "build/cpu/bin/echo_server"))
    options = parser.parse_args()
    parts = [(None, [LARGE], SERVER_MESSAGE_BYTES), ([LARGE], None, LARGE_MESSAGE_BYTES)]
    if options.cases:
        parts = [([options.cases], None, LARGE_MESSAGE_BYTES)]
    results = []
    for cases, exclude, max_message_bytes in parts:
        with echo_server(options.echo_server, max_message_bytes) as port:
            results += run(port, cases, exclude)
    wrong = list(complaints(results))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    if not options.cases and len(results) != CASES:
        wrong.append(f"{len(results)} cases were run, not {CASES}")
    verdicts = collections.Counter(result.behavior.value for result in results)
    print(f"{len(results)} cases: " + ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
