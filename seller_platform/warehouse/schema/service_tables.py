"""The tables of schema `service`: what the REST API needs beside the datasets."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    Table,
    Text,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from seller_platform.warehouse.schema.tables import METADATA

SERVICE = "service"


def _now(name: str, comment: str | None = None) -> Column[Any]:
    return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now(), comment=comment)


USERS = Table(
    "users",
    METADATA,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("email", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("password_hash", Text, nullable=False, comment="argon2id, with its parameters and salt."),
    Column("status", Text, nullable=False, server_default="active"),
    _now("created_at"),
    Index("uq_users_email", text("lower(email)"), unique=True),
    schema=SERVICE,
    comment="Who may log in.",
)

USER_ACCOUNTS = Table(
    "user_accounts",
    METADATA,
    Column("user_id", BigInteger, ForeignKey(USERS.c.id, ondelete="CASCADE"), primary_key=True),
    Column("account", Text, primary_key=True, comment="Key of the account."),
    schema=SERVICE,
    comment="Which accounts a user may read.",
)

ACCOUNT_GROUPS = Table(
    "account_groups",
    METADATA,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("user_id", BigInteger, ForeignKey(USERS.c.id, ondelete="CASCADE"), nullable=False),
    Column("title", Text, nullable=False),
    Index("uq_account_groups_user_id_title", "user_id", "title", unique=True),
    schema=SERVICE,
    comment="Named groups of a user's accounts.",
)

ACCOUNT_GROUP_MEMBERS = Table(
    "account_group_members",
    METADATA,
    Column("group_id", BigInteger, ForeignKey(ACCOUNT_GROUPS.c.id, ondelete="CASCADE"), primary_key=True),
    Column("account", Text, primary_key=True, comment="Key of the account."),
    schema=SERVICE,
    comment="The accounts of a group.",
)

APPLICATIONS = Table(
    "applications",
    METADATA,
    Column("client_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("secret_hash", LargeBinary, comment="SHA-256 of the secret; null for a public client."),
    Column("redirect_uri", Text, nullable=False),
    Column("owner_id", BigInteger, ForeignKey(USERS.c.id, ondelete="CASCADE"), comment="Null: made by the operator."),
    _now("created_at"),
    Column(
        "further_redirect_uris",
        ARRAY(Text),
        nullable=False,
        server_default="{}",
        comment="Other addresses where users are sent back to.",
    ),
    _now("named_at", "When it got its name: an imitation has it later."),
    Column("verified_at", DateTime(timezone=True), comment="When an operator verified it as it is now; null: never."),
    Column("secret_created_at", DateTime(timezone=True), comment="When the secret was created; null: with the client."),
    Column("old_secret_hash", LargeBinary, comment="SHA-256 of the secret before, which works until it ends."),
    Column("old_secret_ends_at", DateTime(timezone=True), comment="When the secret before ends."),
    schema=SERVICE,
    comment="Registered OAuth clients (RFC 6749 section 2).",
)

AUTHORIZATIONS = Table(
    "authorizations",
    METADATA,
    Column("family", Uuid, primary_key=True),
    Column("client_id", Text, ForeignKey(APPLICATIONS.c.client_id, ondelete="CASCADE"), nullable=False),
    Column("user_id", BigInteger, ForeignKey(USERS.c.id, ondelete="CASCADE"), nullable=False),
    _now("created_at"),
    Column("revoked_at", DateTime(timezone=True)),
    Column(
        "last_used_on",
        Date,
        comment="The last day (UTC) on which a token of it was used to read or write; null: never.",
    ),
    Column(
        "scopes",
        ARRAY(Text),
        nullable=False,
        server_default="{read,costs:write,reports}",
        comment="What its tokens may do.",
    ),
    Column(
        "accounts", ARRAY(Text), comment="Keys of the accounts it is for; null: all of the user's, also later ones."
    ),
    Column(
        "expires_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=text("now() + '365 days'::interval"),
        comment="The absolute end: no token of it is valid longer.",
    ),
    schema=SERVICE,
    comment="One consent: the family of the code and all tokens that came of it; revoked as a whole.",
)


def _family() -> Column[Any]:
    return Column("family", Uuid, ForeignKey(AUTHORIZATIONS.c.family, ondelete="CASCADE"), nullable=False, index=True)


AUTHORIZATION_CODES = Table(
    "authorization_codes",
    METADATA,
    Column("code_hash", LargeBinary, primary_key=True, comment="SHA-256 of the code."),
    _family(),
    Column("redirect_uri", Text, nullable=False),
    Column("code_challenge", Text, comment="PKCE challenge, method S256 (RFC 7636)."),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("used_at", DateTime(timezone=True)),
    schema=SERVICE,
    comment="Authorisation codes, single use.",
)

ACCESS_TOKENS = Table(
    "access_tokens",
    METADATA,
    Column("token_hash", LargeBinary, primary_key=True, comment="SHA-256 of the token."),
    _family(),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("scopes", ARRAY(Text), comment="What it may do; null: what its consent permits."),
    schema=SERVICE,
    comment="Bearer tokens (RFC 6750).",
)

REFRESH_TOKENS = Table(
    "refresh_tokens",
    METADATA,
    Column("token_hash", LargeBinary, primary_key=True, comment="SHA-256 of the token."),
    _family(),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("used_at", DateTime(timezone=True)),
    schema=SERVICE,
    comment="Refresh tokens, single use; a second use revokes the family.",
)

SESSIONS = Table(
    "sessions",
    METADATA,
    Column("session_hash", LargeBinary, primary_key=True, comment="SHA-256 of the cookie's value."),
    Column("user_id", BigInteger, ForeignKey(USERS.c.id, ondelete="CASCADE"), nullable=False, index=True),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column(
        "id", BigInteger, Identity(), nullable=False, comment="Names the session on pages, where its hash is not shown."
    ),
    _now("created_at"),
    _now("last_used_at", "To the minute."),
    Column(
        "idle_seconds",
        Integer,
        nullable=False,
        server_default="7200",
        comment="How long it may be unused before it ends.",
    ),
    Column("address", Text, comment="The network address of its login."),
    Column("browser", Text, comment="The User-Agent of its login."),
    schema=SERVICE,
    comment="Browser sessions of the login, consent and developer pages.",
)

KNOWN_BROWSERS = Table(
    "known_browsers",
    METADATA,
    Column("browser_hash", LargeBinary, primary_key=True, comment="SHA-256 of the value of the cookie."),
    Column("user_id", BigInteger, ForeignKey(USERS.c.id, ondelete="CASCADE"), primary_key=True, index=True),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    schema=SERVICE,
    comment="The browsers in which users have logged in; a right password is not delayed there.",
)

RESET_LINKS = Table(
    "reset_links",
    METADATA,
    Column("token_hash", LargeBinary, primary_key=True, comment="SHA-256 of the token in the link."),
    Column("user_id", BigInteger, ForeignKey(USERS.c.id, ondelete="CASCADE"), nullable=False, index=True),
    _now("created_at"),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    schema=SERVICE,
    comment="Links of the operator that set a new password once.",
)

PASSKEYS = Table(
    "passkeys",
    METADATA,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("user_id", BigInteger, ForeignKey(USERS.c.id, ondelete="CASCADE"), nullable=False, index=True),
    Column("name", Text, nullable=False, comment="The name that the user gave it."),
    Column("credential_id", LargeBinary, nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column(
        "sign_count",
        BigInteger,
        nullable=False,
        comment="The counter of the last signature; a lower one is refused.",
    ),
    _now("created_at"),
    Column("last_used_at", DateTime(timezone=True)),
    Index(None, "credential_id", unique=True),
    schema=SERVICE,
    comment="Public keys of the second factor of logins (WebAuthn).",
)

PASSKEY_CHALLENGES = Table(
    "passkey_challenges",
    METADATA,
    Column(
        "session_hash",
        LargeBinary,
        primary_key=True,
        comment="SHA-256 of the cookie of the browser that must answer.",
    ),
    Column("purpose", Text, primary_key=True, comment="`login` after the right password, or `add`."),
    Column("user_id", BigInteger, ForeignKey(USERS.c.id, ondelete="CASCADE"), nullable=False, index=True),
    Column("challenge", LargeBinary, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    schema=SERVICE,
    comment="Challenges that a browser must sign with a passkey, single use.",
)

LOGIN_ATTEMPTS = Table(
    "login_attempts",
    METADATA,
    Column("subject", Text, primary_key=True, comment="The account or the address that the attempts are counted by."),
    Column("made_at", ARRAY(DateTime(timezone=True)), nullable=False, comment="When each was made, the newest last."),
    Column("expires_at", DateTime(timezone=True), nullable=False, comment="When none of them counts any more."),
    schema=SERVICE,
    comment="The logins that failed or are under way, for as long as they count against the next.",
)

SECURITY_EVENTS = Table(
    "security_events",
    METADATA,
    Column("id", BigInteger, Identity(), primary_key=True),
    _now("at"),
    Column("kind", Text, nullable=False),
    Column("user_id", BigInteger, comment="The user whom it concerns; kept when the user is deleted."),
    Column("client_id", Text, comment="The application that it concerns."),
    Column("address", Text, comment="The network address of the request; null: a command of the operator."),
    Column("request_id", Text, comment="The X-Request-Id of the request."),
    Column("details", JSONB, nullable=False, server_default="{}", comment="Facts for people, without secrets."),
    Index(None, "at"),
    Index(None, "user_id", "id"),
    schema=SERVICE,
    comment="Logins, consents, tokens and their management; append-only.",
)

PRODUCTS = Table(
    "products",
    METADATA,
    Column("account", Text, primary_key=True),
    Column("sku", Text, primary_key=True),
    Column("asin", Text, nullable=False),
    Column("parent_asin", Text, comment="The listing of which the product is a variant."),
    Column("product_name", Text, nullable=False),
    Column("buybox_price", Numeric),
    Column("sales_rank", BigInteger),
    Column("lead_time_days", BigInteger, comment="Days from an order at the supplier to sellable stock."),
    Index("ix_products_account_asin", "account", "asin"),
    Index("ix_products_account_parent_asin", "account", "parent_asin"),
    schema=SERVICE,
    comment="What the service knows of a product beside its rows.",
)

EXCHANGE_RATES = Table(
    "exchange_rates",
    METADATA,
    Column("day", Date, primary_key=True),
    Column("currency", Text, primary_key=True),
    Column("per_euro", Numeric, nullable=False, comment="Units of the currency for one euro."),
    schema=SERVICE,
    comment="Exchange rates by day.",
)

STATUS = Table(
    "status",
    METADATA,
    Column("singleton", Boolean, primary_key=True, server_default=text("true")),
    Column("active", Boolean, nullable=False, server_default=text("true")),
    Column("message", Text, nullable=False, server_default="All systems are operational."),
    schema=SERVICE,
    comment="What GET /service-status tells; no row means active.",
)

REPORT_JOBS = Table(
    "report_jobs",
    METADATA,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("user_id", BigInteger, ForeignKey(USERS.c.id, ondelete="CASCADE"), nullable=False, index=True),
    Column("selection", JSONB, nullable=False, comment="How its accounts were selected."),
    Column("accounts", ARRAY(Text), nullable=False, comment="Keys of the accounts that this selected."),
    Column("selector", Text, nullable=False, comment="The parameter that says what the report holds."),
    Column("value", Text, nullable=False, comment="The value of that parameter."),
    Column("state", Text, nullable=False, server_default="processing", comment="processing, completed or failed."),
    Column("progress", Integer, nullable=False, server_default="0", comment="Percent; never falls."),
    Column(
        "failures",
        Integer,
        nullable=False,
        server_default="0",
        comment="How often writing it failed, or killed a worker.",
    ),
    Column("problem", Text, comment="Why it failed."),
    Column("rows", BigInteger, comment="How many rows it has; null until it is completed."),
    Column("chunks", Integer, comment="How many chunks hold them."),
    Column(
        "turn",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="Its place in the queue; users take turns, the lowest first.",
    ),
    Column("bytes", BigInteger, comment="The size of its stored rows; null until it is completed."),
    _now("requested_at"),
    Column("finished_at", DateTime(timezone=True)),
    Index(None, "requested_at"),
    Index(None, "turn"),
    schema=SERVICE,
    comment="The reports that were requested; deleted when they expire.",
)

REPORT_CHUNKS = Table(
    "report_chunks",
    METADATA,
    Column("report_id", BigInteger, ForeignKey(REPORT_JOBS.c.id, ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False, comment="Counted from 1."),
    Column("rows", LargeBinary, nullable=False, comment="JSON objects with commas between, in UTF-8."),
    schema=SERVICE,
    comment="The rows of completed reports, which never change.",
)

IDEMPOTENCY_KEYS = Table(
    "idempotency_keys",
    METADATA,
    Column("user_id", BigInteger, ForeignKey(USERS.c.id, ondelete="CASCADE"), primary_key=True),
    Column("endpoint", Text, primary_key=True, comment="Method and path."),
    Column("key", Text, primary_key=True, comment="The value of the header Idempotency-Key."),
    Column("fingerprint", LargeBinary, nullable=False, comment="SHA-256 of the query and the body."),
    Column("status", Integer, nullable=False, comment="The HTTP status of the answer."),
    Column("media_type", Text, comment="The type of its body."),
    Column("body", LargeBinary, nullable=False),
    _now("stored_at"),
    Index(None, "stored_at"),
    schema=SERVICE,
    comment="Answers that a repeated request gets again, for a day.",
)

SUMMARIES = Table(
    "summaries",
    METADATA,
    Column("account", Text, primary_key=True),
    Column("dataset", Text, primary_key=True),
    Column("loads", ARRAY(BigInteger), nullable=False, comment="The loads whose rows are in: platform.loads.id."),
    Column(
        "with_sums",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="Whether the sums of statistics are stored, too.",
    ),
    schema=SERVICE,
    comment="Which rows the daily counts and sums are made of: those of an account's dataset after these loads, and "
    "after those that kept the sums themselves.",
)

DAILY_COUNTS = Table(
    "daily_counts",
    METADATA,
    Column("account", Text, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("local_day", Date, nullable=False),
    Column("part", Text, comment="The part of the list, where it has parts."),
    Column("rows", BigInteger, nullable=False),
    Index(None, "account", "dataset", "local_day"),
    schema=SERVICE,
    comment="How many rows each day of a list has.",
)

PRODUCT_SUMS = Table(
    "product_sums",
    METADATA,
    Column("account", Text, nullable=False),
    Column("month", Date, nullable=False, comment="Its first day."),
    Column("sku", Text, comment="Null: sales that name no product."),
    Column("kind", Text, nullable=False, comment="sales, cost or fees."),
    Column("currency", Text, nullable=False, comment="Empty: the currency of the account."),
    Column("units", Numeric, comment="Units ordered; null unless sales."),
    Column("amount", Numeric, comment="The sum of the month; costs and fees are positive."),
    Column("day_bits", Integer, nullable=False, comment="The days that have rows: bit 0 is the first of the month."),
    Index(None, "account", "month"),
    schema=SERVICE,
    comment="Sales, costs and fees by product and month.",
)

PRODUCT_DAYS = Table(
    "product_days",
    METADATA,
    Column("account", Text, nullable=False),
    Column("month", Date, nullable=False, comment="Its first day."),
    Column("sku", Text, comment="Null: sales that name no product."),
    Column("kind", Text, nullable=False, comment="sales, cost or fees."),
    Column("currency", Text, nullable=False, comment="Empty: the currency of the account."),
    Column("days", ARRAY(Date), nullable=False, comment="The days that have rows, in no order."),
    Column("units_of_days", ARRAY(BigInteger), comment="Units ordered on these days; null unless sales."),
    Column("amounts_of_days", ARRAY(Numeric), nullable=False, comment="The sums of these days."),
    Index(None, "account", "month"),
    schema=SERVICE,
    comment="The days of each row of product_sums, in rows of their own, so that sums of months are read quickly.",
)

DAY_SUMS = Table(
    "day_sums",
    METADATA,
    Column("account", Text, nullable=False),
    Column("local_day", Date, nullable=False),
    Column("kind", Text, nullable=False, comment="sales, cost or fees."),
    Column("is_of_product", Boolean, nullable=False, comment="False: fees that concern no product."),
    Column("currency", Text, nullable=False, comment="Empty: the currency of the account."),
    Column("entries", BigInteger, nullable=False, comment="How many amounts were added."),
    Column("units", Numeric, comment="Units ordered; null unless sales."),
    Column("amount", Numeric, comment="The sum of the day; costs and fees are positive."),
    Index(None, "account", "local_day"),
    schema=SERVICE,
    comment="Sales, costs and fees of all products by day.",
)

COST_STEPS = Table(
    "cost_steps",
    METADATA,
    Column("account", Text, nullable=False),
    Column("sku", Text, nullable=False),
    Column("periods_hash", Numeric, nullable=False, comment="Hash of the cost periods that the costs follow from."),
    Column("currency", Text, nullable=False, comment="Empty: the currency of the account."),
    Column("days", ARRAY(Date), nullable=False, comment="The days on which the cost changes, in order."),
    Column("amounts", ARRAY(Numeric), nullable=False, comment="The cost of a unit from each of these days on."),
    Index(None, "account", "sku"),
    schema=SERVICE,
    comment="The costs of each product, from its newest cost periods.",
)

COST_VERSIONS = Table(
    "cost_versions",
    METADATA,
    Column("account", Text, primary_key=True),
    Column("rows_hash", Numeric, nullable=False, comment="Hash of the places and transactions of the rows."),
    schema=SERVICE,
    comment="The rows of cost periods that an account's costs were last computed from.",
)
