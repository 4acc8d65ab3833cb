"""The list of conversations: many of them, found, renamed, deleted, carried away and brought in."""

import re

from playwright.sync_api import expect


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
