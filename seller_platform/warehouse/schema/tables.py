"""The tables of the schemas `seller` and `history`, which follow from the contract, and of schema `platform`."""

from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Date,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    Text,
    Uuid,
    and_,
    func,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine, UserDefinedType

from seller_platform.capabilities import contributed
from seller_platform.contract import DATASETS, Dataset, Kind, Slicing, Source, Window

SELLER = "seller"
HISTORY = "history"
PLATFORM = "platform"

ROW_HASH = "row_hash"
"""The column with the hash of a row's text; null until a load by comparison first met the row."""
HELD = "held"
"""The verdict of a load whose reading was not published."""
GONE_LOAD_ID = "gone_load_id"
"""The column of a table in schema `history` with the load that no longer listed the row."""

READABLE = "readable"

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class TransactionNumber(UserDefinedType[str]):
    """The type of PostgreSQL's numbers of transactions, which never begin again from 1."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        """Return the name in PostgreSQL."""
        return "xid8"


ischema_names |= {"xid8": TransactionNumber}  # SQLAlchemy lacks it

MOMENT = DateTime(timezone=True)

TYPES: dict[Kind, TypeEngine[Any]] = {
    Kind.TEXT: Text(),
    Kind.INTEGER: BigInteger(),
    Kind.MONEY: Numeric(),
    Kind.NUMBER: Numeric(),
    Kind.BOOLEAN: Boolean(),
    Kind.DATE: Date(),
    Kind.TIMESTAMP: MOMENT,
    Kind.JSON: JSONB(),
}


def required(name: str, kind: TypeEngine[Any] | type[TypeEngine[Any]], comment: str, **more: Any) -> Column[Any]:
    """Return a column that is never null."""
    return Column(name, kind, nullable=False, comment=comment, **more)


def stamped(name: str, comment: str) -> Column[Any]:
    """Return the column with the moment at which a row is stored."""
    return required(name, MOMENT, server_default=func.now(), comment=comment)


def numbered(comment: str) -> Column[Any]:
    """Return the column with the number of a row."""
    return Column("id", BigInteger, Identity(), primary_key=True, comment=comment)


def counted(name: str, comment: str, kind: type[Integer] = Integer) -> Column[Any]:
    """Return a column that counts from 0."""
    return required(name, kind, server_default="0", comment=comment)


def belonging(
    name: str, owner: Column[Any], comment: str, *, primary_key: bool = False, index: bool | None = None
) -> Column[Any]:
    """Return the column with what a row belongs to, and with which it is deleted."""
    key = ForeignKey(owner, ondelete="CASCADE")
    return Column(name, owner.type, key, primary_key=primary_key, nullable=False, index=index, comment=comment)


def _transaction(comment: str) -> Column[Any]:
    return required("transaction_id", TransactionNumber, server_default=text("pg_current_xact_id()"), comment=comment)


def _load_ids(name: str, comment: str) -> Column[Any]:
    return required(name, ARRAY(BigInteger), server_default="{}", comment=comment)


def table_for(dataset: Dataset) -> Table:
    """Return the dataset's table in schema `seller`.

    Beside the contract's columns it has `account` (the account key), the day that places the row in a slice
    (`local_day`; for accounts the `connection` instead), `page` (the page of its list, from 1, within the load),
    `load_id` (the receipt in `platform.loads`), `row_hash` and `extra` (fields the contract does not know).
    """
    return _table(dataset, SELLER)


def history_of(dataset: Dataset) -> Table:
    """Return the dataset's table in schema `history`: the rows that a load no longer listed.

    It has the columns of `table_for`, and `gone_load_id`.
    """
    return _table(dataset, HISTORY)


def _table(dataset: Dataset, schema: str) -> Table:
    name = f"{schema}.{dataset.name}"
    if name in METADATA.tables:
        return METADATA.tables[name]
    if dataset.slicing is Slicing.CONNECTION:
        kind, placed, indexed = Kind.TEXT, "The connection that sees the account.", [dataset.slice_column]
    else:
        day = "The day of the row" if dataset.is_dated else "The day of the snapshot"
        kind, placed = Kind.DATE, f"{day} in the account's time zone."
        # The service reads and writes the rows of one product, beside those of thousands.
        within = dataset.order if dataset.source is Source.PRODUCT_LOOKUP else ()
        indexed = ["account", dataset.slice_column, *within]
    table, comment = dataset.name, dataset.doc
    gone: list[Column[Any]] = []
    # A load appends its rows, so that a summary of each 32 pages says where they are. It costs a load next to nothing.
    summary = {"pages_per_range": 32, "autosummarize": True}
    of_loads = [Index(f"ix_{table}_load", "load_id", postgresql_using="brin", postgresql_with=summary)]
    if schema == HISTORY:
        table, comment = f"{HISTORY}_{dataset.name}", f"Former rows of {dataset.table}."
        gone = [required(GONE_LOAD_ID, BigInteger, "The load that no longer listed the row.")]
        of_loads = []
    return Table(
        dataset.name,
        METADATA,
        *(Column(column.name, TYPES[column.kind], comment=column.doc) for column in (*dataset.columns, *dataset.tags)),
        Column("extra", JSONB, comment="Fields of the row that the contract does not know."),
        required(dataset.slice_column, TYPES[kind], placed),
        required("account", Text, "Key of the account."),
        required("load_id", BigInteger, "The load that stored the row: platform.loads.id."),
        required("page", Integer, "The page of the list, counted through the load."),
        Column(ROW_HASH, Uuid, comment="XXH3 of the row as text; null where the row was stored without it."),
        *gone,
        Index(f"ix_{table}_slice", *indexed),
        *of_loads,
        schema=schema,
        comment=comment,
        postgresql_partition_by="HASH (account)" if dataset.slicing is not Slicing.CONNECTION else None,
    )


for _dataset in DATASETS:
    table_for(_dataset)
    history_of(_dataset)


def platform_table(name: str, comment: str, *items: SchemaItem, is_readable: bool = False) -> Table:
    """Return a table of schema `platform`. Those that readers may not read have secrets, or facts for programs."""
    return Table(name, METADATA, *items, schema=PLATFORM, comment=comment, info={READABLE: is_readable})


CONNECTIONS = platform_table(
    "connections",
    "The API users whose accounts are read.",
    Column("name", Text, primary_key=True, comment="The name that `connect --connection` gave it."),
    required("base_url", Text, "The address of the API."),
    required("auth_url", Text, "The address of the authorisation page and of the tokens."),
    required("client_id", Text, "The application's id at the upstream."),
    Column("user_id", BigInteger, comment="The upstream's number of the user; null until it is read."),
    Column("user_name", Text, comment="The user's name at the upstream; null until it is read."),
    stamped("created_at", "When the connection was stored first."),
    Column("client_secret", LargeBinary, comment="The application's secret, encrypted (Fernet); null: the settings'."),
    Column("redirect_uri", Text, comment="Where the authorisation page leads back to; null: the settings'."),
)

GRANTS = platform_table(
    "grants",
    "One grant per connection; changed only under its row lock.",
    belonging("connection", CONNECTIONS.c.name, "The connection that it authorises.", primary_key=True),
    required("token_pair", LargeBinary, "The current pair, encrypted (Fernet)."),
    required("generation", BigInteger, "Counts the pairs: 1 from the code, +1 each rotation."),
    required("issued_at", MOMENT, "When the current pair was received."),
    required("expires_at", MOMENT, "When the current access token expires."),
    Column("refused", Text, comment="Why the upstream refused the grant for good; null while it is honoured."),
    Column("refused_at", MOMENT, comment="When it did so first."),
)

ACCOUNTS = platform_table(
    "accounts",
    "Every account ever discovered; never deleted.",
    Column("key", Text, primary_key=True, comment="Key of the account: <country>-<id>, as it was first listed."),
    belonging("connection", CONNECTIONS.c.name, "The connection that listed it last."),
    required("id", BigInteger, "The upstream's number of the account."),
    required("title", Text, "The name that people gave it."),
    Column("country_code", Text, comment="ISO 3166 code of the marketplace's country."),
    Column("currency_code", Text, comment="ISO 4217 code of the account's amounts."),
    required("timezone", Text, "The IANA time zone of its local days."),
    Column("marketplace", Text, comment="The upstream's id of the marketplace."),
    Column("seller_id", Text, comment="The upstream's id of the seller."),
    stamped("first_seen_at", "When it was listed first."),
    stamped("last_seen_at", "When it was listed last."),
    Column("retired_at", MOMENT, comment="When the account was first missing; null while listed."),
    is_readable=True,
)

# Indexes of all receipts are not used for the view `readings`: PostgreSQL expects few of them to meet its condition.
_IS_READING = text("verdict <> 'held' AND notes -> 'reverts_load' IS NULL")

LOADS = platform_table(
    "loads",
    "The receipts: one row for each load of a slice.",
    numbered("The number of the load; later loads have larger ones."),
    required("dataset", Text, "The table in schema seller that was loaded."),
    required("account", Text, "Account key; for seller.accounts the connection."),
    required("window_start", Date, "The first day of the window; of a snapshot its day."),
    required("window_end", Date, "The first day after the window."),
    required("requests", Integer, "Requests that were sent."),
    required("pages", Integer, "Pages that were read."),
    required("body_bytes", BigInteger, "Bytes of the bodies read, after decompression."),
    Column("announced", BigInteger, comment="Rows the list announced; null where it sends no total."),
    required("rows", BigInteger, "Rows of the slice after the load."),
    required("digest", LargeBinary, "Order-independent digest of the rows."),
    required("verdict", Text, "match, mismatch, unverifiable or held."),
    required("changed", Boolean, "False where the rows were stored already."),
    Column("restatement", JSONB, comment="What changed against the slice before; null on its first load."),
    Column("sums", JSONB(none_as_null=True), comment="Rows and amounts of the slice after the load, where known."),
    Column("changed_days", JSONB(none_as_null=True), comment="By day: rows that came and went, change of amount."),
    Column("notes", JSONB, comment="What else the reading found, such as fields unknown to the contract."),
    Column("run_id", Text, comment="The Dagster run."),
    Column("time_zone", Text, comment="The account's time zone, as it was read; null for lists of accounts."),
    Column("currency", Text, comment="The account's currency, as it was read; null for lists of accounts."),
    required("started_at", MOMENT, "When the reading began."),
    required(
        "finished_at",
        MOMENT,
        "When its rows were stored, by PostgreSQL's clock; of the same days in the order of loads.",
    ),
    _transaction("The transaction that stored its rows; after a move to another server 0."),
    Index(None, "dataset", "account", "window_start"),
    Index(None, "run_id"),
    Index(None, "finished_at"),
    Index(None, "transaction_id"),
    # The newest readings of so many days, of an account or of all.
    Index(
        "ix_loads_account_days",
        "dataset",
        "account",
        text("(window_end - window_start)"),
        "id",
        postgresql_where=_IS_READING,
    ),
    Index("ix_loads_days", "dataset", text("(window_end - window_start)"), "id", postgresql_where=_IS_READING),
    # What was read when, without the rows of the table.
    Index(
        "ix_loads_readings",
        "dataset",
        "account",
        "window_start",
        postgresql_include=["window_end", "started_at", "id", "time_zone", "currency"],
        postgresql_where=_IS_READING,
    ),
    Index("ix_loads_held", "dataset", "account", postgresql_where=text("verdict = 'held'")),
    is_readable=True,
)

KEPT_SETTLEDNESS = platform_table(
    "kept_settledness",
    "The view settledness as it was read last: a plan reads only some accounts of it again.",
    Column("dataset", Text, primary_key=True, comment="The table in schema seller."),
    Column("account", Text, primary_key=True, comment="Key of the account."),
    Column(
        "percent",
        JSONB(none_as_null=True),
        comment="By age in days: the larger of rows_percent and amounts_percent; null where no day was read twice.",
    ),
    Column("observed_days", Integer, comment="As in the view settledness."),
    required("computed_at", MOMENT, "When it was read from the view."),
)

KNOWN_PAGES = platform_table(
    "known_pages",
    "The pages of the last load of each slice: one that is sent again is not decoded again.",
    belonging("load_id", LOADS.c.id, "The load that read them: platform.loads.id.", primary_key=True),
    required("pages", LargeBinary, "What each page added to the slice, by its digest."),
)

PUBLISHED_LOADS = LOADS.to_metadata(MetaData(), name="published_loads")
"""The view of receipts of loads that were published: readings that were not held, and reverts."""

IN_DOUBT = (
    "error IS NOT NULL OR held_load_ids <> '{}' OR mismatched_load_ids <> '{}' OR noted_load_ids <> '{}' "
    "OR recounted_rows IS NOT NULL"
)
"""The condition for slices of which something is wrong or noted: an index has them."""

SLICES = platform_table(
    "slices",
    "What is true of each slice now: stored, held or failed.",
    required("dataset", Text, "The table in schema seller."),
    required("account", Text, "Account key; for seller.accounts the connection."),
    Column("month", Date, comment="The first day of the month; null where the list has no days."),
    Column("load_id", BigInteger, comment="The newest load of its days: platform.loads.id; null if never loaded."),
    Column("changed_load_id", BigInteger, comment="The newest load that changed its rows."),
    Column("pruned_at", MOMENT, comment="When old snapshots were last deleted, so that exports are written again."),
    Column("verdict", Text, comment="The verdict of the newest load: match, mismatch or unverifiable."),
    Column("first_day", Date, comment="Where the list has no days: the first on which it was loaded."),
    Column("newest_day", Date, comment="Where the list has no days: that of its newest snapshot, be it empty."),
    Column("reported_load_id", BigInteger, comment="The newest load that was reported to Dagster."),
    counted("rows", "Rows stored; of a snapshot the newest.", BigInteger),
    Column("read_at", MOMENT, comment="When the newest published reading of it began."),
    Column("current_at", MOMENT, comment="When the newest with the account's present day in it began."),
    Column("days_read", ARRAY(MOMENT), comment="When each of its days was last read; null days are to be read."),
    Column("read_after_days", Integer, comment="The fewest days after which one was last read; null before all were."),
    Column("time_zone", Text, comment="The account's time zone, as it was last read."),
    Column("currency", Text, comment="The account's currency, as it was last read."),
    _load_ids(
        "mismatched_load_ids", "Loads whose rows do not add up to the announced total, and that no later load replaced."
    ),
    _load_ids("held_load_ids", "Readings that are held: no later loads published their days, or held them again."),
    _load_ids("noted_load_ids", "Loads whose notes a check reads, and whose days no later loads replaced together."),
    Column("recounted_rows", BigInteger, comment="Rows that were counted since its load, if they are not as many."),
    Column(
        "since",
        JSONB,
        nullable=False,
        server_default="{}",
        comment="When each kind of what is held, mismatched, noted or altered of it began, by its name.",
    ),
    _transaction("The transaction that changed the row last."),
    Column("error", Text, comment="The class of the error when it was last tried; null if it was loaded."),
    Column("message", Text, comment="What happened, and the next step."),
    Column("failed_since", MOMENT, comment="When it failed first, after its last load."),
    Column("failed_at", MOMENT, comment="When it failed last."),
    Column("failed_run_id", Text, comment="The Dagster run that failed last."),
    Column("exit_code", Integer, comment="The exit code of that error."),
    counted("requests_in_vain", "The most requests that were sent in vain, before those of a day were used up."),
    Index(
        "ix_slices_unreported",
        "load_id",
        postgresql_where=text("load_id IS NOT NULL AND reported_load_id IS DISTINCT FROM load_id"),
    ),
    Index("uq_slices", "dataset", "account", "month", unique=True, postgresql_nulls_not_distinct=True),
    Index("ix_slices_troubled", "dataset", "account", postgresql_where=text(IN_DOUBT)),
    Index(None, "transaction_id"),
    is_readable=True,
)

ACKNOWLEDGEMENTS = platform_table(
    "acknowledgements",
    "Problems that a person knows, as they were then; one that gets worse is not known any more.",
    numbered("The number of the acknowledgement."),
    Column("kind", Text, nullable=False, comment="As in the view problems, like what follows."),
    Column("dataset", Text, nullable=False, comment="The table in schema seller, or marts.NAME or exports.NAME."),
    Column("account", Text, nullable=False, comment="Key of the account; of the dataset accounts the connection."),
    Column("month", Date, comment="The first day of the month; null where the list has no days."),
    Column("message", Text, nullable=False, comment="What happened."),
    Column("is_error", Boolean, nullable=False, comment="Whether it was an error."),
    Column("rows", BigInteger, comment="How many rows were concerned."),
    Column("amount", Numeric, comment="The money that was at stake."),
    Column("currency", Text, comment="Its currency."),
    Column("until", Date, comment="The last day of it; null until the problem ends or gets worse."),
    Column("note", Text, comment="Why it is no problem."),
    Column("by", Text, nullable=False, server_default=text("session_user"), comment="The login of the database."),
    stamped("at", "When it was acknowledged."),
    Index(
        "ix_acknowledgements",
        *("kind", "dataset", "account", "month", text("md5(message)")),
        unique=True,
        postgresql_nulls_not_distinct=True,
    ),
    is_readable=True,
)

HISTORY_START = platform_table(
    "history_start",
    "Where history begins, in one row; its month is the first partition.",
    Column(
        "is_only_row",
        Boolean,
        CheckConstraint("is_only_row", name="ck_history_start_is_only_row"),
        primary_key=True,
        server_default=true(),
        comment="Always true, so that there is one row.",
    ),
    required("first_day", Date, "The first day of interest; it only becomes earlier."),
    is_readable=True,
)

SENT_REQUESTS = platform_table(
    "sent_requests",
    "Requests by day, of connections with a budget (SELLER_API_REQUESTS_PER_DAY).",
    Column("connection", Text, primary_key=True, comment="The connection that sent them."),
    Column("day", Date, primary_key=True, comment="The day, in UTC."),
    required("requests", Integer, "Requests that were sent, or are reserved."),
)


def declared() -> MetaData:
    """Return all tables, with those of the capabilities."""
    assert all(contributed("tables"))  # imported, they have joined the others
    return METADATA


def loads_of(dataset: Dataset, account: str, window: Window | None = None) -> ColumnElement[bool]:
    """Return the condition for published loads of a dataset and account.

    With a window, only those whose own window shares a day with it.
    """
    load = PUBLISHED_LOADS.c
    of_days = () if window is None else (load.window_start < window.end, load.window_end > window.start)
    return and_(load.dataset == dataset.name, load.account == account, *of_days)
