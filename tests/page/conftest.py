"""Fixtures: a browser, servers with the tiny model, and tabs that fail their test on any console error of the page."""

import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "system"))
import tiny_model  # noqa: E402
from chat_page import ChatPage  # noqa: E402
from chromium import launch  # noqa: E402
from page_wire import Wire  # noqa: E402
from paused_server import PausedServer  # noqa: E402
from server_process import PATIENCE_S  # noqa: E402

expect.set_options(timeout=PATIENCE_S * 1000)


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return tiny_model.make(tmp_path_factory.mktemp("model") / "tiny.gguf", endless=True)


@pytest.fixture(scope="session")
def shared_server(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    # An answer left running by a test ends soon after its page is closed.
    with PausedServer(model, "--store-path", folder / "store", "--max-detached-tokens", 50, folder=folder) as server:
        yield server.wait_until_ready()


@pytest.fixture(scope="module")
def renderer(browser, shared_server):
    """A tab in which whole(text) is the HTML of a Markdown text."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{shared_server.port}/")
    page.evaluate(
        """async () => {
          const { markdown } = await import("/page/text/markdown.js");
          window.whole = (text) => { const box = document.createElement("div"); box.append(markdown(text)); return box.innerHTML; };
        }""")
    yield page
    context.close()


@pytest.fixture
def server(shared_server):
    """One server shared by all tests that need no private one."""
    yield shared_server
    shared_server.go_on()


@pytest.fixture
def start(model, tmp_path):
    """Starts a server with these flags; `model`: None with --models-dir."""
    servers = []

    def start(*flags, model=model):
        servers.append(PausedServer(model, *flags, folder=tmp_path))
        return servers[-1].wait_until_ready()

    yield start
    for server in servers:
        if server.running():
            server.kill()


@pytest.fixture
def tab(browser):
    """tab(server, ...) opens the page in a new browser context; `beside=other` opens a tab in that one's context.
    `wired`: `page.wire` controls the traffic between page and server. `lost_lines`: requests may be refused or fail to
    connect."""
    contexts, complaints = [], []

    def tab(server, path="/", beside=None, lost_lines=False, wired=False, **options):
        if beside is None:
            context = browser.new_context(**options)
            context.set_default_timeout(PATIENCE_S * 1000)
            # The tiny model's titles are noise.
            context.add_init_script("location.origin !== 'null' && (localStorage.getItem('ringside.titles') ?? localStorage.setItem('ringside.titles', 'false'))")
            contexts.append(context)
        else:
            context = beside.page.context
        page = context.new_page()

        def on_console(message):
            # Browsers log every refused request, however the page handles it.
            lost = any(word in message.text for word in ("ERR_CONNECTION", "401", "404", "503"))
            if message.type in ("error", "warning") and not (lost_lines and lost):
                complaints.append(message.text)

        page.on("console", on_console)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        wire = Wire(page) if wired else None
        page.goto(f"http://127.0.0.1:{server.port}{path}")
        return ChatPage(page, server, wire)

    yield tab
    for context in contexts:
        context.close()
    assert complaints == []
