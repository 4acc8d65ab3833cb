"""The page as its user sees it, through visible and accessible content, and the server's own state of the conversation.

A click or a key returns before the page has reacted. Code that reads a count or a text must wait for the corresponding
state: with Playwright's `expect`, or with a function of the section "waiting"."""

import json
import urllib.request

from playwright.sync_api import TimeoutError, expect

# Greedy: the model of these tests then never ends by itself.
ENDLESS = {"temperature": 0, "max_output_tokens": 1_000_000}
GOES_ON = "Go on and on"
LAST_MARKUP = "[...document.querySelectorAll('.message.assistant .body')].at(-1)?.innerHTML"


class ChatPage:
    def __init__(self, page, server, wire=None):
        self.page, self.server, self.wire = page, server, wire
        self.box = page.get_by_role("textbox", name="Message")
        self.stop = page.get_by_role("button", name="Stop", exact=True)
        self.answers = page.get_by_role("article", name="Answer")
        self.questions = page.get_by_role("article", name="You")
        self.entries = page.locator("#sidebar .entry")
        self.banner = page.locator("#banner")

    # ---- actions ----------------------------------------------------------------------------------------------------
    def prefer(self, **preferences):
        self.page.evaluate("(text) => localStorage.setItem('ringside.preferences', text)", json.dumps(preferences))

    def prefer_titles(self, by_model):
        self.page.evaluate("(on) => localStorage.setItem('ringside.titles', JSON.stringify(on))", by_model)

    def save(self):
        """Saves the open dialog; its values are in effect afterwards."""
        self.page.get_by_role("dialog").get_by_role("button", name="Save", exact=True).click()
        expect(self.page.locator("dialog")).to_have_count(0)

    def ask(self, text):
        self.box.fill(text)
        self.box.press("Enter")

    def ask_and_wait(self, text, **preferences):
        self.prefer(**({"temperature": 0, "max_output_tokens": 12} | preferences))
        before = self.loaded()
        self.ask(text)
        expect(self.answers).to_have_count(before + 1)
        self.settled()

    def begin_new(self):
        """Leaves for a conversation that does not exist yet."""
        self.page.get_by_role("button", name="New conversation").first.click()
        self.loaded()

    def begin(self, characters=100, text=GOES_ON):
        """Requests an endless answer and lets `characters` of it be written; then pauses the server."""
        self.prefer(**ENDLESS)
        self.ask(text)
        self.streaming(characters)
        self.server.pause()

    def begin_edit(self):
        """Opens the last question for editing; returns its field."""
        self.questions.last.hover()
        self.questions.last.get_by_role("button", name="Edit").click()
        return self.page.get_by_role("textbox", name="Edit your message")

    def edit_last(self, text):
        editor = self.begin_edit()
        editor.fill(text)
        editor.press("Enter")

    def cancel(self):
        """Cancels the conversation's running answer through the API; returns when it is over."""
        self.server.go_on()
        running = self.call("GET", f"/v1/conversations/{self.id()}")["ringside"]["active_response_id"]
        if running:
            self.call("POST", f"/v1/responses/{running}/cancel")

    # ---- waiting ----------------------------------------------------------------------------------------------------
    def loaded(self):
        """Waits until the page shows the server's state of the conversation in its address; returns the number of
        answers."""
        id = self.id()
        answers = 0
        expect(self.page.locator("#main")).to_have_attribute("data-conversation", id)
        if id:
            # Consecutive answers and their tool calls are shown as one message.
            kinds = ["answer" if item["type"] == "function_call" or item.get("role") == "assistant" else "other"
                     for item in self.server_items(id)]
            answers = sum(kind == "answer" and before != "answer" for before, kind in zip([None, *kinds], kinds))
        else:
            expect(self.page.get_by_role("heading", name="What is on your mind?")).to_be_visible()
        expect(self.answers).to_have_count(answers)
        return answers

    def shows(self, text):
        """Waits until the last answer looks like the page's rendering of this text."""
        markup = self.rendered(text)
        try:
            self.page.wait_for_function(f"(markup) => ({LAST_MARKUP}) === markup", arg=markup)
        except TimeoutError:
            assert self.markup() == markup

    def settled(self):
        """Waits until no answer is running."""
        expect(self.page.locator("[aria-busy]")).to_have_count(0)
        expect(self.stop).to_have_count(0)

    def streaming(self, characters=1):
        """Waits until an answer is streaming and has `characters` characters."""
        self.page.wait_for_function(
            "(least) => (document.querySelector('.message.live .body')?.textContent.length ?? 0) >= least", arg=characters)

    # ---- reading the page -------------------------------------------------------------------------------------------
    def id(self):
        """The conversation in the address, or "" if it names none: the target of the skip link is not one."""
        return self.page.evaluate("() => /^#\\/(.*)/.exec(location.hash)?.[1] ?? ''")

    def rendered(self, text):
        """The markup that the page renders for a complete text."""
        return self.page.evaluate(
            """async (text) => {
              const { markdown } = await import("/page/text/markdown.js");
              const box = document.createElement("div");
              box.append(markdown(text));
              return box.innerHTML;
            }""", text)

    def markup(self):
        return self.page.evaluate(f"() => {LAST_MARKUP}")

    # ---- the server's state -----------------------------------------------------------------------------------------
    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.port}{path}", data, method=method,
                                         headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    def server_items(self, id):
        items, after = [], ""
        while True:
            page = self.call("GET", f"/v1/conversations/{id}/items?order=asc&limit=100{after}")
            items += page["data"]
            if not page["has_more"]:
                return items
            after = f"&after={page['last_id']}"

    def items(self, id=None):
        """(role, text) of each item."""
        return [(item["role"], item["content"][0]["text"]) for item in self.server_items(id or self.id())]

    def answer(self):
        """The last answer according to the server: an item and its continuations are joined."""
        text = ""
        for role, said in reversed(self.items()):
            if role != "assistant":
                break
            text = said + text
        return text

    def make(self, *items, **metadata):
        """Creates a conversation with these (role, text) items; returns its id."""
        made = self.call("POST", "/v1/conversations", {
            "metadata": metadata, "items": [{"role": role, "content": text} for role, text in items]})
        return made["id"]

    def open_soon(self, id):
        self.page.evaluate("(id) => { location.hash = `#/${id}`; }", id)

    def open(self, id):
        self.open_soon(id)
        self.loaded()
