"""Finds which partitions of marts and exports can be made, and which changed since they were made.

A mart or the files of a table are *derived*: computed from slices, partition by partition. The table
`platform.derived_partitions` has the newest try of each partition.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, NamedTuple

import msgspec
from psycopg import sql
from psycopg.rows import class_row
from psycopg.types.json import Jsonb
from sqlalchemy import Connection

from seller_platform.clocks import utc_now
from seller_platform.commands import runnable
from seller_platform.contract import Slicing, Window
from seller_platform.errors import InputProblemError, SellerPlatformError
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.postgres.database import IDENTITY, driver_of
from seller_platform.warehouse.schema.slice_problems import TRIED_SLICES
from seller_platform.warehouse.schema.tables import SELLER

RETRIED_AFTER = timedelta(hours=1)
"""A partition that failed is tried again after so long, because the reason may have been an outage.

So is one that was made without a run and that Dagster does not know.
"""

EVERY_ACCOUNT = ""
"""The account of a partition that is of all accounts."""

# A dated slice is read by its own month, and by months before and after it. Others are read by every month, marts of
# whole accounts read the sales of 90 days.
_STATES = sql.SQL("""
WITH part AS (
    SELECT account, month FROM unnest(%(accounts)s::text[]) AS account, unnest(%(months)s::date[]) AS month
),
input (name, is_required, is_monthly, months_before, months_after) AS (
    SELECT * FROM unnest(%(input)s::text[], %(is_required)s::boolean[], %(is_monthly)s::boolean[],
                         %(months_before)s::int[], %(months_after)s::int[])
),
changed AS (
    SELECT dataset AS name, CASE WHEN %(is_of_all)s THEN '' ELSE account END AS account, month, NULL AS problem,
           hashtextextended(concat_ws('|', dataset, account, month, changed_load_id, extract(epoch FROM pruned_at),
                                  cardinality(array_remove(days_read, NULL))), 0)
               AS change
    FROM platform.slices
    WHERE dataset = ANY (%(input)s) AND (%(is_of_all)s OR account = ANY (%(accounts)s)) AND load_id IS NOT NULL
    UNION ALL
    SELECT name, account, month, NULL, hashtextextended(concat_ws('|', name, month, changed_build_id), 0)
    FROM platform.derived_partitions
    WHERE folder = '' AND name = ANY (%(input)s) AND account = ANY (%(accounts)s) AND changed_build_id IS NOT NULL
    UNION ALL
    SELECT dataset, account, month,
           CAST(jsonb_build_array(kind, dataset, month, concat_ws(' ', message, next_step)) AS text), NULL
    FROM ({tried}) AS cause
    WHERE blocks AND %(folder)s = '' AND dataset = ANY (%(input)s) AND account = ANY (%(accounts)s)
      AND (%(of_months)s OR month IS NULL OR month >= date_trunc('month', %(now)s) - interval '3 months')
),
read AS (
    SELECT account, read_by.month, sum(change) AS changes, min(problem COLLATE "C") AS problem,
           array_agg(DISTINCT name) FILTER (WHERE shift = 0 AND change IS NOT NULL) AS names
    FROM input JOIN changed USING (name)
    CROSS JOIN generate_series(-months_after, months_before) AS shift
    CROSS JOIN LATERAL (
        SELECT CASE WHEN is_monthly THEN CAST(changed.month + make_interval(months => shift) AS date) END AS month
    ) AS read_by
    GROUP BY account, read_by.month
),
state AS (
    SELECT part.account, part.month, derived.error, derived.tried_at, derived.run_id,
           ARRAY(SELECT name FROM input
                 WHERE is_required AND name <> ALL (coalesce(own.names, '{{}}') || coalesce(whole.names, '{{}}'))
                ) AS missing,
           CAST(least(own.problem, whole.problem) AS jsonb) AS problem, made_of.fingerprint,
           coalesce(derived.fingerprint = made_of.fingerprint, false) AS is_tried
    FROM part
    LEFT JOIN read AS own ON own.account = part.account AND own.month = part.month
    LEFT JOIN read AS whole ON whole.account = part.account AND whole.month IS NULL
    LEFT JOIN platform.accounts AS listed ON listed.key = part.account
    LEFT JOIN platform.derived_partitions AS derived
           ON derived.folder = %(folder)s AND derived.name = %(name)s AND derived.account = part.account
          AND coalesce(derived.month, 'epoch') = coalesce(part.month, 'epoch')
    CROSS JOIN LATERAL (
        SELECT sha256(convert_to(CAST(jsonb_build_array(
            %(version)s::text, listed.id, listed.currency_code, listed.timezone, own.changes, whole.changes,
            CASE WHEN %(folder)s <> '' THEN {identity} END
        ) AS text), 'UTF8')) AS fingerprint
    ) AS made_of
)
SELECT %(name)s::text AS name, account, month, missing, problem, fingerprint, is_tried,
       is_tried AND error IS NULL AS is_current
