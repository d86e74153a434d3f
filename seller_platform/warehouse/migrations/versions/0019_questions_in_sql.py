"""Comments on every column, and indexes for questions in SQL."""

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_DATASETS = (
    "accounts",
    "orders",
    "daily_product_sales",
    "transactions",
    "sales_by_product",
    "sales_by_date",
    "inventory",
    "warehouse_stock",
    "inbound_shipments",
    "notifications",
    "cost_periods",
    "report_rows",
)
_COMMENTS = {
    "platform.connections": {
        "name": "The name that `connect --connection` gave it.",
        "base_url": "The address of the API.",
        "auth_url": "The address of the authorisation page and of the tokens.",
        "client_id": "The application's id at the upstream.",
        "user_id": "The upstream's number of the user; null until it is read.",
        "user_name": "The user's name at the upstream; null until it is read.",
        "created_at": "When the connection was stored first.",
    },
    "platform.grants": {
        "connection": "The connection that it authorises.",
        "issued_at": "When the current pair was received.",
        "expires_at": "When the current access token expires.",
    },
    "platform.accounts": {
        "key": "Key of the account: <seller_id>.<marketplace>.",
        "connection": "The connection that listed it last.",
        "id": "The upstream's number of the account.",
        "title": "The name that people gave it.",
        "country_code": "ISO 3166 code of the marketplace's country.",
        "currency_code": "ISO 4217 code of the account's amounts.",
        "timezone": "The IANA time zone of its local days.",
        "marketplace": "The upstream's id of the marketplace.",
        "seller_id": "The upstream's id of the seller.",
        "first_seen_at": "When it was listed first.",
        "last_seen_at": "When it was listed last.",
    },
    "platform.loads": {
        "id": "The number of the load; later loads have larger ones.",
        "dataset": "The table in schema seller that was loaded.",
        "window_start": "The first day of the window; of a snapshot its day.",
        "requests": "Requests that were sent.",
        "pages": "Pages that were read.",
        "started_at": "When the reading began.",
        "finished_at": "When its rows were stored.",
    },
    "platform.refusals": {
        "dataset": "The table in schema seller that was to be loaded.",
    },
    "platform.history_start": {
        "is_only_row": "Always true, so that there is one row.",
    },
    "platform.report_jobs": {
        "id": "The number of the job.",
        "account": "Key of the account.",
        "next_poll_at": "When the upstream is asked again.",
        "run_asked_at": "When that run was asked for.",
    },
    "platform.cost_plans": {
        "id": "The number of the plan, as commands name it.",
        "made_at": "When it was made.",
    },
    "platform.cost_writes": {
        "plan": "The plan: platform.cost_plans.id.",
        "sku": "Seller SKU.",
        "read_back_at": "When that was read.",
    },
    "platform.mart_builds": {
        "id": "The number of the build; later builds have larger ones.",
        "mart": "The table in schema marts that was built.",
        "rows": "Rows of the partition after the build.",
        "started_at": "When the build began.",
        "finished_at": "When its rows were stored.",
    },
    "service.users": {
        "id": "The number of the user.",
        "email": "The e-mail address, with which the user logs in.",
        "name": "The name on pages.",
        "status": "active or closed.",
        "created_at": "When the user was added.",
    },
    "service.user_accounts": {
        "user_id": "The user: service.users.id.",
    },
    "service.account_groups": {
        "id": "The number of the group.",
        "user_id": "Its user: service.users.id.",
        "title": "Its name, which is unique for the user.",
    },
    "service.account_group_members": {
        "group_id": "The group: service.account_groups.id.",
    },
    "service.applications": {
        "client_id": "The public id of the application.",
        "name": "The name that consent pages show.",
        "redirect_uri": "The address where users are sent back to.",
        "created_at": "When it was registered.",
    },
    "service.authorizations": {
        "family": "Names the consent in its codes and tokens.",
        "client_id": "The application: service.applications.client_id.",
        "user_id": "Who consented: service.users.id.",
        "created_at": "When the user consented.",
        "revoked_at": "When it was revoked; null while it is valid.",
    },
    "service.authorization_codes": {
        "redirect_uri": "Where the code was sent to.",
        "expires_at": "When it expires.",
        "used_at": "When it was exchanged; null until then.",
        "family": "The consent that it came of: service.authorizations.family.",
    },
    "service.access_tokens": {
        "expires_at": "When it expires.",
        "family": "The consent that it came of: service.authorizations.family.",
    },
    "service.refresh_tokens": {
        "expires_at": "When it expires.",
        "used_at": "When it was exchanged; null until then.",
        "family": "The consent that it came of: service.authorizations.family.",
    },
    "service.sessions": {
        "user_id": "Who logged in: service.users.id.",
        "expires_at": "When it ends at the latest.",
        "created_at": "When the login was.",
    },
    "service.known_browsers": {
        "user_id": "Who logged in there: service.users.id.",
        "expires_at": "When the browser is forgotten.",
    },
    "service.reset_links": {
        "user_id": "Whose password it sets: service.users.id.",
        "created_at": "When it was created.",
        "expires_at": "When it expires.",
    },
    "service.passkeys": {
        "id": "The number of the passkey.",
        "user_id": "Whose it is: service.users.id.",
        "credential_id": "The id that the authenticator gave it.",
        "public_key": "The key that verifies its signatures (COSE).",
        "created_at": "When it was added.",
        "last_used_at": "When it was used last; null: never.",
    },
    "service.passkey_challenges": {
        "user_id": "Who must sign it: service.users.id.",
        "challenge": "The bytes to sign.",
        "expires_at": "When it expires.",
    },
    "service.security_events": {
        "id": "The number of the event, in the order of time.",
        "at": "When it happened.",
        "kind": "What happened, such as login_failed.",
    },
    "service.products": {
        "account": "Key of the account.",
        "sku": "Seller SKU.",
        "asin": "Product identifier on the marketplace.",
        "product_name": "Name of the product.",
        "buybox_price": "The price of the offer that buyers see first.",
        "sales_rank": "Rank among the products of its category.",
    },
    "service.exchange_rates": {
        "day": "The day of the rate.",
        "currency": "ISO 4217 code.",
    },
    "service.status": {
        "singleton": "Always true, so that there is one row.",
        "active": "Whether the service answers.",
        "message": "A sentence for the users of the API.",
    },
    "service.report_jobs": {
        "id": "The number of the report.",
        "user_id": "Who requested it: service.users.id.",
        "requested_at": "When it was requested.",
        "finished_at": "When it was completed or failed; null until then.",
    },
    "service.report_chunks": {
        "report_id": "The report: service.report_jobs.id.",
    },
    "service.idempotency_keys": {
        "user_id": "Who sent it: service.users.id.",
        "body": "The body of the answer.",
        "stored_at": "When the answer was stored.",
    },
    "service.summaries": {
        "account": "Key of the account.",
        "dataset": "The table in schema seller that is summed.",
    },
    "service.daily_counts": {
        "account": "Key of the account.",
        "dataset": "The table in schema seller that is counted.",
        "local_day": "The day, in the account's time zone.",
        "rows": "Rows of the day.",
    },
    "service.product_sums": {
        "account": "Key of the account.",
    },
    "service.product_days": {
        "account": "Key of the account.",
    },
    "service.day_sums": {
        "account": "Key of the account.",
        "local_day": "The day, in the account's time zone.",
    },
    "service.cost_steps": {
        "account": "Key of the account.",
        "sku": "Seller SKU.",
    },
    "service.cost_versions": {
        "account": "Key of the account.",
    },
}


def upgrade() -> None:
    for name in _DATASETS:
        op.execute(
            f"CREATE INDEX ix_{name}_load ON seller.{name} USING brin (load_id) "
            "WITH (pages_per_range = 32, autosummarize = true)"
        )
    op.execute("CREATE INDEX ix_orders_platform_order_id ON seller.orders USING hash (platform_order_id)")
    op.execute("CREATE INDEX ix_loads_finished_at ON platform.loads (finished_at)")
    for table, comments in _COMMENTS.items():
        for column, comment in comments.items():
            quoted = comment.replace("'", "''")
            op.execute(f"COMMENT ON COLUMN {table}.{column} IS '{quoted}'")
