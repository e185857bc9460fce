"""Windows of a real Chromium, without a network."""

from __future__ import annotations

import re

CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update",
         "--disable-sync"]  # fmt: skip
WIDE, NARROW = 1440, 390  # pixels
PATIENCE = 300_000  # milliseconds; a busy machine draws slowly
EVERY = [(width, scheme) for width in (WIDE, NARROW) for scheme in ("light", "dark")]


class Reader:
    """One window on the page, and everything that went wrong in it."""

    def __init__(self, browser, path, width, scheme, ready):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.trouble: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector(ready)

    def value(self, script):
        return self.page.evaluate(script)


def brightness(colour: str) -> float:
    """The mean channel, 0-255, of a CSS rgb() colour."""
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3
