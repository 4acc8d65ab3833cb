"""What a person does with the page: asks, stops, goes on, asks again, edits, reloads, loses the server, opens two windows."""

import json
import re

from chat_page import ENDLESS, GOES_ON
from playwright.sync_api import expect


def test_asking(server, tab):
    page = tab(server)
    expect(page.page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
    page.ask_and_wait("Who are you?")
    expect(page.questions).to_have_text(re.compile("Who are you\\?"))
    assert page.items() == [("user", "Who are you?"), ("assistant", page.answer())]
    assert page.markup() == page.rendered(page.answer())
    expect(page.box).to_have_value("")
    expect(page.entries.first).to_contain_text("Who are you?")
    expect(page.page).to_have_title("Who are you? · Ringside")
    expect(page.answers.last.locator(".stats")).to_contain_text(re.compile(r"tokens/s.*first after.*0 found, \d+ computed"))
    # A second turn finds what the first has left.
    page.ask_and_wait("And\nwho am I?")
    assert page.items()[2] == ("user", "And\nwho am I?")
    expect(page.answers.last.locator(".stats")).to_contain_text(re.compile(r"[1-9]\d* found, \d+ computed"))


def test_stopping_and_going_on(server, tab):
    page = tab(server)
    page.prefer(**ENDLESS)
    page.ask(GOES_ON)
    page.streaming(200)
    page.page.keyboard.press("Escape")
    page.settled()
    expect(page.answers.last).to_contain_text("You stopped this answer.")
    first = page.answer()
    assert len(first) >= 200 and page.markup() == page.rendered(first)
    page.page.get_by_role("button", name="Continue").click()
    page.streaming(len(first) + 200)
    page.stop.click()
    page.settled()
    # One answer to whoever reads it, whatever the server calls it.
    expect(page.answers).to_have_count(1)
    assert page.answer().startswith(first) and len(page.answer()) > len(first)
    assert page.markup() == page.rendered(page.answer())


def test_answering_again_keeps_both_answers(server, tab):
    page = tab(server)
    page.ask_and_wait("Asked of both")
    page.ask_and_wait("Two", temperature=2)
    first, answer = page.id(), page.answer()
    page.answers.last.hover()
    page.answers.last.get_by_role("button", name="Answer again").click()
    expect(page.page.get_by_text("2/2")).to_be_visible()
    page.settled()
    assert page.id() != first
    assert [text for role, text in page.items() if role == "user"] == ["Asked of both", "Two"]
    again = page.answer()
    page.page.get_by_role("button", name="Earlier version").click()
    expect(page.page.get_by_text("1/2")).to_be_visible()
    assert page.id() == first and page.markup() == page.rendered(answer)
    # Another browser finds the same, and the list shows one conversation.
    other = tab(server, f"/#/{first}")
    expect(other.page.get_by_text("1/2")).to_be_visible()
    other.page.get_by_role("button", name="Later version").click()
    expect(other.page.get_by_text("2/2")).to_be_visible()
    assert other.markup() == other.rendered(again)
    expect(other.entries.filter(has_text="Asked of both")).to_have_count(1)


def test_editing_makes_a_version(server, tab):
    page = tab(server)
    page.ask_and_wait("Edited later")
    page.ask_and_wait("Stays behind")
    page.questions.first.hover()
    page.questions.first.get_by_role("button", name="Edit").click()
    page.page.get_by_role("textbox", name="Edit your message").fill("Edited now")
    page.page.keyboard.press("Enter")
    expect(page.questions.first).to_contain_text("Edited now")
    expect(page.page.get_by_text("2/2")).to_be_visible()
    page.settled()
    assert [text for role, text in page.items() if role == "user"] == ["Edited now"]
    page.page.get_by_role("button", name="Earlier version").click()
    expect(page.questions.first).to_contain_text("Edited later")
    expect(page.questions).to_have_count(2)
    # The arrow up edits the last; Escape leaves it as it was.
    page.box.focus()
    page.page.keyboard.press("ArrowUp")
    expect(page.page.get_by_role("textbox", name="Edit your message")).to_have_value("Stays behind")
    page.page.keyboard.press("Escape")
    expect(page.questions.last).to_contain_text("Stays behind")


def test_reload_in_mid_answer(server, tab):
    page = tab(server)
    page.prefer(**ENDLESS)
    page.ask(GOES_ON)
    before = page.streaming(1_000)
    page.box.fill("half a thought")
    page.page.reload()
    page.streaming(len(before) + 500)
    assert page.shown().startswith(before[:900])
    expect(page.questions).to_have_count(1)
    expect(page.box).to_have_value("half a thought")
    page.page.keyboard.press("Escape")
    page.settled()
    assert page.markup() == page.rendered(page.answer())


def test_the_server_is_killed_in_mid_answer(start, tab, tmp_path):
    server = start("--store-path", tmp_path / "store")
    page = tab(server, lost_lines=True)
    page.prefer(**ENDLESS)
    page.ask(GOES_ON)
    page.streaming(1_000)
    page.box.fill("half a thought")
    server.kill()
    expect(page.banner).to_contain_text("Nothing you wrote is")
    expect(page.banner.get_by_role("button", name="Try now")).to_be_visible()
    before = page.shown()
    again = start("--store-path", tmp_path / "store", "--port", server.port)
    page.server = again
    # It goes on by itself, in the same message.
    page.streaming(len(before) + 500)
    assert page.shown().startswith(before)
    expect(page.answers).to_have_count(1)
    expect(page.banner).to_be_hidden()
    expect(page.box).to_have_value("half a thought")
    page.page.keyboard.press("Escape")
    page.settled()
    assert len([role for role, _ in page.items() if role == "assistant"]) == 1
    assert page.markup() == page.rendered(page.answer())


def test_a_question_asked_of_a_dead_server_is_asked_once(start, tab, tmp_path):
    server = start("--store-path", tmp_path / "store")
    page = tab(server, lost_lines=True)
    page.ask_and_wait("First")
    server.kill()
    expect(page.banner).to_contain_text("Nothing you wrote is")
    page.ask("Second")
    expect(page.questions).to_have_count(2)
    page.page.evaluate("() => sessionStorage.setItem('waited', '1')")
    page.server = start("--store-path", tmp_path / "store", "--port", server.port)
    expect(page.answers).to_have_count(2)
    page.settled()
    assert [text for role, text in page.items() if role == "user"] == ["First", "Second"]


def test_two_windows(server, tab):
    one = tab(server)
    one.ask_and_wait("Where are you?")
    two = tab(server, f"/#/{one.id()}", beside=one)
    expect(two.answers).to_have_count(1)
    expect(one.banner).to_contain_text("another window")
    two.ask_and_wait("Here")
    one.banner.get_by_role("button", name="Use it here").click()
    expect(one.answers).to_have_count(2)
    expect(two.banner).to_contain_text("another window")
    one.ask_and_wait("There")
    # Writing takes it over, too.
    two.ask("Here again")
    expect(two.answers).to_have_count(4)
    two.settled()
    assert [text for role, text in two.items() if role == "user"] == ["Where are you?", "Here", "There", "Here again"]
    expect(one.banner).to_contain_text("another window")
    # Different conversations do not disturb each other.
    two.page.get_by_role("button", name="New conversation").click()
    two.ask_and_wait("Elsewhere")
    one.banner.get_by_role("button", name="Use it here").click()
    expect(one.banner).to_be_hidden()
    expect(two.banner).to_be_hidden()


def test_two_hundred_conversations(start, tab):
    server = start()
    page = tab(server)
    for number in range(200):
        page.make(title=f"Conversation number {number}")
    page.page.reload()
    expect(page.entries).to_have_count(200)
    expect(page.entries.first).to_contain_text("number 199")
    page.page.keyboard.press("Control+k")
    page.page.keyboard.type("NUMBER 17")
    expect(page.entries).to_have_count(11)
    page.page.keyboard.press("Enter")
    expect(page.page.locator("#top .title")).to_have_text("Conversation number 179")
    page.page.get_by_role("button", name="More for Conversation number 179").click()
    page.page.get_by_role("menuitem", name="Rename").click()
    page.page.get_by_role("textbox", name="Title").fill("Number 17, renamed")
    page.page.get_by_role("button", name="Save").click()
    expect(page.page.locator("#top .title")).to_have_text("Number 17, renamed")
    page.page.get_by_role("button", name="More for Number 17, renamed").click()
    page.page.get_by_role("menuitem", name="Delete").click()
    page.page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.entries).to_have_count(10)
    expect(page.page.get_by_role("heading", name="What is on your mind?")).to_be_visible()


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
    page = tab(server)
    page.prefer(**ENDLESS)
    page.ask(GOES_ON)
    page.streaming(100_000)
    page.page.keyboard.press("Escape")
    page.settled()
    assert len(page.answer()) >= 100_000
    assert page.markup() == page.rendered(page.answer())


