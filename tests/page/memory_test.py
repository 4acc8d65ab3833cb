"""The memory ring against the server's report."""

import math
import re

import pytest
from playwright.sync_api import expect
from server_process import wait_for

MEMORY_LEN = 128


@pytest.fixture
def remembering(start, tab):
    """A page whose memory panel is open and whose window is small."""
    page = tab(start("--memory-len", MEMORY_LEN), viewport={"width": 1400, "height": 900})
    page.page.get_by_role("button", name="Settings").click()
    page.page.get_by_label("System prompt").fill("Be brief.")
    page.save()
    page.ask_and_wait("Remember this", max_output_tokens=30, instructions="Be brief.")
    page.page.get_by_role("button", name=re.compile("^Memory:")).click()
    return page


def turn_on(page):
    """Runs turns until messages have left the window and the ring has wrapped; returns the server's report."""
    for _ in range(4):
        page.ask_and_wait("And this", max_output_tokens=40)
    memory = page.call("GET", f"/v1/conversations/{page.id()}/memory")
    assert memory["pinned"] > 0 and memory["first_live"] > memory["pinned"] and memory["position"] > MEMORY_LEN
    return memory


def rows_of(page, kind, size):
    """The cache rows that the ring shows in this colour, from the end points of its arcs."""
    rows = set()
    for path in page.page.locator(f"#memory .ring .part.{kind}").all():
        x0, y0, x1, y1 = map(float, re.fullmatch(r"M(\S+) (\S+)A.* (\S+) (\S+)", path.get_attribute("d")).groups())
        begin, end = (math.atan2(x - 50, 50 - y) / (2 * math.pi) % 1 * size for x, y in ((x0, y0), (x1, y1)))
        begin, end = round(begin), round(end)
        rows.update(range(begin, end if end > begin else size))
    return rows


def test_messages_are_drawn_at_their_ring_positions(remembering):
    memory = turn_on(remembering)
    pinned, size = memory["pinned"], memory["pinned"] + MEMORY_LEN
    expect(remembering.page.locator("#memory .turns li")).to_have_count(5)
    for role, kind in (("user", "question"), ("assistant", "answer")):
        expected = {pinned + (place - pinned) % MEMORY_LEN
                    for message in memory["messages"] if message["role"] == role
                    for place in range(max(message["begin"], memory["first_live"], pinned), message["end"])}
        assert expected
        wait_for(lambda: rows_of(remembering, kind, size) == expected, f"the {kind}s' rows in the ring")
    assert rows_of(remembering, "pinned", size) == set(range(pinned))


def test_memory_numbers(remembering):
    number = lambda name: remembering.page.get_by_role("complementary").get_by_text(name, exact=True).locator("xpath=..")
    expect(number("Left the window")).to_contain_text(re.compile(r"window\s*0$"))
    memory = turn_on(remembering)
    live = memory["position"] - memory["first_live"]
    for name, tokens in (("Left the window", memory["first_live"] - memory["pinned"]), ("Pinned", memory["pinned"]), ("In view", live),
                         ("Free", MEMORY_LEN - live)):
        expect(number(name)).to_contain_text(re.compile(rf"{name}\s*{tokens}$"))


def test_cached_and_computed_tokens_per_turn(remembering):
    memory = turn_on(remembering)
    turns = remembering.page.locator("#memory .turns li")
    expect(turns).to_have_count(5)
    for turn, shown in zip(memory["turns"], reversed(turns.all())):
        report = turn["ringside"]
        expect(shown).to_contain_text(f"{report['tokens_reused']} cached{report['tokens_computed']} computed")
        expect(shown).to_contain_text(f"{turn['output_tokens']} tokens")
    expect(turns.first).to_contain_text("from its slot")
    expect(turns.last).to_contain_text("new")
    expect(turns.filter(has_text="left the window").first).to_be_visible()


@pytest.mark.parametrize(("cache", "label", "note"), [
    ("slot", "Slot", "ready"), ("host", "Host", "in memory"), ("disk", "Disk", "on disk"), ("new", None, "reads the conversation again")])
def test_cache_location(server, tab, cache, label, note):
    page = tab(server, viewport={"width": 1400, "height": 900})
    page.ask_and_wait("Where are you?")

    def elsewhere(route):
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"cache": cache})

    page.page.route(re.compile("/memory$"), elsewhere)
    page.page.get_by_role("button", name=re.compile("^Memory:")).click()
    expect(page.page.locator("#memory .tier-note")).to_contain_text(note)
    here = page.page.locator("#memory [aria-current]")
    expect(here).to_have_text([label] if label else [])
    page.page.unroute_all(behavior="wait")  # the page polls now and then
