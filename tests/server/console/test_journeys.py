"""Journeys in a real browser: analyst, owner, collector and respondent, visitor."""

import json

import pytest

SQL = "SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region"
CLINIC = "/console/datasets/clinic"


def _ask(page, sql, epsilon="0.5"):
    page.fill("#epsilon", epsilon)
    page.fill("#sql", sql)
    page.wait_for_selector("#pay:not([disabled])")
    page.wait_for_function("e => document.querySelector('#trade').textContent.includes(e)", arg=f"ε {epsilon}")
    page.click("#pay")
    page.wait_for_selector("#answer .receipt")


def test_an_analyst_sees_the_price_pays_reads_and_asks_again_for_free(house, visit):
    page = visit("ann")
    page.click("article a")
    page.wait_for_selector("#tables details")
    assert "integer from 0 to 120" in page.inner_text("#tables")
    assert "north, south" in page.inner_text("#tables")
    before = house.charges()
    _ask(page, SQL, "0.51")
    assert house.charges() == before + 1
    page.wait_for_selector("#answer figure svg")
    assert "charged as #" in page.inner_text(".receipt")
    assert page.locator("#answer tbody tr").count() == 3
    assert " to " in page.locator("#answer td .interval").first.inner_text()
    assert page.locator("#answer th.number").count() == 2
    page.click("text=Ask again, free")
    page.wait_for_selector(".receipt.good")
    assert house.charges() == before + 1
    files = {}
    for kind in ("CSV", "Parquet", "PNG", "SVG", "Notebook"):
        with page.expect_download() as download:
            page.click(f'[data-file="{kind}"]')
        files[kind] = download.value.path().read_bytes()
    assert files["CSV"].startswith(b"region,n,n low,n high")
    assert files["Parquet"][:4] == b"PAR1"
    assert files["PNG"][:4] == b"\x89PNG"
    assert files["SVG"].startswith(b"<svg")
    cells = json.loads(files["Notebook"])["cells"]
    assert any("discreet.connect" in "".join(cell["source"]) for cell in cells)
    assert house.tokens["ann"].encode() not in files["Notebook"]
    assert house.charges() == before + 1


def test_numbers_of_a_column_stand_below_each_other(house, visit):
    page = visit("ann")
    page.goto(house.url + CLINIC)
    _ask(page, SQL, "0.511")
    page.wait_for_selector("#answer figure svg")
    places = page.evaluate("""() => [2, 3].map((column) => [...document.querySelectorAll(`#answer td:nth-child(${column})`)]
        .map((cell) => { const words = document.createRange(); words.selectNodeContents(cell.firstChild);
          return [Math.round(words.getBoundingClientRect().right), cell.firstChild.textContent.split(".")[1]?.length]; }))""")
    for column in places:
        assert len({right for right, _ in column}) == 1
        assert len({decimals for _, decimals in column[:2]}) == 1


def test_an_error_stands_under_the_wrong_word(house, visit):
    page = visit("ann")
    page.goto(house.url + CLINIC)
    page.fill("#sql", "SELECT COUNT(*) AS n FROM vists")
    page.wait_for_selector(".wrong")
    assert page.inner_text(".wrong") == "vists"
    assert page.locator("#price .loading").count() == 0
    assert "there is no table" in page.inner_text("#refusal")
    assert page.is_disabled("#pay")
    page.fill("#sql", "SELECT COUNT(*) AS n FROM visits")
    page.wait_for_selector("#pay:not([disabled])")
    assert page.locator(".wrong").count() == 0