def test_export_and_import(server, tab, tmp_path):
    page = tab(server)
    page.ask_and_wait("Carry me over")
    page.page.get_by_role("button", name="More for Carry me over").click()
    with page.page.expect_download() as download:
        page.page.get_by_role("menuitem", name="Export").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    assert file.name == "Carry me over.ringside"
    before, items = page.id(), page.items()
    page.page.locator("#sidebar input[type=file]").set_input_files(file)
    expect(page.page).not_to_have_url(re.compile(before))
    expect(page.answers).to_have_count(1)
    assert page.items() == items
    expect(page.entries.filter(has_text="Carry me over")).to_have_count(2)


def test_settings_reach_the_server(server, tab):
    page = tab(server)
    page.page.get_by_role("button", name="Settings").click()
    dialog = page.page.get_by_role("dialog", name="Settings")
    dialog.get_by_label("System prompt").fill("Be brief.")
    dialog.get_by_label("Longest answer").fill("7")
    dialog.get_by_label("Temperature").fill("0")
    dialog.get_by_role("button", name="Save").click()
    page.ask("Hello")
    expect(page.answers).to_contain_text("greatest length")
    page.settled()
    memory = page.call("GET", f"/v1/conversations/{page.id()}/memory")
    response = page.call("GET", f"/v1/responses/{memory['turns'][0]['response_id']}")
    assert (response["instructions"], response["max_output_tokens"], response["temperature"]) == ("Be brief.", 7, 0)
    # Told once, it stays the conversation's; other words for it hold from the next message on.
    page.page.get_by_role("button", name="Settings").click()
    expect(dialog.get_by_label("System prompt")).to_have_value("Be brief.")
    dialog.get_by_label("System prompt").fill("Be long.")
    dialog.get_by_role("button", name="Save").click()
    page.ask("Hello again")
    expect(page.answers).to_have_count(2)
    page.settled()
    memory = page.call("GET", f"/v1/conversations/{page.id()}/memory")
    assert page.call("GET", f"/v1/responses/{memory['turns'][1]['response_id']}")["instructions"] == "Be long."