FROM state {condition}
ORDER BY account, month
""")

# Only these block. PostgreSQL takes longer to plan the union of all problems than to read it.
_TRIED = sql.SQL(TRIED_SLICES.select.replace("%", "%%"))

# A command reports at its end what it has made without a run. If it was killed, Dagster does not know it. What waited
# for an input need not wait longer than it.
_ARE_DUE = sql.SQL("""
WHERE missing = '{}' AND (NOT is_tried OR error = %(waits)s
                          OR (error IS NOT NULL OR run_id IS NULL) AND tried_at < %(tried_before)s)
""")

KEPT_CHECKS = """(
    SELECT jsonb_object_agg(name, failed || jsonb_strip_nulls(jsonb_build_object(
        'since', former.failed_checks -> name -> 'since')))
    FROM jsonb_each({}) AS checks (name, failed))"""
"""The expression for failed checks of which those that failed `former`ly keep since when."""

_KEEP = f"""
INSERT INTO platform.derived_partitions AS former (folder, name, account, month, fingerprint, run_id, tried_at, digest,
                                                   changed_build_id, failed_checks, error, message, failed_since)
VALUES (%(folder)s, %(name)s, %(account)s, %(month)s, %(fingerprint)s, %(run_id)s, %(now)s, %(digest)s, %(build_id)s,
        %(failed_checks)s, %(error)s, %(message)s, CASE WHEN %(error)s::text IS NOT NULL THEN %(now)s END)
ON CONFLICT (folder, name, account, month) DO UPDATE SET
    fingerprint = excluded.fingerprint, run_id = excluded.run_id, tried_at = excluded.tried_at,
    digest = coalesce(excluded.digest, former.digest), error = excluded.error, message = excluded.message,
    changed_build_id = CASE WHEN coalesce(excluded.digest = former.digest, former.digest IS NOT NULL)
                            THEN former.changed_build_id ELSE excluded.changed_build_id END,
    failed_checks = CASE WHEN excluded.error IS NOT NULL THEN former.failed_checks
                         ELSE {KEPT_CHECKS.format("excluded.failed_checks")} END,
    failed_since = CASE WHEN excluded.error IS NOT NULL THEN coalesce(former.failed_since, excluded.failed_since) END
"""  # noqa: S608  # constants


class DerivedInput(NamedTuple):
    """A dataset or a mart that something is computed from; where it is monthly, a month from months of it."""

    input: str
    is_required: bool = True
    is_monthly: bool = False
    months_before: int = 0
    months_after: int = 0


@dataclass(frozen=True)
class Derived:
    """A mart, or the files of a table.

    Attributes:
        version: Of the query with its rules and parameters, or of the columns: the same inputs give the same rows.
        inputs: What decides whether a partition changed.
        folder: Of the files; empty for a mart.
        is_of_all: Whether there is a single partition of all accounts.
    """

    name: str
    version: str
    is_monthly: bool
    inputs: tuple[DerivedInput, ...]
    folder: str = ""
    is_of_all: bool = False

    @classmethod
    def of(cls, mart: Mart, parameters: Mapping[str, int] | None = None) -> "Derived":
        """Return a mart. Of the list of accounts only what it says of a partition's own account decides."""
        chosen = mart.chosen_parameters(parameters or {})
        inputs = tuple(
            DerivedInput(
                each.dataset.name,
                each.required,
                mart.is_monthly and each.dataset.is_dated,
                each.months_before,
                each.months_after,
            )
            for each in mart.inputs
            if each.dataset.slicing is not Slicing.CONNECTION
        )
        return cls(mart.name, f"{mart.version} {json.dumps(chosen, sort_keys=True)}", mart.is_monthly, inputs)