def test_what_is_missing_comes_into_sight(house, visit):
    page = visit("ann")
    page.goto(house.url + CLINIC)
    page.fill("#sql", "SELECT UPPER(region) AS name, COUNT(*) AS n FROM visits GROUP BY UPPER(region)")
    page.wait_for_selector("#further[open]")
    assert "state a delta" in page.inner_text("#refusal")
    page.fill("#sql", "SELECT COUNT(*) AS n FROM visits")
    page.wait_for_selector("#pay:not([disabled])")
    page.fill("#epsilon", "")
    page.wait_for_selector("#pay[disabled]")
    assert "say what to pay" in page.inner_text("#refusal")
    assert page.inner_text("#pay") == "Ask"


def test_the_slider_trades_epsilon_for_error_and_pays_nothing(house, visit):
    page = visit("ann")
    page.goto(house.url + CLINIC)
    before = house.charges()
    page.fill("#sql", "SELECT COUNT(*) AS slid FROM visits")
    page.wait_for_selector("#price figure svg")
    errors = []
    for place in (100, 200, 300):
        page.evaluate(
            "p => { const s = document.querySelector('#slider'); s.value = p; s.dispatchEvent(new Event('input')); }",
            place,
        )
        epsilon = page.input_value("#epsilon")
        page.wait_for_function("e => document.querySelector('#trade').textContent.endsWith(`ε ${e}`)", arg=epsilon)
        errors.append(float(page.inner_text("#trade").replace("\u202f", "").split()[1]))
    assert errors[0] > errors[1] > errors[2]
    assert house.charges() == before


def test_the_builder_shows_the_sql_it_makes(house, visit):
    page = visit("ann")
    page.goto(house.url + CLINIC)
    page.click("#tab-builder")
    page.select_option('[name="measure"]', "average")
    page.select_option('[name="column"]', "age")
    page.select_option('[name="group"]', "region")
    page.click("text=Add a filter")
    page.select_option('[name="column-1"]', "cost")
    page.select_option('[name="sign-1"]', ">=")
    page.fill('[name="value-1"]', "5")
    assert page.locator("datalist option").count() == 0
    page.select_option('[name="column-1"]', "region")
    assert [option.get_attribute("value") for option in page.locator("datalist option").all()] == ["north", "south"]
    page.select_option('[name="column-1"]', "cost")
    made = page.inner_text(".made")
    assert made.split("\n")[:4] == [
        "SELECT region, AVG(age) AS average",
        "FROM visits",
        "WHERE cost >= 5",
        "GROUP BY region",
    ]
    page.wait_for_selector("#pay:not([disabled])")
    assert page.input_value("#sql") == made


def test_everything_can_be_done_by_keyboard(house, visit):
    page = visit(None)
    page.goto(house.url + "/")
    page.focus("#token")
    page.keyboard.type(house.tokens["ann"])
    page.keyboard.press("Enter")
    page.wait_for_url("**/console")
    while page.evaluate("document.activeElement.textContent") != "clinic":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#tables details")
    for words in ("To the content", "To the question"):  # past the pages, and past the names of columns
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == words
        page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "sql"
    page.keyboard.type("SELECT COUNT(*) AS keyed FROM vis")
    page.wait_for_selector("#completions:not([hidden])")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.input_value("#sql").endswith("FROM visits")
    page.wait_for_selector("#pay:not([disabled])")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#answer .receipt")
    page.goto(house.url + CLINIC)
    page.focus("#sql")
    page.keyboard.press("Tab")  # the editor lets go
    assert page.evaluate("document.activeElement.id") == "epsilon"


def test_the_focus_stays_where_a_form_is_built_anew(house, visit):
    page = visit("ann")
    page.goto(house.url + CLINIC + "/make")
    page.focus(".kinds button:text-is('Bounds')")
    page.keyboard.press("Enter")
    page.wait_for_selector(".kinds button[aria-pressed=true]:text-is('Bounds')")
    assert page.evaluate("document.activeElement.textContent") == "Bounds"
    page.goto(house.url + CLINIC)
    _ask(page, SQL, "0.512")
    page.wait_for_selector("#answer figure svg")
    page.select_option("#answer .kinds select", "age")
    page.focus("#answer .kinds select")
    with page.expect_response("**/chart"):
        page.keyboard.press("ArrowUp")
    page.wait_for_function("""() => document.querySelector("#answer .kinds option[selected]")?.textContent === "n"
        && document.activeElement.tagName === "SELECT" """)


