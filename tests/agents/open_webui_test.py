"""Runs unmodified Open WebUI in a browser with only a base URL and a key. Each of its requests carries 36 built-in tools. The test
asks two questions, regenerates an answer, edits a question, and lets the model call a tool. Each turn must find the earlier tokens in
the cache despite the side requests for titles and tags.

    scripts/client_tests open_webui
"""

import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import scripted_model
from chromium import launch
from playwright.sync_api import expect, sync_playwright
from scripted_model import ANSWER
from server_process import wait_for


PATIENCE_S = 600  # its first start migrates a database
TOOL = "get_current_timestamp"
TURN = re.compile(r"turn: \S+ in session \S+: (\d+) tokens in, (\d+) of them cached")
WITH_TOOLS = 10_000  # minimum number of tokens of a request with tools; the model has one token per byte
ON_THE_SIDE = 3      # requests after the first answer: title, tags, follow-up questions
MARKUP = 100         # token limit for the markup of a message


@pytest.fixture(scope="module")
def server(start):
    return start(scripted_model.calling(TOOL, "{}"))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def answers(url):
    try:
        return urllib.request.urlopen(url, timeout=5).status == 200
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture(scope="module")
def open_webui(server, tmp_path_factory):
    """Its address."""
    folder, port = tmp_path_factory.mktemp("open_webui"), free_port()
    # The last three prevent model downloads.
    settings = {"DATA_DIR": str(folder), "WEBUI_AUTH": "False", "OPENAI_API_BASE_URL": f"http://127.0.0.1:{server.port}/v1",
                "OPENAI_API_KEY": "any", "OFFLINE_MODE": "True", "HF_HUB_OFFLINE": "1", "RAG_EMBEDDING_ENGINE": "openai"}
    program = Path(sys.executable).parent / "open-webui"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, "serve", "--host", "127.0.0.1", "--port", str(port)], cwd=folder, stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=subprocess.STDOUT, env=os.environ | settings)
    try:
        wait_for(lambda: process.poll() is not None or answers(f"http://127.0.0.1:{port}/health"), "Open WebUI", PATIENCE_S)
        assert process.poll() is None, (folder / "log").read_text(errors="replace")[-4000:]
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def page(open_webui):
    expect.set_options(timeout=PATIENCE_S * 1000)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_S * 1000)
        news = page.get_by_role("button", name="Close", exact=True)
        page.add_locator_handler(news, lambda: news.first.click())
        page.goto(open_webui)
        yield page
        browser.close()


class Chat:
    def __init__(self, page, server):
        self.page, self.server = page, server
        self.box = page.locator("#chat-input")
        self.done = page.get_by_text(ANSWER, exact=True)

    def turns(self):
        """(tokens in, cached) of each turn so far."""
        return [tuple(map(int, match)) for match in TURN.findall(self.server.log.read_text())]

    def after(self, act):
        """What `act` makes the server do: (tokens in, cached) of the call and of the answer to its result."""
        before = len(self.turns())
        act()
        return wait_for(lambda: len(asked := [turn for turn in self.turns()[before:] if turn[0] > WITH_TOOLS]) >= 2 and asked,
                        "a call and an answer", PATIENCE_S)

    def ask(self, text):
        self.box.click()
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")

    def regenerate(self):
        self.page.get_by_role("button", name="Regenerate").last.click()
        self.page.get_by_text("Try Again", exact=True).click()

    def edit_first(self, text):
        question = self.page.locator(".user-message").first
        question.hover()
        question.get_by_role("button", name="Edit").click()
        question.locator("textarea").fill(text)
        self.page.locator("#confirm-edit-message-button").click()


def test_a_chat(server, page):
    chat = Chat(page, server)
    first = chat.after(lambda: chat.ask("Which number?"))
    expect(chat.done).to_have_count(1)
    expect(page.get_by_text(f"View Result from {TOOL}")).to_be_visible()
    [(asked, _), (told, cached)] = first
    assert cached >= asked
    wait_for(lambda: len(chat.turns()) >= 2 + ON_THE_SIDE, "requests on the side", PATIENCE_S)

    [(asked_again, cached), _] = chat.after(lambda: chat.ask("And now?"))
    expect(chat.done).to_have_count(2)
    assert cached >= told and asked_again - cached <= MARKUP

    [(other, cached), _] = chat.after(chat.regenerate)
    expect(chat.done).to_have_count(2)
    assert other == asked_again and other - cached <= MARKUP

    [(edited, cached), _] = chat.after(lambda: chat.edit_first("Which other number?"))
    expect(chat.done).to_have_count(1)
    assert edited - cached <= MARKUP and cached >= WITH_TOOLS
