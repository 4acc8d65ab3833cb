"""A model's reasoning on the page: it streams in an open block, which folds when the answer begins."""

import re

import pytest
import scripted_model
from playwright.sync_api import expect
from scripted_model import ANSWER, REASONING
from server_process import ServerProcess

LENGTH = 100


@pytest.fixture(scope="module")
def thinker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("thinker")
    model = scripted_model.make(folder / "think.gguf", scripted_model.THINK)
    with ServerProcess(model, "--threads", 1, "--store-path", folder / "store", folder=folder) as server:
        yield server.wait_until_ready()


def block(page):
    return page.answers.last.locator("details.reasoning")


def held_at(event, thinker, tab):
    """A page that has asked a question and whose answer is held at its first `event`."""
    page = tab(thinker, wired=True)
    page.prefer(temperature=0, max_output_tokens=LENGTH)
    page.wire.hold_events(event)
    page.ask("Which number?")
    page.wire.wait_held(event)
    return page


def test_reasoning_streams_and_folds(thinker, tab):
    page = held_at("response.reasoning_text.done", thinker, tab)
    expect(block(page)).to_have_attribute("open", "")
    expect(block(page).locator("summary")).to_have_text("Thinking…")
    expect(block(page).locator(".thoughts")).to_have_text(REASONING)
    expect(page.answers.last.locator(".body")).to_have_text("")
    page.wire.release_events()
    page.settled()
    expect(page.answers.last.locator(".body")).to_have_text(ANSWER)
    expect(block(page)).not_to_have_attribute("open", "")
    expect(block(page).locator("summary")).to_have_text(re.compile(r"Thought for \d"))
    # After a reload it is present, folded, with its duration.
    page.page.reload()
    page.loaded()
    expect(block(page)).not_to_have_attribute("open", "")
    expect(block(page).locator("summary")).to_have_text(re.compile(r"Thought for \d"))
    block(page).locator("summary").click()
    expect(block(page).locator(".thoughts")).to_be_visible()
    expect(block(page).locator(".thoughts")).to_have_text(REASONING)
    assert [item["type"] for item in page.server_items(page.id())] == ["message", "reasoning", "message"]


def test_folded_block_stays_folded(thinker, tab):
    page = held_at("response.reasoning_text.done", thinker, tab)
    block(page).locator("summary").click()
    expect(block(page)).not_to_have_attribute("open", "")
    block(page).locator("summary").click()
    page.wire.release_events()
    page.settled()
    expect(page.answers.last.locator(".body")).to_have_text(ANSWER)
    expect(block(page)).to_have_attribute("open", "")


def test_answer_truncated_in_reasoning_continues(thinker, tab):
    page = tab(thinker)
    page.ask_and_wait("Which number?", max_output_tokens=3)
    expect(page.answers.last).to_contain_text("The model was still thinking.")
    page.prefer(temperature=0, max_output_tokens=LENGTH)
    page.page.get_by_role("button", name="Continue").click()
    expect(page.answers.last.locator(".body")).to_have_text(ANSWER)
    page.settled()
    expect(page.answers).to_have_count(1)
    expect(block(page)).to_have_count(1)
    expect(block(page).locator(".thoughts")).to_have_text(REASONING)


def test_snapshot_restores_the_whole_answer(thinker, tab):
    """The page is reloaded in the middle of the reasoning."""
    page = held_at("response.output_item.added", thinker, tab)
    page.page.reload()
    page.loaded()
    page.settled()
    expect(page.answers.last.locator(".body")).to_have_text(ANSWER)
    expect(block(page).locator(".thoughts")).to_have_text(REASONING)
