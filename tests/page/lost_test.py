"""No data is lost and no request repeated when the page is reloaded, the server is killed, or another window takes
over."""

import pytest
from chat_page import GOES_ON
from playwright.sync_api import expect
from server_process import wait_for


def test_reload_in_mid_answer(server, tab):
    page = tab(server, wired=True)
    page.begin()
    told = page.wire.get("text")
    page.box.fill("half a thought")
    page.page.reload()
    page.streaming()
    expect(page.questions).to_have_count(1)
    expect(page.box).to_have_value("half a thought")
    page.page.keyboard.press("Escape")
    server.go_on()
    page.settled()
    assert len(page.items()) == 2 and page.answer().startswith(told)
    page.shows(page.answer())


def test_answer_continues_after_a_restart(start, tab, tmp_path):
    """A stopping server reports the end of the answer before it exits, and accepts no further turn."""
    flags = ("--store-path", tmp_path / "store", "--shutdown-timeout", 1)
    server = start(*flags)
    page = tab(server, lost_lines=True, wired=True)
    page.begin()
    server.go_on()
    server.terminate()
    wait_for(lambda: not server.running(), "the server to end")
    told = page.wire.get("text")
    expect(page.banner).to_contain_text("Nothing you wrote is")
    page.server = start(*flags, "--port", server.port)
    expect(page.page.locator(".message.live .stats")).to_contain_text("tokens/s")
    expect(page.answers).to_have_count(1)
    page.page.keyboard.press("Escape")
    page.settled()
    assert [role for role, _ in page.items()] == ["user", "assistant"]
    assert page.answer().startswith(told)


@pytest.mark.parametrize("durability", ["token", "turn"])
@pytest.mark.parametrize("reloaded", [False, True], ids=["kept open", "loaded again"])
def test_server_killed_during_an_answer(start, tab, tmp_path, durability, reloaded):
    flags = ("--store-path", tmp_path / "store", "--durability", durability)
    server = start(*flags)
    page = tab(server, lost_lines=True, wired=True)
    page.begin()
    # With "turn", delivered events may not be on disk yet.
    wait_for(lambda: server.metrics()["ringside_journal_queue_entries"] == 0, "what was told is in the journal")
    page.box.fill("half a thought")
    server.kill()
    told = page.wire.get("text")
    expect(page.banner).to_contain_text("Nothing you wrote is")
    expect(page.banner.get_by_role("button", name="Try now")).to_be_visible()
    server.go_on()
    page.server = start(*flags, "--port", server.port)
    if reloaded:
        page.page.reload()
        expect(page.answers).to_contain_text("The server stopped in the middle of this answer.")
        page.page.get_by_role("button", name="Continue").click()
    # If the page stays open, the answer continues by itself, in the same message.
    expect(page.page.locator(".message.live .stats")).to_contain_text("tokens/s")
    expect(page.answers).to_have_count(1)
    expect(page.banner).to_be_hidden()
    expect(page.box).to_have_value("half a thought")
    page.page.keyboard.press("Escape")
    page.settled()
    assert [role for role, _ in page.items()] == ["user", "assistant"]
    # With "turn", deltas are delivered before they are on disk.
    if durability == "token":
        assert page.answer().startswith(told)
    page.shows(page.answer())


@pytest.mark.parametrize("connected", [False, True], ids=["no connection", "reading"])
def test_stop_during_an_outage_is_honoured(start, tab, tmp_path, connected):
    # With "turn" the messages are reloaded; with "token" the end of the answer is delivered.
    flags = ("--store-path", tmp_path / "store", "--durability", "turn" if connected else "token")
    server = start(*flags)
    page = tab(server, lost_lines=True, wired=True)
    page.begin()
    wait_for(lambda: server.metrics()["ringside_journal_queue_entries"] == 0, "what was told is in the journal")
    server.kill()
    expect(page.banner).to_contain_text("Nothing you wrote is")
    if not connected:
        page.page.keyboard.press("Escape")
    server.go_on()
    page.wire.hold_reads("/items", at_once=False)
    page.server = start(*flags, "--port", server.port)
    if connected:
        page.wire.wait_reads()
        page.page.keyboard.press("Escape")
    page.wire.release_reads()
    page.settled()
    expect(page.answers).to_contain_text("The server stopped in the middle of this answer.")
    assert [event["type"] for event in page.wire.get("asked")].count("response.create") == 1