def test_the_memory_is_shown(start, tab):
    server = start("--memory-len", 128)
    page = tab(server)
    page.ask_and_wait("Remember this", max_output_tokens=30)
    page.page.get_by_role("button", name=re.compile("^Memory:")).click()
    panel = page.page.get_by_role("complementary")
    expect(panel.get_by_text("Left the window").locator("xpath=..")).to_contain_text(re.compile(r"window\s*0$"))
    for _ in range(4):
        page.ask_and_wait("And this", max_output_tokens=40)
    memory = page.call("GET", f"/v1/conversations/{page.id()}/memory")
    gone = memory["first_live"] - memory["pinned"]
    assert gone > 0
    expect(panel.get_by_text("Left the window", exact=True).locator("xpath=..")).to_contain_text(str(gone))
    expect(panel.locator("[aria-current]")).to_have_text("Slot")
    expect(panel.locator(".turns li")).to_have_count(5)
    last = memory["turns"][-1]["ringside"]
    expect(panel.locator(".turns li").first).to_contain_text(f"{last['tokens_reused']} found")


def test_a_refusal_is_shown_where_it_belongs(start, tab):
    page = tab(start("--max-input-tokens", 200))
    page.ask("a long question " * 40)
    expect(page.page.get_by_role("alert")).to_contain_text(re.compile("tokens"))
    page.page.reload()
    expect(page.page.get_by_role("alert")).to_contain_text(re.compile("tokens"))
    page.page.get_by_role("alert").get_by_role("button", name="Edit").click()
    expect(page.box).to_have_value("a long question " * 40)
    page.ask_and_wait("short")


def test_a_server_with_a_key(start, tab):
    page = tab(start("--api-key", "open-sesame"), lost_lines=True)
    dialog = page.page.get_by_role("dialog", name="Settings")
    dialog.get_by_label("API key").fill("open-sesame")
    dialog.get_by_role("button", name="Save").click()
    page.prefer(temperature=0, max_output_tokens=8)
    page.ask("Let me in")
    expect(page.answers).to_have_count(1)
    page.settled()
    # For this tab only.
    assert page.page.evaluate("() => JSON.stringify(localStorage)").count("sesame") == 0
    page.page.reload()
    expect(page.answers).to_have_count(1)


def test_keys(server, tab):
    page = tab(server, viewport={"width": 1200, "height": 800})
    page.ask_and_wait("Keys")
    sidebar = page.page.get_by_role("navigation", name="Conversations")
    page.page.keyboard.press("Control+b")
    expect(sidebar).to_be_hidden()
    page.page.keyboard.press("Control+b")
    expect(sidebar).to_be_visible()
    page.box.fill("two")
    page.box.press("Shift+Enter")
    page.page.keyboard.type("lines")
    expect(page.box).to_have_value("two\nlines")
    page.box.fill("")
    page.page.keyboard.press("Control+Shift+O")
    expect(page.page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
    page.page.locator("#scroll").focus()
    page.page.keyboard.press("?")
    expect(page.page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.page.keyboard.press("Escape")
    expect(page.page.get_by_role("dialog")).to_have_count(0)


def test_drafts_are_each_conversations_own(server, tab):
    page = tab(server)
    page.ask_and_wait("Mine")
    id = page.id()
    page.box.fill("for the old one")
    page.page.get_by_role("button", name="New conversation").first.click()
    expect(page.box).to_have_value("")
    page.box.fill("for the new one")
    page.page.reload()
    expect(page.box).to_have_value("for the new one")
    page.open(id)
    expect(page.box).to_have_value("for the old one")


def test_no_page(start):
    assert start("--no-ui").get("/")[0] == 404


def test_what_is_read_out(server, tab):
    page = tab(server)
    # The first stop leads past the list.
    page.page.keyboard.press("Tab")
    page.page.evaluate("() => document.activeElement.blur()")
    page.page.locator(".skip").focus()
    page.page.keyboard.press("Enter")
    expect(page.box).to_be_focused()
    page.ask_and_wait("Say it aloud", max_output_tokens=20)
    expect(page.page.locator("[aria-live=polite]#live")).to_contain_text("The answer is complete.")
    spoken = page.page.locator("#live").text_content()
    assert json.dumps(page.shown())[1:20] in json.dumps(spoken)
