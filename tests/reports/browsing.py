"""A report's page, opened in a browser."""

from pathlib import Path
from typing import Any

COPIES = 30
"""Of each real run in the table."""


class Opened:
    """A page, and all that it said or asked for."""

    def __init__(self, browser: Any, path: Path, **context: Any) -> None:
        self.page = browser.new_context(**context).new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def draw_all(self) -> int:
        """Scroll to every figure; how many there are."""
        self.page.evaluate("document.querySelectorAll('details.more').forEach((more) => { more.open = true; })")
        plots = self.page.locator("[data-figure], #plan-plot")
        for place in range(plots.count()):
            plots.nth(place).scroll_into_view_if_needed()
            plots.nth(place).locator("svg.main-svg").first.wait_for()
        return plots.count()

    def column(self, name: str) -> list[str]:
        names = self.page.locator("#table thead th").all_text_contents()
        place = [one.rstrip(" ▲▼") for one in names].index(name) + 1
        return self.page.locator(f"#table tbody td:nth-child({place})").all_text_contents()
