"""The tables of schema `service`: what the REST API needs beside the datasets."""

from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    Date,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    Table,
    Text,
    Uuid,
    event,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, DATERANGE, JSONB
from sqlalchemy.schema import SchemaItem

from seller_platform.warehouse.schema.tables import METADATA, MOMENT, belonging, counted, numbered, required, stamped

SERVICE = "service"


def _table(name: str, comment: str, *items: SchemaItem) -> Table:
    return Table(name, METADATA, *items, schema=SERVICE, comment=comment)


USERS = _table(
    "users",
    "Who may log in.",
    numbered("The number of the user."),
    required("email", Text, "The e-mail address, with which the user logs in."),
    required("name", Text, "The name on pages."),
    required("password_hash", Text, "argon2id, with its parameters and salt."),
    required("status", Text, server_default="active", comment="active or closed."),
    stamped("created_at", "When the user was added."),
    Index("uq_users_email", text("lower(email)"), unique=True),
)


USER_ACCOUNTS = _table(
    "user_accounts",
    "Which accounts a user may read.",
    belonging("user_id", USERS.c.id, "The user: service.users.id.", primary_key=True),
    Column("account", Text, primary_key=True, comment="Key of the account."),
)

ACCOUNT_GROUPS = _table(
    "account_groups",
    "Named groups of a user's accounts.",
    numbered("The number of the group."),
    belonging("user_id", USERS.c.id, "Its user: service.users.id."),
    required("title", Text, "Its name, which is unique for the user."),
    Index("uq_account_groups_user_id_title", "user_id", "title", unique=True),
)

ACCOUNT_GROUP_MEMBERS = _table(
    "account_group_members",
    "The accounts of a group.",
    belonging("group_id", ACCOUNT_GROUPS.c.id, "The group: service.account_groups.id.", primary_key=True),
    Column("account", Text, primary_key=True, comment="Key of the account."),
)

APPLICATIONS = _table(
    "applications",
    "OAuth clients (RFC 6749 section 2): registered, or approved as their document describes them.",
    Column("client_id", Text, primary_key=True, comment="The public id of the application."),
    required("name", Text, "The name that consent pages show."),
    Column("secret_hash", LargeBinary, comment="SHA-256 of the secret; null for a public client."),
    required("redirect_uris", ARRAY(Text), "The addresses where users are sent back to."),
    required("origin", Text, "operator, owner or document: who says what the application is."),
    Column("owner_id", BigInteger, ForeignKey(USERS.c.id, ondelete="CASCADE"), comment="The user who registered it."),
    stamped("registered_at", "When it was registered, or last approved as its document describes it."),
    Column("resource", Text, comment="The path of the only resource that its tokens are for; null: any."),
)

AUTHORIZATIONS = _table(
    "authorizations",
    "One consent: the family of the code and all tokens that came of it; revoked as a whole.",
    Column("family", Uuid, primary_key=True, comment="Names the consent in its codes and tokens."),
    belonging("client_id", APPLICATIONS.c.client_id, "The application: service.applications.client_id."),
    belonging("user_id", USERS.c.id, "Who consented: service.users.id."),
    stamped("created_at", "When the user consented."),
    Column("revoked_at", MOMENT, comment="When it was revoked; null while it is valid."),
    Column(
        "last_used_on",
        Date,
        comment="The last day (UTC) on which a token of it was used to read or write; null: never.",
    ),
    required("scopes", ARRAY(Text), server_default="{read,costs:write,reports}", comment="What its tokens may do."),
    Column(
        "accounts", ARRAY(Text), comment="Keys of the accounts it is for; null: all of the user's, also later ones."
    ),
    required(
        "expires_at",
        MOMENT,
        server_default=text("now() + '365 days'::interval"),
        comment="The absolute end: no token of it is valid longer.",
    ),
    Column(
        "resource", Text, comment="The path of the resource that its tokens are for (RFC 8707); null: the REST API."
    ),
    required(
        "is_resource_assumed",
        Boolean,
        server_default="false",
        comment="Whether the request named no resource, or that of the REST API, and got another.",
    ),
)


def _family() -> Column[Any]:
    return belonging(
        "family", AUTHORIZATIONS.c.family, "The consent that it came of: service.authorizations.family.", index=True
    )