def test_two_analysts_in_two_browsers_never_see_each_others_answers(house, visit):
    ann, bob = visit("ann"), visit("bob")
    ann.goto(house.url + CLINIC)
    bob.goto(house.url + CLINIC)
    _ask(ann, "SELECT COUNT(*) AS only_of_ann FROM visits", "0.52")
    answer = ann.inner_text("#answer td.number")
    for path in ("", "/history", "/budget"):
        bob.goto(house.url + CLINIC + path)
        assert "only_of_ann" not in bob.content()
        assert answer not in bob.inner_text("main")
    refused = bob.evaluate(
        """() => fetch("/console/datasets/clinic/chart", {method: "POST", headers: {"content-type": "application/json"},
        body: JSON.stringify({sql: "SELECT COUNT(*) AS only_of_ann FROM visits", epsilon: "0.52"})}).then(r => r.status)"""
    )
    assert refused == 402
    ann.goto(house.url + CLINIC + "/history")
    assert "only_of_ann" in ann.content()
    ann.click("[data-sign-out]")
    ann.wait_for_url("**/sign-in")
    assert ann.evaluate("sessionStorage.length") == 0
    ann.go_back()
    ann.wait_for_url("**/sign-in")


def test_whoever_signs_in_where_a_session_ended_sees_nothing_of_it(fresh, visit):
    house = fresh()
    page = visit("ann", url=house.url, tokens=house.tokens)
    page.goto(house.url + CLINIC)
    _ask(page, "SELECT COUNT(*) AS before FROM visits", "0.2")
    page.goto(house.url + CLINIC + "/history")
    page.wait_for_selector("#recent table")
    remembered = page.evaluate("({...sessionStorage})")
    house.app.state.browsers = type(house.app.state.browsers)()  # as after a restart
    page.goto(house.url + CLINIC + "/history")
    page.wait_for_url("**/sign-in")
    page.fill("#token", house.tokens["bob"])
    assert page.evaluate("sessionStorage.length") == 0
    page.click("#door button")
    page.wait_for_url("**/console")
    page.evaluate("kept => Object.assign(sessionStorage, kept)", remembered)  # as in another tab
    page.goto(house.url + CLINIC + "/history")
    page.wait_for_load_state("networkidle")
    assert "before" not in page.inner_text("main")


