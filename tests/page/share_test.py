"""Share links and folders on the page: made, read without a key, revoked."""

import re

from playwright.sync_api import expect

AXE_TITLE = "Recipes <b>for</b> two"


def menu(page, title, item):
    entry = page.entries.filter(has_text=title)
    entry.hover()
    entry.get_by_role("button", name=f"More for {title}").click()
    page.page.get_by_role("menuitem", name=item, exact=True).click()


def share(page, title):
    """Makes a link in the dialog; returns its address. The dialog stays open."""
    menu(page, title, "Share")
    dialog = page.page.get_by_role("dialog", name="Share")
    dialog.get_by_role("button", name="Create a link").click()
    expect(dialog.get_by_role("textbox", name="Link")).to_be_visible()
    return dialog, dialog.get_by_role("textbox", name="Link").input_value()


def test_link_is_read_without_a_key_until_it_is_revoked(start, tab):
    server = start("--api-key", "secret")
    page = tab(server, lost_lines=True)
    page.page.get_by_label("API key").fill("secret")
    page.page.get_by_role("dialog").get_by_role("button", name="Sign in").click()
    expect(page.page.locator("dialog")).to_have_count(0)
    page.page.evaluate("""async ([title]) => {
      const { createConversation } = await import("/page/api.js");
      await createConversation({ title }, [{ role: "user", content: "What is **this**?" },
        { role: "assistant", content: "A *recipe*:\\n\\n- one\\n- two <img src=x onerror=alert(1)>" }]);
    }""", [AXE_TITLE])
    page.page.reload()
    dialog, address = share(page, AXE_TITLE)
    assert re.fullmatch(rf"http://127\.0\.0\.1:{server.port}/shared#conv_\w{{22}}\.[0-9a-f]{{64}}", address)
    reader = tab(server, address.removeprefix(f"http://127.0.0.1:{server.port}"), lost_lines=True)
    expect(reader.page.get_by_role("heading", level=1)).to_have_text(AXE_TITLE)
    expect(reader.page).to_have_title(f"{AXE_TITLE} · Ringside")
    expect(reader.page.get_by_role("article", name="Question")).to_have_text(re.compile(r"What is \*\*this\*\*\?"))
    expect(reader.answers.locator("li")).to_have_text(["one", "two <img src=x onerror=alert(1)>"])
    # To read only, and without the owner's other conversations.
    assert reader.page.locator("textarea, #sidebar, .entry").count() == 0
    # The secret is not sent along with a link that is followed.
    assert reader.page.evaluate("document.location.hash.length > 64 && document.querySelectorAll('a[href]').length === 0")
    dialog.get_by_role("button", name="Revoke").click()
    expect(dialog.get_by_role("button", name="Revoke")).to_have_count(0)
    reader.page.reload()
    expect(reader.page.get_by_role("heading", name="This link does not work")).to_be_visible()


def test_shared_conversation_is_marked(start, tab):
    page = tab(start())
    page.make(("user", "Hi"), title="One")
    page.page.reload()
    dialog, _ = share(page, "One")
    expect(page.page.locator("#sidebar .shared-mark")).to_have_count(1)
    dialog.get_by_role("button", name="Revoke").click()
    expect(page.page.locator("#sidebar .shared-mark")).to_have_count(0)
    dialog.get_by_role("button", name="Close").click()
    expect(page.page.locator("dialog")).to_have_count(0)


def move(page, title, folder):
    menu(page, title, "Move to a folder")
    page.page.get_by_label("Folder; empty: none").fill(folder)
    page.save()


def test_folders(start, tab):
    server = start()
    page = tab(server)
    for title in ("One", "Two", "Three"):
        page.make(("user", "x"), title=title)
    page.page.reload()
    expect(page.entries).to_have_count(3)
    move(page, "One", "Work")
    folder = page.page.locator("#sidebar details.folder")
    expect(folder.locator("summary")).to_contain_text("Work")
    expect(folder.get_by_text("One")).to_be_hidden()
    folder.locator("summary").click()
    expect(folder.get_by_role("link", name="One")).to_be_visible()
    # The choice offers the known folders, and stays open after a reload; every browser shows the same.
    menu(page, "Two", "Move to a folder")
    expect(page.page.locator("datalist option")).to_have_attribute("value", "Work")
    page.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.page.reload()
    expect(folder.get_by_role("link", name="One")).to_be_visible()
    other = tab(server)
    other.page.get_by_role("searchbox").fill("one")
    expect(other.page.locator("#sidebar details.folder").get_by_role("link", name="One")).to_be_visible()
    move(page, "One", "")
    expect(folder).to_have_count(0)
    expect(page.entries).to_have_count(3)
    assert all("folder" not in entry["metadata"] for entry in page.call("GET", "/v1/conversations")["data"])