AUTHORIZATION_CODES = _table(
    "authorization_codes",
    "Authorisation codes, single use.",
    Column("code_hash", LargeBinary, primary_key=True, comment="SHA-256 of the code."),
    _family(),
    required("redirect_uri", Text, "Where the code was sent to."),
    Column("code_challenge", Text, comment="PKCE challenge, method S256 (RFC 7636)."),
    required("expires_at", MOMENT, "When it expires."),
    Column("used_at", MOMENT, comment="When it was exchanged; null until then."),
)

ACCESS_TOKENS = _table(
    "access_tokens",
    "Bearer tokens (RFC 6750).",
    Column("token_hash", LargeBinary, primary_key=True, comment="SHA-256 of the token."),
    _family(),
    required("expires_at", MOMENT, "When it expires."),
    Column("scopes", ARRAY(Text), comment="What it may do; null: what its consent permits."),
)

REFRESH_TOKENS = _table(
    "refresh_tokens",
    "Refresh tokens, single use; a second use revokes the family, but for a minute where agents ask.",
    Column("token_hash", LargeBinary, primary_key=True, comment="SHA-256 of the token."),
    _family(),
    required("expires_at", MOMENT, "When it expires."),
    Column("used_at", MOMENT, comment="When it was exchanged; null until then."),
    Column(
        "successor_key",
        LargeBinary,
        comment="The key with which its successors are derived from it; deleted a minute after its first use.",
    ),
)

SESSIONS = _table(
    "sessions",
    "Browser sessions of the login, consent and developer pages.",
    Column("session_hash", LargeBinary, primary_key=True, comment="SHA-256 of the cookie's value."),
    belonging("user_id", USERS.c.id, "Who logged in: service.users.id.", index=True),
    required("expires_at", MOMENT, "When it ends at the latest."),
    stamped("created_at", "When the login was."),
    stamped("last_used_at", "To the minute."),
    required("idle_seconds", Integer, server_default="7200", comment="How long it may be unused before it ends."),
)

RESET_LINKS = _table(
    "reset_links",
    "Links of the operator that set a new password once.",
    Column("token_hash", LargeBinary, primary_key=True, comment="SHA-256 of the token in the link."),
    belonging("user_id", USERS.c.id, "Whose password it sets: service.users.id.", index=True),
    stamped("created_at", "When it was created."),
    required("expires_at", MOMENT, "When it expires."),
)

LOGIN_ATTEMPTS = _table(
    "login_attempts",
    "The logins that failed or are under way, for as long as they count against the next.",
    Column("subject", Text, primary_key=True, comment="The account or the address that the attempts are counted by."),
    required("failures", Integer, "How many there are."),
    required("expires_at", MOMENT, "When none of them counts any more."),
)

SECURITY_EVENTS = _table(
    "security_events",
    "Logins, consents, tokens and their management; append-only.",
    numbered("The number of the event, in the order of time."),
    stamped("at", "When it happened."),
    required("kind", Text, "What happened, such as login_failed."),
    Column("user_id", BigInteger, comment="The user whom it concerns; kept when the user is deleted."),
    Column("client_id", Text, comment="The application that it concerns."),
    Column("address", Text, comment="The network address of the request; null: a command of the operator."),
    Column("request_id", Text, comment="The X-Request-Id of the request."),
    required("details", JSONB, server_default="{}", comment="Facts for people, without secrets."),
    Index(None, "at"),
    Index(None, "user_id", "id"),
)

_KEEP_SECURITY_EVENTS = DDL("""
CREATE FUNCTION service.keep_security_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.at < now() - interval '400 days' THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'service.security_events is append-only: rows are kept for 400 days and never changed';
END
$$;
CREATE TRIGGER keep_security_events BEFORE UPDATE OR DELETE ON service.security_events
FOR EACH ROW EXECUTE FUNCTION service.keep_security_events();
CREATE TRIGGER keep_all_security_events BEFORE TRUNCATE ON service.security_events
FOR EACH STATEMENT EXECUTE FUNCTION service.keep_security_events()
""")  # type: ignore[no-untyped-call]  # it has no types

event.listen(SECURITY_EVENTS, "after_create", _KEEP_SECURITY_EVENTS)