def test_an_owner_looks_verifies_and_revokes(fresh, visit):
    house = fresh()
    house.ask("SELECT COUNT(*) AS n FROM visits")
    page = visit("olga", url=house.url, tokens=house.tokens)
    page.goto(house.url + CLINIC + "/budget")
    assert page.locator("figure svg").count() == 2
    page.goto(house.url + CLINIC + "/ledger")
    page.click("#verify")
    page.wait_for_selector("#verdict .good")
    page.goto(house.url + CLINIC + "/bounds")
    assert "median" not in page.inner_text("main")
    page.click("text=Read the rows")
    page.wait_for_selector(".owner-only table")
    assert "OWNER'S EYES ONLY" in page.inner_text(".owner-only")
    assert page.locator(".owner-only svg").count() == 1
    red = page.evaluate("getComputedStyle(document.querySelector('.owner-only svg .c0')).color")
    assert red == "rgb(184, 67, 47)"
    assert page.locator(".owner-only th.number:text-is('left out')").count() == 1
    page.goto(house.url + CLINIC + "/statement")
    assert "Who is protected?" in page.inner_text("main")
    page.goto(house.url + CLINIC + "/tokens")
    button = page.get_by_label("Revoke the token of bob")
    button.click()
    assert house.call("GET", "/v1/datasets", "bob").status == 200  # it asks once more
    button.click()
    page.wait_for_selector("text=The token of bob is revoked.")
    assert page.evaluate("document.activeElement.id") == "remark"
    assert house.call("GET", "/v1/datasets", "bob").status == 401


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_owner_makes_a_policy_from_a_schema_and_no_row_leaves(house, visit, tmp_path, ending):
    import pyarrow as pa
    from pyarrow import csv, parquet

    secret = "a-secret-of-somebody"
    table = pa.table({"person": list(range(2000)), "age": [30] * 2000, "name": [secret] * 2000})
    file = tmp_path / f"people.{ending}"
    (csv.write_csv if ending == "csv" else parquet.write_table)(table, file)
    page = visit("olga")
    bodies = []
    page.on("request", lambda request: bodies.append(request.post_data or ""))
    page.goto(house.url + CLINIC + "/policy")
    page.set_input_files("#file", file)
    page.wait_for_selector('[name="unit"]')
    page.wait_for_selector("#meaning .open")
    page.select_option('[name="unit"]', "person")
    for place, kind in enumerate(("integer", "integer", "text")):
        page.select_option(f'[name="type-{place}"]', kind)
    page.fill('[name="lower-1"]', "0")
    page.fill('[name="upper-1"]', "120")
    page.wait_for_selector("#meaning .good")
    assert page.locator("#pictures svg").count() == 3  # of ε, of the unit, of a bound
    assert "73.1 % sure" in page.inner_text("#guess")
    assert "one person, by person" in page.inner_text("#meaning")
    assert bodies
    import base64

    for body in bodies:
        part = json.loads(body).get("schema_part", "") if body.startswith("{") else ""
        if ending == "csv":
            assert secret.encode() not in base64.b64decode(part)
        assert len(base64.b64decode(part)) < 5000


