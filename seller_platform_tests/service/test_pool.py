"""Tests the pool: what one request sets on its connection reaches no other request."""

from seller_platform_tests.support.served import ANN, PASSWORD, Served, execute, submit


def test_the_zone_of_one_users_list_changes_no_date_on_another_users_page(service: Served) -> None:
    week = {
        "account_title": "Shop US",
        "per_page": "500",
        "page": "1",
        "start_date": "2026-03-01",
        "end_date": "2026-03-07",
    }
    with service.client() as browser, service.client(ANN) as api:
        submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)
        submit(browser, browser.get("/admin/developers/new"), name="App", redirect_uri="https://app.example/")
        execute(service.database, "UPDATE service.applications SET created_at = '2026-01-02 03:04:05+00'")

        listed = api.get("/sales/orders", params=week)  # in Los Angeles it is still the 1st
        page = browser.get("/admin/developers")

    assert listed.status_code == 200, listed.text
    assert "2026-01-02" in page.text