PRODUCTS = _table(
    "products",
    "What the service knows of a product beside its rows.",
    Column("account", Text, primary_key=True, comment="Key of the account."),
    Column("sku", Text, primary_key=True, comment="Seller SKU."),
    required("asin", Text, "Product identifier on the marketplace."),
    Column("parent_asin", Text, comment="The listing of which the product is a variant."),
    required("product_name", Text, "Name of the product."),
    Column("buybox_price", Numeric, comment="The price of the offer that buyers see first."),
    Column("sales_rank", BigInteger, comment="Rank among the products of its category."),
    Column("lead_time_days", BigInteger, comment="Days from an order at the supplier to sellable stock."),
    Index("ix_products_account_asin", "account", "asin"),
    Index("ix_products_account_parent_asin", "account", "parent_asin"),
)

EXCHANGE_RATES = _table(
    "exchange_rates",
    "Exchange rates by day.",
    Column("day", Date, primary_key=True, comment="The day of the rate."),
    Column("currency", Text, primary_key=True, comment="ISO 4217 code."),
    required("per_euro", Numeric, "Units of the currency for one euro."),
)

STATUS = _table(
    "status",
    "What GET /service-status tells; no row means active.",
    Column(
        "singleton",
        Boolean,
        primary_key=True,
        server_default=text("true"),
        comment="Always true, so that there is one row.",
    ),
    required("active", Boolean, server_default=text("true"), comment="Whether the service answers."),
    required(
        "message", Text, server_default="All systems are operational.", comment="A sentence for the users of the API."
    ),
)

REPORT_JOBS = _table(
    "report_jobs",
    "The reports that were requested; deleted when they expire.",
    numbered("The number of the report."),
    belonging("user_id", USERS.c.id, "Who requested it: service.users.id.", index=True),
    required("selection", JSONB, "How its accounts were selected."),
    required("accounts", ARRAY(Text), "Keys of the accounts that this selected."),
    required("selector", Text, "The parameter that says what the report holds."),
    required("value", Text, "The value of that parameter."),
    required("state", Text, server_default="processing", comment="processing, completed or failed."),
    counted("progress", "Percent; never falls."),
    counted("attempts", "How often a worker began to write it, and was not stopped."),
    Column("problem", Text, comment="Why it failed."),
    Column("rows", BigInteger, comment="How many rows it has; null until it is completed."),
    Column("chunks", Integer, comment="How many chunks hold them."),
    Column("bytes", BigInteger, comment="The size of its stored rows; null until it is completed."),
    stamped("requested_at", "When it was requested."),
    Column("finished_at", MOMENT, comment="When it was completed or failed; null until then."),
    Index(None, "requested_at"),
    Index("ix_report_jobs_open", "user_id", postgresql_where=text("state = 'processing'")),
)

REPORT_CHUNKS = _table(
    "report_chunks",
    "The rows of completed reports, which never change.",
    belonging("report_id", REPORT_JOBS.c.id, "The report: service.report_jobs.id.", primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False, comment="Counted from 1."),
    required("rows", LargeBinary, "JSON objects with commas between, in UTF-8."),
)

IDEMPOTENCY_KEYS = _table(
    "idempotency_keys",
    "Answers that a repeated request gets again, for a day.",
    belonging("user_id", USERS.c.id, "Who sent it: service.users.id.", primary_key=True),
    Column("endpoint", Text, primary_key=True, comment="Method and path."),
    Column("key", Text, primary_key=True, comment="The value of the header Idempotency-Key."),
    required("fingerprint", LargeBinary, "SHA-256 of the query and the body."),
    required("status", Integer, "The HTTP status of the answer."),
    Column("media_type", Text, comment="The type of its body."),
    required("body", LargeBinary, "The body of the answer."),
    stamped("stored_at", "When the answer was stored."),
    Index(None, "stored_at"),
)

SUMMARIES = _table(
    "summaries",
    "Which daily counts and sums of an account are stored: those of all rows but of unsummed loads.",
    Column("account", Text, primary_key=True, comment="Key of the account."),
    Column("dataset", Text, primary_key=True, comment="The table in schema seller that is summed."),
)

UNSUMMED_LOADS = _table(
    "unsummed_loads",
    "Loads that changed rows and are not in the daily counts and sums; deleted when they are.",
    Column("account", Text, primary_key=True, comment="Key of the account."),
    Column("dataset", Text, primary_key=True, comment="The table in schema seller that was loaded."),
    Column("load_id", BigInteger, primary_key=True, comment="The load: platform.loads.id."),
    required("months", DATERANGE, "The whole months in which it may have changed rows."),
)

