"""Delays, releases or cuts the traffic between a page and its server as a test requires (page_wire.js), so that every
order of events and reads that a network and a busy server can produce is reproducible."""

from pathlib import Path

SCRIPT = Path(__file__).with_suffix(".js")


class Wire:
    """REQUIRES: the page has not been opened yet."""

    def __init__(self, page):
        self.page = page
        page.add_init_script(path=SCRIPT)

    def get(self, expression):
        """Reads a member of `wire`."""
        return self.page.evaluate(f"() => wire.{expression}")

    def until(self, condition):
        self.page.wait_for_function(f"() => wire.{condition}")

    # ---- events -------------------------------------------------------------------------------------------------------
    def hold_events(self, begin="", text=0, next_document=False):
        """Delays all events from the first whose type starts with `begin`, after `text` characters of an answer; only
        the opening of the connection is delivered. `next_document`: also after a reload."""
        self.page.evaluate("(hold) => wire.hold(...hold)", [begin, text, next_document])

    def wait_held(self, type):
        self.page.wait_for_function("(type) => wire.held?.some(([, event]) => event.type === type)", arg=type)

    def wait_told(self, type):
        """Waits until this was the last event delivered to the page."""
        self.page.wait_for_function("(type) => wire.told.at(-1) === type", arg=type)

    def release_events(self):
        self.page.evaluate("() => wire.release()")

    def cut(self, down=False):
        """Loses the connection and all delayed events. `down`: later connections fail, too."""
        self.page.evaluate("(down) => { wire.down = down; wire.cut(); }", down)

    # ---- reads --------------------------------------------------------------------------------------------------------
    def hold_reads(self, path, at_once):
        """Delays reads whose path has this suffix. `at_once`: asks the server now and delays its answer, which becomes
        stale; otherwise the server is asked on release."""
        self.page.evaluate("(reads) => Object.assign(wire, reads)", {"path": path, "atOnce": at_once})

    def wait_reads(self, number=1):
        self.page.wait_for_function("(number) => wire.reads.length >= number", arg=number)

    def let_pass(self):
        """Lets further reads pass; delayed ones stay delayed."""
        self.page.evaluate("() => { wire.path = null; }")

    def release_reads(self):
        self.page.evaluate("() => wire.releaseReads()")
