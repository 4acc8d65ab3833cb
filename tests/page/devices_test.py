"""The page on fingers, on paper and on a home screen; where the message box is, and which keys work while writing."""

import json
import re

import pytest
from playwright.sync_api import expect

SMALL_TARGETS = """() => [...document.querySelectorAll("button, a, input, select, summary, textarea")].filter((element) => {
  if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) || element.closest(".unseen, .skip, [inert], .prose p")) return false;
  const target = element.matches("input[type=checkbox]") ? element.closest("label") : element;
  const { width, height } = target.getBoundingClientRect();
  return width > 1 && (width < 43.5 || height < 43.5);
}).map((element) => element.outerHTML.slice(0, 150))"""


def test_targets_are_large_enough_for_fingers(server, tab):
    page = tab(server, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    id = page.make(("user", "Why?\n```\ncode\n```"), ("assistant", "Because[^1].\n\n```py\nx\n```\n\n[^1]: note"), title="Fingers")
    page.open(id)
    page.box.fill("draft")
    page.page.locator("#composer input[type=file]").set_input_files({"name": "a.txt", "mimeType": "", "buffer": b"text"})
    small = lambda: page.page.evaluate(SMALL_TARGETS)
    assert page.page.evaluate("() => matchMedia('(pointer: coarse)').matches")
    expect(page.page.get_by_role("button", name="Remove a.txt")).to_be_visible()
    assert small() == []
    page.page.get_by_role("button", name="Show conversations").click()
    expect(page.page.get_by_role("searchbox")).to_be_visible()
    assert small() == []
    page.page.get_by_role("button", name="More for Fingers").first.click()
    assert small() == []
    page.page.keyboard.press("Escape")
    page.page.get_by_role("button", name="Settings").click()
    page.page.get_by_text("More settings").click()
    assert small() == []


def test_whole_conversation_is_printed(server, tab):
    page = tab(server)
    page.open(page.make(("user", "Print me"), ("assistant", "A paragraph.\n\n" * 120), title="On paper"))
    pages = len(re.findall(rb"/Type\s*/Page\b", page.page.pdf(format="A4")))
    assert pages >= 3
    page.page.emulate_media(media="print")
    for hidden in ("#composer", "#sidebar", ".ring-button", ".assistant .foot"):
        expect(page.page.locator(hidden).first).to_be_hidden()
    expect(page.answers.first).to_be_visible()


def test_page_can_be_installed(server, tab):
    page = tab(server)
    client = page.page.context.new_cdp_session(page.page)
    answer = client.send("Page.getAppManifest")
    manifest = json.loads(answer["data"])
    assert answer["errors"] == [] and manifest["name"] == "Ringside"
    # What browsers require; a headless shell does not check it.
    assert manifest["display"] == "standalone" and manifest["start_url"].startswith(manifest["scope"])
    assert {icon["purpose"] for icon in manifest["icons"]} == {"any", "maskable"}
    for icon in manifest["icons"]:
        assert page.page.evaluate("async (src) => { const icon = new Image(); icon.src = src; await icon.decode(); return icon.width; }",
                                  icon["src"]) > 0


@pytest.mark.parametrize("width", [360, 1440])
def test_message_box_is_in_the_middle_of_an_empty_page(server, tab, width):
    page = tab(server, viewport={"width": width, "height": 900})
    expect(page.page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
    box = page.page.locator("#composer .box").bounding_box()
    heading = page.page.get_by_role("heading", name="What is on your mind?").bounding_box()
    assert 300 < box["y"] + box["height"] / 2 < 700
    assert heading["y"] < box["y"]
    page.ask_and_wait("Down you go")
    box = page.page.locator("#composer .box").bounding_box()
    assert box["y"] + box["height"] > 840


def test_latest_is_offered_only_above_something(server, tab):
    page = tab(server, viewport={"width": 1000, "height": 600})
    short = page.make(("user", "Short"), ("assistant", "Yes."))
    long = page.make(("user", "Long"), ("assistant", "Text.\n\n" * 100))
    page.open(long)
    latest = page.page.get_by_role("button", name="Latest")
    expect(latest).to_be_hidden()
    page.page.locator("#scroll").evaluate("(box) => { box.scrollTop = 0; }")
    expect(latest).to_be_visible()
    page.open(short)
    expect(latest).to_be_hidden()
    # A conversation that becomes shorter.
    page.open(long)
    page.page.locator("#scroll").evaluate("(box) => { box.scrollTop = 0; }")
    expect(latest).to_be_visible()
    page.page.evaluate("() => document.querySelector('.message.assistant .body').replaceChildren('short')")
    expect(latest).to_be_hidden()


def test_keys_are_listed_while_writing(server, tab):
    page = tab(server)
    help = page.page.get_by_role("dialog", name="Keyboard")
    page.box.focus()
    page.page.keyboard.press("?")
    expect(help).to_be_visible()
    page.page.keyboard.press("Escape")
    expect(help).to_have_count(0)
    # The second one is a character, and so is one in a text.
    expect(page.box).to_be_focused()
    page.page.keyboard.press("?")
    expect(page.box).to_have_value("?")
    page.page.keyboard.press("Control+/")
    expect(help).to_be_visible()


def test_small_model_is_introduced_as_one(server, tab):
    page = tab(server)
    sizes = page.page.evaluate(
        """async () => {
          const { billionsOf, isSmall } = await import("/page/welcome.js");
          return [["smollm2-135m-instruct", "Qwen3-4B-Q4_K_M", "gpt-oss-20b", "tiny", "gemma-3n-e2b", "Llama-3.2-1.5B"].map(billionsOf), isSmall("smollm2-135m-instruct"), isSmall("tiny")];
        }""")
    assert sizes == [[0.135, 4, 20, None, None, 1.5], True, False]


def test_page_is_small(server, tab):
    """Everything that a browser loads for the page, with the table of a language."""
    page = tab(server, locale="de-DE")
    expect(page.page.get_by_role("heading", name="Womit kann ich helfen?")).to_be_visible()
    sizes = page.page.evaluate("""() => Object.fromEntries([...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
      .filter(({ name }) => !name.includes("/v1/")).map(({ name, decodedBodySize }) => [new URL(name).pathname, decodedBodySize]))""")
    assert {"/", "/page/page.css", "/page/strings/de.js", "/page/text/tex_parser.js"} <= set(sizes)
    assert all(path == "/" or path.startswith("/page/") for path in sizes)
    assert sum(sizes.values()) < 300_000


def test_shared_page_is_smaller(server, tab):
    page = tab(server, "/shared#conv_x.y", locale="de-DE", lost_lines=True)
    expect(page.page.get_by_role("heading", name="Dieser Link funktioniert nicht")).to_be_visible()
    sizes = page.page.evaluate("""() => performance.getEntriesByType("resource").filter(({ name }) => !name.includes("/v1/"))
      .map(({ decodedBodySize }) => decodedBodySize)""")
    assert sum(sizes) < 150_000