DAILY_COUNTS = _table(
    "daily_counts",
    "How many rows each day of a list has.",
    required("account", Text, "Key of the account."),
    required("dataset", Text, "The table in schema seller that is counted."),
    required("local_day", Date, "The day, in the account's time zone."),
    Column("part", Text, comment="The part of the list, where it has parts."),
    required("is_merged", Boolean, "True: of all parts, and those with the same key are one row."),
    required("rows", BigInteger, "Rows of the day."),
    Index(None, "account", "dataset", "local_day"),
)

PRODUCT_DAYS = _table(
    "product_days",
    "Sales, costs and fees by product and month, and by day.",
    required("account", Text, "Key of the account."),
    required("month", Date, "Its first day."),
    Column("sku", Text, comment="Null: sales that name no product."),
    required("kind", Text, "sales, cost or fees."),
    required("currency", Text, "Empty: the currency of the account."),
    Column("units", Numeric, comment="Units ordered in the month; null unless sales."),
    Column("amount", Numeric, comment="The sum of the month; costs and fees are positive."),
    required("day_bits", Integer, "The days that have rows: bit 0 is the first of the month."),
    required("days", ARRAY(Date), "The days that have rows, in no order."),
    Column("units_of_days", ARRAY(BigInteger), comment="Units ordered on these days; null unless sales."),
    required("amounts_of_days", ARRAY(Numeric), "The sums of these days."),
    Index(None, "account", "month"),
    Index(None, "account", "sku"),
)

PRODUCT_MONTHS = _table(
    "product_months",
    "The sums of product_days by month, in a currency that was asked for; not those of changed months.",
    Column("account", Text, primary_key=True, comment="Key of the account."),
    Column("target", Text, primary_key=True, comment="The currency of the amounts."),
    Column("month", Date, primary_key=True, comment="Its first day."),
    required("rates_hash", Numeric, "Hash of the exchange rates of its days; 0: none is used."),
    required("skus", ARRAY(Text), "Its products; null: sales that name no product."),
    required("day_bits", ARRAY(Integer), "Their days with sales or fees: bit 0 is the first."),
    required("units", ARRAY(Numeric), "Their units ordered."),
    required("sales", ARRAY(Numeric), "Their sales, each day converted, and not rounded."),
    required("costs", ARRAY(Numeric), "Their costs, in the same way."),
    required("fees", ARRAY(Numeric), "Their fees, in the same way."),
    required("conversions", ARRAY(Integer), "Converted amounts of theirs: 1 sales, 2 costs, 4 fees."),
    stamped("summed_at", "When it was summed."),
)

CHANGED_MONTHS = _table(
    "changed_months",
    "Months whose days changed after product_months was summed; deleted when they are summed again.",
    Column("account", Text, primary_key=True, comment="Key of the account."),
    Column("month", Date, primary_key=True, comment="Its first day."),
    Column("dataset", Text, primary_key=True, comment="The table in schema seller of which rows changed."),
)

DAY_SUMS = _table(
    "day_sums",
    "Sales, costs and fees of all products by day.",
    required("account", Text, "Key of the account."),
    required("local_day", Date, "The day, in the account's time zone."),
    required("kind", Text, "sales, cost or fees."),
    required("is_of_product", Boolean, "False: fees that concern no product."),
    required("currency", Text, "Empty: the currency of the account."),
    required("entries", BigInteger, "How many amounts were added."),
    Column("units", Numeric, comment="Units ordered; null unless sales."),
    Column("amount", Numeric, comment="The sum of the day; costs and fees are positive."),
    Index(None, "account", "local_day"),
)

COST_STEPS = _table(
    "cost_steps",
    "The costs of each product, from its newest cost periods.",
    required("account", Text, "Key of the account."),
    required("sku", Text, "Seller SKU."),
    required("periods_hash", Numeric, "Hash of the cost periods that the costs follow from."),
    required("currency", Text, "Empty: the currency of the account."),
    required("days", ARRAY(Date), "The days on which the cost changes, in order."),
    required("amounts", ARRAY(Numeric), "The cost of a unit from each of these days on."),
    Index(None, "account", "sku"),
)

COST_VERSIONS = _table(
    "cost_versions",
    "The rows of cost periods that an account's costs were last computed from.",
    Column("account", Text, primary_key=True, comment="Key of the account."),
    required("periods", BigInteger, "How many rows they are."),
    required("rows_hash", Numeric, "Hash of the places and transactions of the rows."),
)
