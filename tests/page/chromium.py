"""The browser for the page's tests and benchmarks."""

import shutil

# Only requests made by a test use the network. Running as root needs --no-sandbox.
FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
         "--disable-dev-shm-usage"]


def launch(playwright):
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "chromium is missing (scripts/install)"
    return playwright.chromium.launch(executable_path=path, args=FLAGS)
