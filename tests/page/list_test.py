"""The list of conversations: many entries, search, rename, delete, export and import."""

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
    page.save()
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


def test_saved_as_text(server, tab, tmp_path):
    page = tab(server)
    page.open(page.make(("user", "In words?"), ("assistant", "**Yes**, in words."), title="Saved"))
    page.page.get_by_role("button", name="More for Saved").click()
    with page.page.expect_download() as download:
        page.page.get_by_role("menuitem", name="Save as text").click()
    download.value.save_as(tmp_path / "saved.md")
    assert download.value.suggested_filename == "Saved.md"
    assert (tmp_path / "saved.md").read_text() == "# Saved\n\n## You\n\nIn words?\n\n## Answer\n\n**Yes**, in words.\n"


def test_versions_are_one_list_entry(server, tab):
    page = tab(server)
    page.ask_and_wait("Of one family")
    first = page.id()
    page.edit_last("Another of it")
    expect(page.page.get_by_text("2/2")).to_be_visible()
    page.settled()
    expect(page.entries.filter(has_text="Of one family")).to_have_count(1)
    expect(page.entries.filter(has_text="Another of it")).to_have_count(0)
    second = page.id()
    page.page.get_by_role("button", name="More for Of one family").click()
    page.page.get_by_role("menuitem", name="Delete").click()
    expect(page.page.get_by_role("dialog")).to_contain_text("its 2 versions")
    page.page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.entries.filter(has_text="Of one family")).to_have_count(0)
    assert [server.get(f"/v1/conversations/{id}")[0] for id in (first, second)] == [404, 404]
