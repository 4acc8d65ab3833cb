"""User actions in a conversation: ask, stop, continue, regenerate, edit, change settings."""

import json
import re

import pytest
from chat_page import ENDLESS
from playwright.sync_api import expect


def test_asking(server, tab):
    page = tab(server)
    expect(page.page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
    page.ask_and_wait("Who are you?")
    expect(page.questions).to_have_text(re.compile("Who are you\\?"))
    assert page.items() == [("user", "Who are you?"), ("assistant", page.answer())]
    page.shows(page.answer())
    expect(page.box).to_have_value("")
    expect(page.entries.first).to_contain_text("Who are you?")
    expect(page.page).to_have_title("Who are you? · Ringside")
    expect(page.answers.last.locator(".stats")).to_contain_text(re.compile(r"tokens/s.*first after.*0 cached, \d+ computed"))
    # A second turn reuses the first one's cache.
    page.ask_and_wait("And\nwho am I?")
    assert page.items()[2] == ("user", "And\nwho am I?")
    expect(page.answers.last.locator(".stats")).to_contain_text(re.compile(r"[1-9]\d* cached, \d+ computed"))


@pytest.mark.parametrize("by", ["Escape", "the button"])
def test_stop_before_the_answer_starts(server, tab, by):
    page = tab(server, wired=True)
    page.ask_and_wait("First")
    page.prefer(**ENDLESS)
    page.wire.hold_events("response.created")
    page.ask("Second")
    page.wire.wait_held("response.created")
    page.page.keyboard.press("Escape") if by == "Escape" else page.stop.click()
    page.wire.release_events()
    page.settled()
    expect(page.answers.last).to_contain_text("You stopped this answer.")


def test_stop_and_continue(server, tab):
    page = tab(server)
    page.begin()
    page.page.keyboard.press("Escape")
    server.go_on()
    page.settled()
    expect(page.answers.last).to_contain_text("You stopped this answer.")
    first = page.answer()
    page.shows(first)
    page.page.get_by_role("button", name="Continue").click()
    expect(page.stop).to_have_count(1)
    expect(page.page.locator(".message.live .stats")).to_contain_text("tokens/s")
    page.stop.click()
    page.settled()
    # The reader sees one answer, whatever items the server stores.
    expect(page.answers).to_have_count(1)
    assert page.answer().startswith(first) and len(page.answer()) > len(first)
    page.shows(page.answer())


def test_regenerate_keeps_both_answers(server, tab):
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
    assert page.id() == first
    page.shows(answer)
    # Another browser shows the same, and the list has one conversation.
    other = tab(server, f"/#/{first}")
    expect(other.page.get_by_text("1/2")).to_be_visible()
    other.page.get_by_role("button", name="Later version").click()
    expect(other.page.get_by_text("2/2")).to_be_visible()
    other.shows(again)
    expect(other.entries.filter(has_text="Asked of both")).to_have_count(1)


def test_edit_creates_a_version(server, tab):
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
    # Arrow up edits the last message; Escape leaves it unchanged.
    page.box.focus()
    page.page.keyboard.press("ArrowUp")
    expect(page.page.get_by_role("textbox", name="Edit your message")).to_have_value("Stays behind")
    page.page.keyboard.press("Escape")
    expect(page.questions.last).to_contain_text("Stays behind")


def test_drafts_are_per_conversation(server, tab):
    page = tab(server)
    page.ask_and_wait("Mine")
    id = page.id()
    page.box.fill("for the old one")
    page.begin_new()
    expect(page.box).to_have_value("")
    page.box.fill("for the new one")
    page.page.reload()
    expect(page.box).to_have_value("for the new one")
    page.open(id)
    expect(page.box).to_have_value("for the old one")


def test_no_page(start):
    assert start("--no-ui").get("/")[0] == 404


def test_call_is_shown_while_streaming(server, tab):
    page = tab(server, wired=True)
    page.open(page.make(("user", "Hi")))
    page.wire.hold_events("response.function_call_arguments.done")
    server.pause()  # until the page knows that an answer is coming
    schema = {"type": "object", "properties": {"s": {"type": "string", "minLength": 150}}, "required": ["s"], "additionalProperties": False}
    asked = page.call("POST", "/v1/responses", {
        "model": "tiny", "conversation": page.id(), "input": "Call", "background": True, "temperature": 1, "seed": 1, "max_output_tokens": 400,
        "tools": [{"type": "function", "name": "f", "parameters": schema, "strict": True}], "tool_choice": "required", "parallel_tool_calls": False})
    expect(page.stop).to_be_visible()
    server.go_on()
    page.wire.wait_held("response.function_call_arguments.done")
    body = page.page.locator(".message.live .body")
    expect(body.locator(".call figcaption")).to_contain_text("f")
    expect(body).to_contain_text('{"s":')
    expect(body.locator("code")).to_have_count(1)
    page.wire.release_events()
    page.settled()
    [call] = page.call("GET", f"/v1/responses/{asked['id']}")["output"]
    page.shows(f"````call f\n{call['arguments']}\n````")


def test_truncated_call_continues(server, tab):
    """Cut inside a call's arguments: it continues with its tools, although the page does not send them, and is
    displayed once, whole."""
    page = tab(server)
    page.open(page.make(("user", "Hi")))
    schema = {"type": "object", "properties": {"s": {"type": "string", "minLength": 60, "maxLength": 90}}, "required": ["s"],
              "additionalProperties": False}
    [cut] = page.call("POST", "/v1/responses", {
        "model": "tiny", "conversation": page.id(), "input": "Call", "temperature": 1, "seed": 1, "max_output_tokens": 60,
        "tools": [{"type": "function", "name": "f", "parameters": schema, "strict": True}], "tool_choice": "required",
        "parallel_tool_calls": False})["output"]
    assert cut["status"] == "incomplete" and len(cut["arguments"]) > 5
    proceed = page.page.get_by_role("button", name="Continue")
    proceed.click()
    expect(proceed).to_have_count(0)
    page.settled()
    call = page.call("GET", f"/v1/conversations/{page.id()}/items?order=desc&limit=1")["data"][0]
    assert call["id"] == cut["id"] and call["status"] == "completed"
    assert call["arguments"].startswith(cut["arguments"]) and 60 <= len(json.loads(call["arguments"])["s"]) <= 90
    shown = f"````call f\n{call['arguments']}\n````"
    page.shows(shown)
    page.page.reload()
    expect(page.answers.last).to_contain_text('"s":')
    page.shows(shown)