def test_stop_without_a_connection(start, tab):
    server = start("--max-detached-tokens", 0)  # no detached limit, so that only the stop ends the answer
    page = tab(server, wired=True)
    page.begin()
    page.wire.cut(down=True)
    expect(page.banner).to_contain_text("Nothing you wrote is")
    page.page.keyboard.press("Escape")
    page.page.evaluate("() => { wire.down = false; }")
    expect(page.banner).to_be_hidden()
    server.go_on()
    page.settled()
    expect(page.answers).to_contain_text("You stopped this answer.")


def test_question_to_a_dead_server_is_sent_once(start, tab, tmp_path):
    server = start("--store-path", tmp_path / "store")
    page = tab(server, lost_lines=True)
    page.ask_and_wait("First")
    server.kill()
    expect(page.banner).to_contain_text("Nothing you wrote is")
    page.ask("Second")
    expect(page.questions).to_have_count(2)
    page.server = start("--store-path", tmp_path / "store", "--port", server.port)
    expect(page.answers).to_have_count(2)
    page.settled()
    assert [text for role, text in page.items() if role == "user"] == ["First", "Second"]


def test_two_windows_show_the_same(server, tab):
    one = tab(server)
    one.ask_and_wait("Where are you?")
    two = tab(server, f"/#/{one.id()}", beside=one)
    expect(two.answers).to_have_count(1)
    two.ask_and_wait("Here")
    expect(one.answers).to_have_count(2)
    one.shows(two.answer())
    expect(one.banner).to_be_hidden()
    # The answer streams in both; either can stop it.
    two.begin()
    one.streaming(100)
    expect(one.questions.last).to_contain_text(GOES_ON)
    one.stop.click()
    server.go_on()
    one.settled()
    two.settled()
    for page in (one, two):
        expect(page.answers.last).to_contain_text("You stopped this answer.")
        page.shows(page.answer())
    # Neither window takes the conversation over.
    one.ask_and_wait("There")
    expect(two.answers).to_have_count(4)
    two.shows(one.answer())
    assert [text for role, text in one.items() if role == "user"] == ["Where are you?", "Here", GOES_ON, "There"]


def test_following_window_edits_and_survives_a_restart(start, tab, tmp_path):
    server = start("--store-path", tmp_path / "store")
    one = tab(server, lost_lines=True)
    one.ask_and_wait("First")
    two = tab(server, f"/#/{one.id()}", beside=one, lost_lines=True)
    expect(two.answers).to_have_count(1)
    server.kill()
    expect(one.banner).to_contain_text("Nothing you wrote is")
    one.server = two.server = start("--store-path", tmp_path / "store", "--port", server.port)
    expect(one.banner).to_be_hidden()
    one.prefer(temperature=0, max_output_tokens=8)
    one.edit_last("Edited")
    expect(one.page.get_by_text("2/2")).to_be_visible()
    one.settled()
    assert one.items()[0] == ("user", "Edited")


def test_changes_without_a_turn_are_shown_at_once(server, tab):
    one = tab(server)
    one.ask_and_wait("Listen")
    two = tab(server, f"/#/{one.id()}", beside=one)
    expect(two.answers).to_have_count(1)
    one.call("POST", f"/v1/conversations/{one.id()}/items", {"items": [{"role": "user", "content": "Added elsewhere"}]})
    for page in (one, two):
        expect(page.questions.last).to_contain_text("Added elsewhere")
    one.call("POST", f"/v1/conversations/{one.id()}", {"metadata": {"title": "Renamed elsewhere"}})
    for page in (one, two):
        expect(page.page.get_by_role("heading", level=1)).to_have_text("Renamed elsewhere")
        expect(page.entries.filter(has_text="Renamed elsewhere")).to_have_count(1)


def test_deletion_elsewhere_is_noticed_while_following(server, tab):
    one = tab(server, lost_lines=True)
    one.ask_and_wait("Soon gone")
    two = tab(server, f"/#/{one.id()}", beside=one, lost_lines=True)
    expect(two.answers).to_have_count(1)
    two.call("DELETE", f"/v1/conversations/{one.id()}")
    for page in (one, two):
        expect(page.banner).to_contain_text("This conversation was deleted.")
