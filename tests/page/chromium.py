"""The browser for the page's tests and benchmarks."""

import shutil

# The headless shell needs two thirds of the time.
NAMES = ["chromium-headless-shell", "headless_shell", "chromium", "chromium-browser"]
# Only requests made by a test use the network. Running as root needs --no-sandbox.
FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
         "--disable-dev-shm-usage"]


def launch(playwright):
    path = next(filter(None, map(shutil.which, NAMES)), None)
    assert path, "chromium is missing (scripts/install)"
    return playwright.chromium.launch(executable_path=path, args=FLAGS)
