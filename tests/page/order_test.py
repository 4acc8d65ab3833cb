"""Events and reads arrive in every order that a network can produce; the page shows the same result. Each test delays
one of them."""

import re

import pytest
from chat_page import ENDLESS, GOES_ON
from playwright.sync_api import expect

SHORT = {"temperature": 0, "max_output_tokens": 40}


def shown_once(page, questions):
    """The page shows the server's state: these questions, each with its answer."""
    page.settled()
    expect(page.questions).to_have_text([re.compile(re.escape(text)) for text in questions])
    expect(page.answers).to_have_count(len(questions))
    assert [text for role, text in page.items() if role == "user"] == questions
    page.shows(page.answer())
    page.page.wait_for_function("() => !Object.keys(localStorage).some((key) => key.startsWith('ringside.pending.'))")


@pytest.fixture
def answering(server, tab):
    """Returns a function that opens a running answer in a new, wired page, holding back events from `events` on and
    reads of `path`."""

    def answering(events, path, at_once, **options):
        first = tab(server)
        first.begin()
        page = tab(server, wired=True, **options)
        page.wire.hold_events(events)
        page.wire.hold_reads(path, at_once)
        page.open_soon(first.id())
        page.wire.wait_reads()
        return page

    return answering


@pytest.mark.parametrize("at_once", [True, False], ids=["read before", "read after"])
@pytest.mark.parametrize("path", ["/items", "/input_items", "/memory"])
def test_turn_ends_before_messages_load(answering, path, at_once):
    page = answering("response.completed", path, at_once)
    page.cancel()
    page.wire.wait_told("response.incomplete")
    page.wire.release_reads()
    shown_once(page, [GOES_ON])


@pytest.mark.parametrize("events", ["ringside:session.snapshot", "response.output_text.delta", "response.output_text.done", "response.incomplete"])
def test_turn_is_loaded_before_its_end_event(answering, events):
    page = answering(events, "/items", at_once=False)
    page.cancel()
    page.wire.wait_held("response.incomplete")
    page.wire.release_reads()
    shown_once(page, [GOES_ON])
    page.wire.release_events()
    page.wire.wait_told("response.incomplete")
    shown_once(page, [GOES_ON])


def test_turn_is_loaded_while_running_and_events_follow(answering):
    page = answering("ringside:session.snapshot", "/items", at_once=True)
    page.wire.release_reads()
    expect(page.questions).to_have_count(1)
    # All that is known of the answer is that it is running.
    expect(page.page.locator(".message.live")).to_have_count(1)
    expect(page.page.get_by_text("no answer yet")).to_have_count(0)
    page.cancel()
    page.wire.wait_held("response.incomplete")
    page.wire.release_events()
    shown_once(page, [GOES_ON])


def test_connection_loss_while_messages_load(answering):
    page = answering("response.completed", "/items", at_once=True, lost_lines=True)
    page.wire.cut()
    page.wire.until("sockets === 2")
    page.wire.wait_told("ringside:session.resumed")
    page.wire.wait_reads(2)
    page.cancel()
    page.wire.wait_told("response.incomplete")
    page.wire.release_reads()
    shown_once(page, [GOES_ON])


def test_connection_loss_during_an_answer(server, tab):
    page = tab(server, wired=True)
    page.prefer(**SHORT)
    page.wire.hold_events("response.output_text.delta", text=10)
    page.ask("Lost in the middle")
    page.wire.wait_held("response.incomplete")
    page.wire.cut()
    shown_once(page, ["Lost in the middle"])
    assert page.wire.get("text") == page.answer()


@pytest.mark.parametrize("events", ["response.created", "response.in_progress", "response.incomplete"])
def test_question_arrives_but_its_acknowledgement_is_lost(server, tab, events):
    page = tab(server, wired=True)
    page.prefer(**SHORT)
    page.wire.hold_events(events)
    page.ask("Did it arrive?")
    page.wire.wait_held("response.incomplete")
    page.page.reload()
    shown_once(page, ["Did it arrive?"])
    assert len(page.call("GET", f"/v1/conversations/{page.id()}/memory")["turns"]) == 1


@pytest.mark.parametrize("running", [True, False])
def test_resent_question_is_shown_once(server, tab, running):
    page = tab(server, wired=True)
    page.prefer(**(ENDLESS if running else SHORT))
    page.wire.hold_events("response.created")
    page.ask(GOES_ON)
    page.wire.wait_held("response.output_text.delta" if running else "response.incomplete")
    server.pause()
    # The new page receives only the connection's opening.
    page.wire.hold_events(next_document=True)
    page.page.reload()
    expect(page.answers).to_have_count(1)
    expect(page.questions).to_have_count(1)
    if running:
        page.cancel()
        page.wire.wait_held("response.incomplete")
        page.wire.release_events()
    shown_once(page, [GOES_ON])


def test_another_client_asks(server, tab):
    page = tab(server, wired=True)
    page.ask_and_wait("Asked here")
    page.wire.hold_reads("/items", at_once=False)
    page.call("POST", "/v1/responses", {"conversation": page.id(), "input": "Asked elsewhere", **SHORT})
    page.wire.wait_reads()
    # An answer is not shown while its question is unknown.
    expect(page.answers).to_have_count(1)
    page.wire.release_reads()
    shown_once(page, ["Asked here", "Asked elsewhere"])
    expect(page.page.locator("#live")).to_contain_text("The answer is complete.")


