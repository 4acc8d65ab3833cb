"""What goes between one page and its server, held back, let go or cut off as a test wants it (page_wire.js): so that whatever a
network and a busy server may do to the order of events and reads can be had every time."""

from pathlib import Path

SCRIPT = Path(__file__).with_suffix(".js")


class Wire:
    """Of a page that has not yet been opened."""

    def __init__(self, page):
        self.page = page
        page.add_init_script(path=SCRIPT)

    def get(self, expression):
        """Of `wire`."""
        return self.page.evaluate(f"() => wire.{expression}")

    def until(self, condition):
        self.page.wait_for_function(f"() => wire.{condition}")

    # ---- events -------------------------------------------------------------------------------------------------------
    def hold_events(self, begin="", text=0, next_document=False):
        """From the first event whose type begins so, once so much of an answer was told, everything stays on the way; but that
        the page is connected it hears. `next_document`: when it is loaded again, too."""
        self.page.evaluate("(hold) => wire.hold(...hold)", [begin, text, next_document])

    def wait_held(self, type):
        self.page.wait_for_function("(type) => wire.held?.some(([, event]) => event.type === type)", arg=type)

    def wait_told(self, type):
        """Until this was the last that the page heard."""
        self.page.wait_for_function("(type) => wire.told.at(-1) === type", arg=type)

    def release_events(self):
        self.page.evaluate("() => wire.release()")

    def cut(self, down=False):
        """The connection is lost, and what was on the way with it. `down`: so is every other."""
        self.page.evaluate("(down) => { wire.down = down; wire.cut(); }", down)

    # ---- reads --------------------------------------------------------------------------------------------------------
    def hold_reads(self, path, at_once):
        """Reads whose path ends so get no answer. `at_once`: the server is asked at once, and what it says grows old on the
        way; else it is asked when the reads are let go."""
        self.page.evaluate("(reads) => Object.assign(wire, reads)", {"path": path, "atOnce": at_once})

    def wait_reads(self, number=1):
        self.page.wait_for_function("(number) => wire.reads.length >= number", arg=number)

    def let_pass(self):
        """Further reads; those that wait go on waiting."""
        self.page.evaluate("() => { wire.path = null; }")

    def release_reads(self):
        self.page.evaluate("() => wire.releaseReads()")
