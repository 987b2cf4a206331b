"""The chat page in a real browser. Skipped where there is no chromium with its driver."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.expected_conditions import alert_is_present
from selenium.webdriver.support.ui import WebDriverWait

from tests.support.cli import diarist
from tests.support.serving import Serving, serving

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
SHOT = os.environ.get("DIARIST_SCREENSHOT")
"""Where to put a picture of the page; docs/serve.png was made so."""

pytestmark = [
    pytest.mark.skipif(
        BROWSER is None or DRIVER is None, reason="no browser: apt-get install chromium chromium-driver"
    ),
    pytest.mark.timeout(180),
]


class Page:
    """What a person does with the page."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver = driver
        driver.get(url)
        self.wait_for(lambda: self.one("#text").is_displayed())

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map((item) => item.textContent)"
        found: list[str] = self.driver.execute_script(script, selector)  # pyright: ignore[reportUnknownMemberType]
        return found

    def wait_for(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        WebDriverWait(self.driver, seconds, 0.05).until(lambda _driver: condition())

    def say(self, text: str) -> None:
        self.one("#text").send_keys(text, Keys.ENTER)

    def click(self, selector: str, place: int = 0) -> None:
        """In one step of the browser: lists are drawn anew now and then. Later, because a question may come of it."""
        find = "const found = document.querySelectorAll(arguments[0])[arguments[1]];"
        script = f"{find} if (found) setTimeout(() => found.click()); return !!found"
        self.wait_for(lambda: self.driver.execute_script(script, selector, place))  # pyright: ignore

    @property
    def live(self) -> str:
        """The answer that runs, so far."""
        return "".join(self.texts(".live .bubble"))

    def idle(self) -> bool:
        return not self.all(".live")


@pytest.fixture
def page(tmp_path: Path) -> Generator[Page, None, None]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1180,780"):
        options.add_argument(argument)  # pyright: ignore[reportUnknownMemberType]
    with serving(tmp_path / "chat.db", "--delay", "0.1") as server:
        driver = webdriver.Chrome(options, Service(DRIVER))
        try:
            yield Page(driver, server.url)
            lines: list[dict[str, Any]] = getattr(driver, "get_log")("browser")  # noqa: B009 -- it has no types
            errors = [line for line in lines if line["level"] == "SEVERE"]
            assert errors == []
        finally:
            driver.quit()
        check_end(server)


def check_end(server: Serving) -> None:
    """A browser that is gone holds nothing up."""
    assert server.stop().code == 0


def test_live_tokens_a_reload_in_the_middle_and_the_whole_answer(page: Page, tmp_path: Path) -> None:
    """The answer goes on where it was, and is stored whole."""
    page.say("How do I bake bread?")
    page.wait_for(lambda: len(page.live.split()) > 2)
    seen = page.live
    page.driver.refresh()
    page.wait_for(lambda: page.live.startswith(seen))
    assert page.texts(".user .bubble") == ["How do I bake bread?"]
    before = page.live
    page.wait_for(lambda: len(page.live) > len(before) or page.idle())
    page.wait_for(page.idle)
    [answer] = page.texts(".assistant .bubble")
    assert answer.startswith(before)
    [chat] = diarist("export", "--store", f"sqlite:///{tmp_path}/chat.db").objects
    assert [message["content"] for message in chat["messages"]] == ["How do I bake bread?", answer]
    assert chat["messages"][1]["status"] == "complete"


def test_stop_regenerate_and_several_conversations(page: Page) -> None:
    """What was stopped is kept and says so; another answer replaces it; each conversation has its own."""
    page.say("<b>First</b> & last")
    page.wait_for(lambda: len(page.live) > 10)
    assert page.one("#stop").is_displayed()
    page.click("#stop")
    page.wait_for(page.idle)
    assert page.texts(".note.warn") == ["stopped"]
    assert page.texts(".user .bubble") == ["<b>First</b> & last"]
    assert page.one("#again").is_displayed()
    page.click("#again")
    page.wait_for(lambda: page.live)
    page.wait_for(page.idle)
    assert len(page.texts(".assistant.past .bubble")) == 1
    [whole] = page.texts(".assistant:not(.past) .bubble")
    assert "First" in whole
    page.click("#new")
    page.wait_for(lambda: page.all("#empty"))
    page.say("What shall I cook tonight?")
    page.wait_for(lambda: len(page.live) > 40)
    if SHOT:
        page.driver.save_screenshot(SHOT)  # pyright: ignore[reportUnknownMemberType]
    page.wait_for(page.idle)
    page.wait_for(lambda: page.texts("#list .name") == ["What shall I cook tonight?", "<b>First</b> & last"])
    page.click("#list .name", 1)
    page.wait_for(lambda: page.texts(".assistant:not(.past) .bubble") == [whole])


def test_two_tabs_follow_one_answer(page: Page) -> None:
    """The second is opened in the middle; both end with the same text. Deleting it empties both."""
    page.say("One for all")
    page.wait_for(lambda: len(page.live) > 10)
    first = page.driver.current_window_handle
    address = page.driver.current_url
    page.driver.switch_to.new_window("tab")
    page.driver.get(address)
    page.wait_for(lambda: len(page.live) > 10)
    page.wait_for(page.idle)
    answer = page.texts(".assistant .bubble")
    page.driver.switch_to.window(first)
    page.wait_for(page.idle)
    assert page.texts(".assistant .bubble") == answer
    page.click("#list .drop")
    WebDriverWait(page.driver, 20).until(alert_is_present())
    page.driver.switch_to.alert.accept()
    page.wait_for(lambda: page.all("#empty"))
    page.wait_for(lambda: not page.texts("#list .name"))
