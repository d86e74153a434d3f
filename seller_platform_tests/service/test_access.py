"""Tests what is said of a pair of seller and marketplace that selects several accounts."""

from seller_platform_tests.support.served import ANN, Served, execute


def test_a_pair_of_several_accounts_says_their_titles(service: Served) -> None:
    execute(service.database, "UPDATE seller.accounts SET marketplace = 'FR' WHERE account = 'S4.IT'")
    execute(service.database, "UPDATE seller.accounts SET account_title = 'Other' WHERE account = 'S4.IT'")

    with service.client(ANN) as client:
        query = {"per_page": "20", "seller_id": "S4", "marketplace_id": "FR"}
        answer = client.get("/inventory/list", params=query)

    assert answer.json()["errors"] == {
        "seller_id": ["selects 2 of your accounts; select one by its account_title: Twin, Other"]
    }
