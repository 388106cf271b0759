"""The report and JupyterLab in a real browser, as a person sees them; skipped where there is none, with screenshots."""

import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from nbformat import read

from helpers import paths
from helpers.files import write_whole

playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright: make browser installs it")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium: install it (on Debian: apt install chromium)"),
]
SHOTS = paths.ROOT / "tests" / "screenshots"  # not in git
TRACKER = "settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser():
    SHOTS.mkdir(exist_ok=True)
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield opened
        opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("preset", ["mini", "study", "lab", "lab-large"])
def test_the_report_fits_its_window_and_its_links_lead_somewhere(browser, preset, width, scheme):
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    page.goto(paths.report(preset).as_uri())
    page.screenshot(path=SHOTS / f"{preset}-{width}-{scheme}.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("h1").first.inner_text().startswith("Reading distillation")
    dead = """[...document.querySelectorAll('a[href^="#"]')].map(link => link.getAttribute('href').slice(1))
        .filter(name => !document.getElementById(name))"""
    assert page.evaluate(dead) == []
    assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0 && image.alt.length > 20)")
    paint = "getComputedStyle(document.body).backgroundColor"
    red = int(re.search(r"\d+", page.evaluate(paint)).group())
    assert red < 60 if scheme == "dark" else red > 200


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """JupyterLab on notebook 17, with preset smoke as its first parameter; its address. All cells are on the page, in
    sight or not."""
    monkeypatch.setenv("HELPERS_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("JUPYTERLAB_SETTINGS_DIR", str(tmp_path / "settings"))
    write_whole(tmp_path / TRACKER, '{"windowingMode": "none"}')
    text = (paths.NOTEBOOKS / "17_playground.ipynb").read_text(encoding="utf-8")
    write_whole(tmp_path / "17.ipynb", text.replace('preset: str = \\"mini\\"', 'preset: str = \\"smoke\\"'))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = ["--no-browser", "--ServerApp.token=", "--allow-root", f"--port={port}", "--LabApp.news_url="]
    server = subprocess.Popen([sys.executable, "-m", "jupyterlab", *quiet, f"--notebook-dir={tmp_path}"])
    address = f"http://127.0.0.1:{port}/lab"
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(address, timeout=5)
                break
            except OSError:
                time.sleep(1)
        yield address
    finally:
        server.terminate()
        server.wait(30)


def test_the_playground_runs_from_the_menu_and_answers_a_question_of_ones_own(browser, lab, tmp_path):
    subprocess.run([sys.executable, "-m", "helpers", "run", "--preset", "smoke", "02_imm_main"], check=True)
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto(f"{lab}/tree/17.ipynb")
    page.locator(".jp-Notebook").first.wait_for(timeout=120_000)
    page.get_by_text("| Idle").first.wait_for(timeout=120_000)  # or nothing would run the cells
    page.locator(".lm-MenuBar-item", has_text="Run").first.click()
    page.get_by_text("Run All Cells", exact=True).click()
    for _ in range(60):
        page.wait_for_timeout(5_000)
        page.keyboard.press("Control+S")
        cells = read(tmp_path / "17.ipynb", 4).cells
        if [cell for cell in cells if cell.cell_type == "code"][-1].execution_count:
            break
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert [output.evalue for output in outputs if output.output_type == "error"] == []
    for name, text in {"question": "Who leads Gamma?", "passage": "Ada Bell leads Gamma."}.items():
        box = page.locator(".widget-textarea", has_text=name).first.locator("textarea")
        box.scroll_into_view_if_needed()
        box.fill(text)
        box.blur()
    page.get_by_role("button", name="Ask", exact=True).first.click()
    answer = page.locator(".widget-html", has_text="Who leads Gamma?").last
    answer.wait_for(timeout=60_000)
    answer.scroll_into_view_if_needed()
    page.screenshot(path=SHOTS / "playground.png")
    text = answer.inner_text()
    assert "Single" in text and any(word in text for word in ("Ada", "Bell", "leads", "Gamma"))
