"""Tests that a temporary access reads its accounts, and does nothing else."""

from seller_platform.service.oauth.temporary_access import temporary_access
from seller_platform_tests.support.served import Served


def test_a_temporary_access_only_reads_and_is_recorded(service: Served) -> None:
    shop = {"account_title": "Shop US"}
    with temporary_access(service.database, ["S1.US", "S1.DE"]) as token, service.client() as client:
        client.headers["Authorization"] = f"Bearer {token}"
        accounts = client.get("/user/accounts").json()["accounts"]
        rows = client.get("/inventory/list", params={**shop, "per_page": "500"})
        write = client.delete("/cogs/cost-periods", params={**shop, "sku": "A"})
    with service.database.begin() as connection:
        events = connection.exec_driver_sql("SELECT kind, details FROM service.security_events ORDER BY id").all()

    assert [account["account_title"] for account in accounts] == ["Shop US", "Shop DE"]
    assert (rows.status_code, write.status_code) == (200, 403)
    assert tuple(events[-1]) == ("temporary_access_given", {"accounts": ["S1.US", "S1.DE"]})