class PartitionState(msgspec.Struct, frozen=True):
    """A partition of something derived, and why it needs no try.

    Attributes:
        month: The first day of the month; None where the partition is a whole account.
        missing: The required inputs that were never loaded; with any, nothing can be made.
        problem: Of the slice of an input of a mart, for which it must not be built: kind, dataset, month and sentence.
        fingerprint: Of all that decides what is made; an equal one means that nothing changed.
        is_tried: Whether the newest try had this fingerprint.
        is_current: Whether it did, and succeeded.
    """

    name: str
    account: str
    month: date | None
    missing: Sequence[str]
    problem: tuple[str, str, str | None, str] | None
    fingerprint: bytes
    is_tried: bool
    is_current: bool

    @property
    def window(self) -> Window | None:
        return None if self.month is None else Window.month_of(self.month)

    @property
    def reason(self) -> str | None:
        """Why the partition is not made; None where it should be."""
        if self.missing:
            return f"{' and '.join(self.missing)}: never loaded"
        return "nothing changed" if self.is_current else None

    def input_problem(self, key_prefix: str = "") -> InputProblemError | None:
        """Return why it must not be built; None if no input has a problem.

        An input that is not required stops a mart, too, unless it was never tried.
        """
        if self.problem is None:
            return None
        kind, dataset, month, sentence = self.problem
        partition = f"{self.account}|{month}" if month else self.account
        return InputProblemError(kind, f"{key_prefix}{SELLER}/{dataset}", partition, runnable(sentence))


def partition_states(
    connection: Connection,
    derived: Derived,
    accounts: Sequence[str],
    months: Sequence[Window],
    *,
    only_due: bool = False,
) -> Sequence[PartitionState]:
    """Return the partitions of these accounts, by account and month.

    Args:
        months: The months of what is monthly.
        only_due: Only those that a run should make now. One that failed, or was made without a run and not reported, is
            due once an input changed, or an hour later.
    """
    bindings: dict[str, Any] = vars(derived) | {
        "of_months": derived.is_monthly,
        "accounts": [EVERY_ACCOUNT] if derived.is_of_all else list(accounts),
        "months": [month.start for month in months] if derived.is_monthly else [None],
        "waits": InputProblemError.__name__,
        "now": utc_now(),
        "tried_before": utc_now() - RETRIED_AFTER,
    }
    for name, values in zip(DerivedInput._fields, zip(*derived.inputs, strict=True), strict=True):
        bindings[name] = list(values)
    statement = _STATES.format(identity=IDENTITY, tried=_TRIED, condition=_ARE_DUE if only_due else sql.SQL(""))
    with driver_of(connection).cursor(row_factory=class_row(PartitionState)) as cursor:
        return cursor.execute(statement, bindings).fetchall()


def state_of(connection: Connection, derived: Derived, account: str, month: Window | None) -> PartitionState:
    """Return a single partition; a try begins with it."""
    (state,) = partition_states(connection, derived, [account], [month] if month else [])
    return state


def keep_try(
    connection: Connection,
    derived: Derived,
    state: PartitionState,
    *,
    run_id: str | None,
    digest: bytes | None = None,
    build_id: int | None = None,
    failed_checks: Mapping[str, object] | None = None,
    error: SellerPlatformError | None = None,
) -> None:
    """Store that a partition was made of the inputs that its state has, or why not. What was made before stays."""
    values = msgspec.structs.asdict(state) | {
        "folder": derived.folder,
        "run_id": run_id,
        "now": utc_now(),
        "digest": digest,
        "build_id": build_id,
        "failed_checks": Jsonb(failed_checks) if failed_checks else None,
        "error": error and error.code,
        # PostgreSQL stores every character but NUL, which a message may quote.
        "message": error and str(error).replace("\x00", ""),
    }
    driver_of(connection).execute(_KEEP, values)