def test_a_survey_is_made_answered_on_a_phone_and_its_estimate_grows(house, visit):
    page = visit("carl")
    page.goto(house.url + CLINIC + "/surveys")
    page.fill("#text", "Do you smoke?")
    page.fill("#name", "smoke")
    page.fill("#answers", "no\nyes")
    page.wait_for_selector("#survey button.main:not([disabled])")
    assert "at most 3 times as likely" in page.inner_text("#words")
    page.click("#survey button.main")
    page.wait_for_selector(".qr svg")
    page.wait_for_selector('#estimate[data-reports="0"]')
    link = page.get_attribute("main a[href*='/surveys/']", "href")
    phone = visit(None, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    phone.goto(link)
    phone.locator("label", has_text="yes").click()
    phone.click("#randomize")
    phone.click("#send")
    page.wait_for_selector('#estimate[data-reports="1"]')
    assert page.locator("#estimate svg").count() == 1
    assert "(1 report)" in page.inner_text("#estimate")
    assert "1.5" not in page.inner_text("#estimate")  # a share of people is at most one, however few they are


def test_a_visitor_plays_an_attack_step_by_step_and_turns_epsilon(house, visit):
    page = visit(None)
    page.goto(house.url + "/gallery")
    assert page.locator(".exhibits li").count() >= 15
    page.click("text=Can any guess beat ε?")
    assert page.locator(".step:visible").count() == 1
    assert "What is published" in page.inner_text(".step:visible")
    page.click("#next")
    page.click("#next")
    assert "What the attacker does" in page.locator(".step:visible").nth(2).inner_text()
    page.click("#next")
    page.wait_for_selector(".step svg")
    assert "73.1" in page.locator(".step:visible").nth(3).inner_text()
    page.click("#next")
    assert page.locator(".step:visible").count() == 5
    assert page.is_hidden("#next")
    page.wait_for_selector("#dialed svg")
    first = page.inner_text("#dialed")
    page.focus("#turn")
    page.keyboard.press("Home")
    page.wait_for_function("t => document.querySelector('#dialed').innerText !== t", arg=first)
    assert page.inner_text("#turned") == "0.01"


def test_a_job_is_never_started_at_a_price_of_what_the_form_said_before(house, visit):
    page = visit("ann")
    waiting = []
    page.route("**/job-price", lambda route, _request: waiting.append(route))
    before = house.charges()
    page.goto(house.url + CLINIC + "/make")
    page.fill('[name="epsilon"]', "0.5")
    while len(waiting) < 1:
        page.wait_for_timeout(20)
    page.fill('[name="epsilon"]', "0.25")
    while len(waiting) < 2:
        page.wait_for_timeout(20)
    with page.expect_response("**/job-price") as first:
        waiting[0].continue_()
    first.value.finished()
    page.wait_for_timeout(50)
    assert page.is_disabled("#start")
    assert "0.5" not in page.inner_text("#cost")
    waiting[1].continue_()
    page.wait_for_selector("#start:not([disabled])")
    assert "ε 0.25" in page.inner_text("#cost")
    page.evaluate("document.querySelector('[name=epsilon]').value = '0.75'")  # without an event
    page.click("#start")
    while len(waiting) < 3:
        page.wait_for_timeout(20)
    assert house.charges() == before


@pytest.mark.slow
def test_a_synthetic_table_has_a_price_before_and_a_report_after(fresh, visit):
    house = fresh()
    page = visit("ann", url=house.url, tokens=house.tokens)
    page.goto(house.url + CLINIC + "/make")
    page.uncheck('[data-many="columns"][value="day"]')
    page.uncheck('[data-many="columns"][value="cost"]')
    page.wait_for_selector("#start:not([disabled])")
    assert "ε" in page.inner_text("#cost")
    before = house.charges()
    page.click("#start")
    page.wait_for_selector("#progress .good", timeout=60_000)
    assert house.charges() == before + 1
    with page.context.expect_page() as opened:
        page.click("text=Open the report")
    opened.value.wait_for_load_state()
    assert opened.value.locator("svg").count() >= 1
    with page.expect_download() as download:
        page.click("text=table.csv")
    assert download.value.path().read_text().splitlines()[0] == "patient_id,age,region"


@pytest.mark.slow
def test_every_kind_of_job_has_a_price_and_a_report_as_a_page(fresh):
    house = fresh()
    keys = list(range(40))
    jobs = {
        "training": {"table": "visits", "target": "region", "features": ["age"], "epsilon": "1", "delta": "1e-6",
                     "examples": 400, "model": "logistic"},
        "fairness-audit": {"table": "visits", "label": "region", "group": "age", "bins": {"age": 2}, "positive": "north", "epsilon": "1",
                           "predictions": {"patient_id": keys, "prediction": [key % 2 for key in keys]}},
        "bounds": {"table": "visits", "by": ["region"], "epsilon": "1"},
    }  # fmt: skip
    for kind, request in jobs.items():
        before = house.charges()
        price = house.call("POST", CLINIC + "/job-price", "ann", {"kind": kind, "request": request})
        assert price.status == 200, price
        assert "ε" in price.json["words"]
        assert house.charges() == before
        job = house.call("POST", "/v1/datasets/clinic/jobs", "ann", {"kind": kind, "request": request}).json
        while job["state"] in ("waiting", "running"):
            job = house.call("GET", f"/v1/jobs/{job['id']}", "ann").json
        assert job["state"] == "done", job
        accept = "text/html,application/xhtml+xml,*/*;q=0.8" if kind != "bounds" else "application/json"
        report = house.call("GET", f"/v1/jobs/{job['id']}/result", "ann", accept=accept)
        assert report.status == 200, report
        assert kind == "bounds" or b"<!doctype html>" in report.content[:100]
        assert house.charges() == before + 1
        assert house.call("POST", CLINIC + "/job-price", "ann", {"kind": kind, "request": request}).json["budget"][
            "free"
        ]
