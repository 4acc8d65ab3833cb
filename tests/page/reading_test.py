"""Display and accessibility: long conversations and answers, keys, announcements, the theme."""

from playwright.sync_api import expect


def test_a_conversation_of_two_hundred_messages(server, tab):
    page = tab(server)
    id = page.make(title="Long")
    for begin in range(0, 200, 20):
        said = [{"role": "assistant" if n % 2 else "user", "content": f"message **{n}**"} for n in range(begin, begin + 20)]
        page.call("POST", f"/v1/conversations/{id}/items", {"items": said})
    page.page.goto(f"http://127.0.0.1:{server.port}/#/{id}")
    expect(page.answers).to_have_count(100)
    # It opens at its end.
    expect(page.answers.last).to_be_in_viewport()
    page.page.locator("#scroll").evaluate("(box) => { box.scrollTop = 0; }")
    expect(page.questions.first).to_be_in_viewport()
    page.page.get_by_role("button", name="Latest").click()
    expect(page.answers.last).to_be_in_viewport()


def test_an_answer_of_a_hundred_thousand_characters(server, tab):
    """The model writes a part; the rest is injected in pieces of many tokens, as to a page that fell behind."""
    page = tab(server, wired=True)
    page.begin()
    page.wire.hold_events()  # later events of the server must not interfere
    piece = "A sentence with **bold** words and `code`, and then another one.\n\n- an item\n- one more\n\n```python\nprint(1)\n```\n\n"
    page.page.evaluate("([piece, times]) => wire.write(piece, times)", [piece, 100_000 // len(piece) + 1])
    text = page.wire.get("text")
    assert len(text) >= 100_000
    page.page.wait_for_function("(most) => document.querySelectorAll('.message.live pre').length >= most", arg=text.count("print(1)"))
    page.wire.hold_reads("/memory", at_once=False)  # the server does not know the injected text
    page.page.evaluate("() => wire.end()")
    page.settled()
    page.shows(text)


def test_keys(server, tab):
    page = tab(server, viewport={"width": 1200, "height": 800})
    page.ask_and_wait("Keys")
    press = page.page.keyboard.press
    sidebar = page.page.get_by_role("navigation", name="Conversations")
    press("Control+b")
    expect(sidebar).to_be_hidden()
    press("Control+b")
    expect(sidebar).to_be_visible()
    memory = page.page.get_by_role("complementary")
    press("Control+.")
    expect(memory).to_be_visible()
    press("Control+.")
    expect(memory).to_be_hidden()
    page.box.fill("two")
    page.box.press("Shift+Enter")
    page.page.keyboard.type("lines")
    expect(page.box).to_have_value("two\nlines")
    page.box.fill("")
    press("Control+Shift+O")
    expect(page.page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
    page.page.locator("#scroll").focus()
    press("?")
    expect(page.page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    press("Escape")
    expect(page.page.get_by_role("dialog")).to_have_count(0)
    # From the search field into the list, to a conversation, into its menu and back.
    press("Control+k")
    page.page.keyboard.type("keys")
    expect(page.entries).to_have_count(1)
    press("ArrowDown")
    expect(page.entries.locator("a")).to_be_focused()
    press("Tab")
    press("Enter")
    items = page.page.get_by_role("menuitem")
    expect(items.first).to_be_focused()
    press("ArrowUp")
    expect(items.last).to_be_focused()
    press("Escape")
    expect(page.page.get_by_role("button", name="More for Keys")).to_be_focused()


def test_theme_is_persisted(server, tab):
    page = tab(server, color_scheme="light")
    body = page.page.locator("body")
    paper = lambda: page.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    light = paper()
    page.page.get_by_role("button", name="Theme: system").click()
    page.page.get_by_role("button", name="Theme: light").click()
    expect(page.page.get_by_role("button", name="Theme: dark")).to_be_visible()
    expect(body).not_to_have_css("background-color", light)
    dark = paper()
    page.page.reload()
    expect(page.page.get_by_role("button", name="Theme: dark")).to_be_visible()
    expect(body).to_have_css("background-color", dark)
    page.page.get_by_role("button", name="Theme: dark").click()
    expect(body).to_have_css("background-color", light)
    page.page.emulate_media(color_scheme="dark")
    expect(body).to_have_css("background-color", dark)


def test_screen_reader_announcements(server, tab):
    page = tab(server)
    # The first tab stop skips the list.
    page.page.keyboard.press("Tab")
    page.page.evaluate("() => document.activeElement.blur()")
    page.page.locator(".skip").focus()
    page.page.keyboard.press("Enter")
    expect(page.box).to_be_focused()
    page.ask_and_wait("Say it aloud", max_output_tokens=20)
    expect(page.page.locator("[aria-live=polite]#live")).to_contain_text("The answer is complete.")
    spoken = page.page.locator("#live").text_content()
    assert page.answer()[:10] in spoken
    assert spoken.index("The answer has started.") < spoken.index(page.answer()[:10]) < spoken.index("The answer is complete.")