def test_answer_of_another_client_is_unreadable(server, tab):
    page = tab(server, wired=True, lost_lines=True)
    page.ask_and_wait("Asked here")
    page.call("POST", "/v1/responses", {"conversation": page.id(), "input": "Asked elsewhere", "store": False, **SHORT})
    page.wire.until("told.filter((type) => type === 'response.incomplete').length === 2")
    shown_once(page, ["Asked here", "Asked elsewhere"])


def test_messages_added_without_an_event(server, tab):
    page = tab(server)
    page.ask_and_wait("First")
    page.call("POST", f"/v1/conversations/{page.id()}/items", {"items": [
        {"role": "user", "content": "Second"}, {"role": "assistant", "content": "Said elsewhere"}]})
    page.ask("Third")
    expect(page.answers).to_have_count(3)
    shown_once(page, ["First", "Second", "Third"])


def test_memory_of_an_earlier_turn_arrives_late(server, tab):
    page = tab(server, wired=True)
    page.ask_and_wait("First")
    page.wire.hold_reads("/memory", at_once=True)
    page.ask_and_wait("Second")
    page.wire.wait_reads()
    page.wire.let_pass()
    page.ask_and_wait("Third")
    facts = re.compile(r"\d+ cached, \d+ computed")
    expect(page.answers.last.locator(".stats")).to_contain_text(facts)
    page.wire.release_reads()
    page.page.get_by_role("button", name=re.compile("^Memory:")).click()
    expect(page.page.locator("#memory .turns li")).to_have_count(3)
    expect(page.answers.last.locator(".stats")).to_contain_text(facts)


@pytest.mark.parametrize("edited", [True, False], ids=["edited", "answered again"])
def test_version_is_answered_while_loading(server, tab, edited):
    page = tab(server, wired=True)
    page.ask_and_wait("Before")
    page.prefer(**SHORT)
    page.wire.hold_reads("/items", at_once=True)
    if edited:
        page.edit_last("After")
    else:
        page.answers.last.get_by_role("button", name="Answer again").click()
    page.wire.wait_reads()
    page.wire.release_reads()
    expect(page.page.get_by_text("2/2")).to_be_visible()
    shown_once(page, ["After" if edited else "Before"])
    expect(page.page.locator("#live")).to_contain_text("The answer is complete.")


def test_running_answer_does_not_block_editing(server, tab):
    page = tab(server)
    page.begin()
    page.prefer(**SHORT)
    editor = page.begin_edit()
    editor.fill("Something else")
    server.go_on()
    editor.press("Enter")
    expect(page.page.get_by_text("2/2")).to_be_visible()
    expect(page.page.get_by_text("2/2")).to_be_visible()
    shown_once(page, ["Something else"])
    # The running answer continues.
    page.page.get_by_role("button", name="Earlier version").click()
    expect(page.page.get_by_text("1/2")).to_be_visible()
    page.cancel()
    shown_once(page, [GOES_ON])


def test_open_editor_survives_updates(server, tab):
    page = tab(server, wired=True, lost_lines=True)
    page.ask_and_wait("First")
    page.begin_edit().fill("Not yet sent")
    page.call("POST", "/v1/responses", {"conversation": page.id(), "input": "Second", **SHORT})
    expect(page.answers).to_have_count(2)
    page.settled()
    editor = page.page.get_by_role("textbox", name="Edit your message")
    expect(editor).to_have_value("Not yet sent")
    # A connection lost at this moment does not discard it either.
    page.wire.cut(down=True)
    editor.press("Enter")
    expect(page.banner).to_contain_text("no connection")
    expect(editor).to_have_value("Not yet sent")
    expect(editor).to_be_editable()


@pytest.mark.parametrize("reloaded", [True, False])
def test_failed_answer_allows_a_retry(server, tab, reloaded):
    page = tab(server, wired=True)
    page.ask_and_wait("First")
    page.begin()
    if reloaded:
        page.page.reload()
        page.streaming(10)
    page.page.evaluate("() => { wire.change = 'failed'; }")
    page.wire.hold_reads("/memory", at_once=False)  # this read would reveal that the failure is simulated
    page.stop.click()
    server.go_on()
    expect(page.page.get_by_role("alert")).to_contain_text("Out of luck.")
    expect(page.answers).to_have_count(1)
    expect(page.questions).to_have_count(2)
    page.page.get_by_role("alert").get_by_role("button", name="Edit").click()
    expect(page.box).to_have_value(GOES_ON)
    expect(page.questions).to_have_count(1)


def test_stale_list_is_ignored(server, tab):
    page = tab(server, wired=True)
    page.ask_and_wait("Will be deleted")
    page.wire.hold_reads("/v1/conversations", at_once=True)
    page.page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    page.wire.wait_reads()
    page.page.get_by_role("button", name="More for Will be deleted").click()
    page.page.get_by_role("menuitem", name="Delete").click()
    expect(page.entries.filter(has_text="Will be deleted")).to_have_count(0)
    page.wire.let_pass()
    page.ask("Is new")
    expect(page.entries.filter(has_text="Is new")).to_have_count(1)
    page.wire.release_reads()
    page.settled()
    expect(page.entries.filter(has_text="Is new")).to_have_count(1)
    expect(page.entries.filter(has_text="Will be deleted")).to_have_count(0)


def test_unknown_item_types(server, tab):
    page = tab(server)
    id = page.make(("user", "What is the weather?"), ("assistant", "It rains."))

    def with_thoughts(route):
        answer = route.fetch()
        items = answer.json()
        items["data"].insert(1, {"id": "rs_1", "type": "reasoning", "summary": []})
        route.fulfill(response=answer, json=items)

    page.page.route(re.compile("/items"), with_thoughts)
    page.open(id)
    expect(page.questions).to_have_text(re.compile("weather"))
    expect(page.answers).to_contain_text("It rains.")
