"""The view `platform.problems`: what is wrong now, one row for each thing, and what it is made of.

It is created anew after each upgrade, because it follows from the contract.
"""

from datetime import timedelta
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection

from seller_platform.contract import REFRESHED
from seller_platform.contract.tokens import WARN_BEFORE_DEATH
from seller_platform.contract.wire import REFRESH_TOKEN_SECONDS
from seller_platform.errors import CheckFailedError, ReauthorizationRequiredError
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.schema.comments import comment_on_view
from seller_platform.warehouse.schema.tables import IN_DOUBT

READ_WITHIN_HOURS = 26
"""The refresh reads every account once a day; two hours are for its runs."""

_LIFETIME = timedelta(seconds=REFRESH_TOKEN_SECONDS)

# An upstream need not offer what upstreams compute. It does if it has answered for any account.
_OFFERED = sql.SQL("""
CREATE OR REPLACE VIEW platform.offered_slices AS
SELECT declared.dataset, declared.is_dated, listed.key AS account, listed.retired_at
FROM platform.accounts AS listed
JOIN platform.connections AS own ON own.name = listed.connection
CROSS JOIN (VALUES {datasets}) AS declared (dataset, is_dated, is_computed)
WHERE NOT is_computed OR (dataset, own.base_url) IN (
    SELECT slices.dataset, base_url
    FROM platform.slices
    JOIN platform.accounts AS readers ON readers.key = slices.account
    JOIN platform.connections ON connections.name = readers.connection
    WHERE load_id IS NOT NULL AND slices.dataset = ANY ({computed}))
""")

# Days count as missing when a daily refresh should have brought them, unless their slice failed or is held. Accounts
# that lack nothing, mostly all, are left out first: to join their months takes five times as long.
_UNREAD = sql.SQL("""
CREATE OR REPLACE FUNCTION platform.unread_slices (moment timestamptz, since date)
RETURNS TABLE (dataset text, account text, month date, kind text) LANGUAGE sql STABLE
SET enable_nestloop = off SET jit = off AS $$
    WITH listed AS (
        SELECT dataset, account, is_dated FROM platform.offered_slices WHERE retired_at IS NULL
    ),
    due AS (
        SELECT month, first, first + days - 1 AS last
        FROM (SELECT moment AT TIME ZONE 'UTC' AS today, CAST(since AS timestamp) AS begin) AS history,
             generate_series(date_trunc('month', begin), greatest(today, begin), interval '1 month') AS series,
             LATERAL (SELECT CAST(series AS date) AS month, CAST(series + interval '1 month' AS date) AS after,
                             CAST(today - interval '{hours} hours' AS date) AS until) AS days_of,
             LATERAL (SELECT greatest(month, since) AS start) AS begun,
             LATERAL (SELECT CAST(extract(day FROM start) AS integer) AS first,
                             least(after, until) - start AS days) AS counted
        WHERE days > 0
    ),
    complete AS (
        SELECT dataset, account
        FROM platform.slices JOIN due USING (month)
        WHERE load_id IS NOT NULL
          AND (read_after_days IS NOT NULL OR array_position(days_read[first:last], NULL) IS NULL)
        GROUP BY dataset, account
        HAVING count(*) = (SELECT count(*) FROM due)
    )
    SELECT dataset, account, month, CASE WHEN load_id IS NULL THEN 'missing' ELSE 'incomplete' END AS kind
    FROM (SELECT dataset, account FROM listed WHERE is_dated EXCEPT SELECT dataset, account FROM complete) AS dated
    CROSS JOIN due
    LEFT JOIN platform.slices USING (dataset, account, month)
    WHERE (load_id IS NULL OR array_position(days_read[first:last], NULL) IS NOT NULL) AND {is_untroubled}
    UNION ALL
    SELECT dataset, account, NULL, CASE WHEN load_id IS NULL THEN 'missing' ELSE 'late' END
    FROM (SELECT dataset, account FROM listed WHERE NOT is_dated) AS undated
    LEFT JOIN platform.slices USING (dataset, account)
    WHERE (load_id IS NULL OR read_at < moment - interval '{hours} hours') AND {is_untroubled}
$$
""")
_IS_UNTROUBLED = sql.SQL("""
    coalesce(error, 'RequestsUsedUpError') IN ('RequestsUsedUpError', 'NotOfferedError', 'ReadingHeldError')
    AND coalesce(held_load_ids, '{{}}') = '{{}}'
""")

_IS_IN_DOUBT = f"({IN_DOUBT})"

_TROUBLED = f"""
CREATE OR REPLACE VIEW platform.troubled_slices AS
SELECT dataset, account, month, CASE error WHEN 'RequestsUsedUpError' THEN 'postponed' ELSE 'failed' END AS kind,
       CASE WHEN error <> 'RequestsUsedUpError' THEN 'error' WHEN failed_run_id IS NULL THEN 'note' ELSE 'warning' END
       AS severity,
       error, failed_since AS since, CAST(NULL AS bigint) AS load_id, failed_run_id AS run_id,
       CAST(NULL AS bigint) AS rows, CAST(NULL AS numeric) AS amount, CAST(NULL AS text) AS currency, message,
       CAST(NULL AS text) AS next_step, load_id IS NOT NULL AS was_loaded, exit_code
FROM platform.slices
WHERE {_IS_IN_DOUBT} AND error <> 'ReadingHeldError'
  AND (error <> 'NotOfferedError' OR (dataset, account) IN (SELECT dataset, account FROM platform.offered_slices))
UNION ALL
SELECT slice.dataset, slice.account, month, 'held', 'error', NULL, held.started_at, held.id, held.run_id, held.rows,
       NULL, NULL,
       format('%s of %s, %s..%s: %s. The stored rows stay, the reading is held.', slice.dataset, slice.account,
              window_start, window_end - 1, notes #>> '{{held,reason}}'),
       format('Compare with the upstream, then publish it with `seller-platform accept %s` or the job accept_held of '
              'the Dagster UI, or wait: each refresh reads the slice again, and after three that say the same, '
              '20 hours apart, it is published.', held.id),
       slice.load_id IS NOT NULL, NULL
FROM platform.slices AS slice JOIN platform.loads AS held ON held.id = held_load_ids[cardinality(held_load_ids)]
WHERE {_IS_IN_DOUBT} AND held_load_ids <> '{{}}'
UNION ALL
SELECT slice.dataset, slice.account, month, 'mismatched', 'error', NULL, load.started_at, load.id, load.run_id,
       abs(announced - load.rows), NULL, NULL,
       format('%s of %s, %s..%s: %s.', slice.dataset, slice.account, window_start, window_end - 1,
              coalesce(notes ->> 'contradiction',
                       format('the list announced %s rows, and %s were read', announced, load.rows))),
       'Load the partition again; if the numbers stay, report them to the upstream.', true, NULL
FROM platform.slices AS slice
JOIN platform.loads AS load ON load.id = mismatched_load_ids[cardinality(mismatched_load_ids)]
WHERE {_IS_IN_DOUBT} AND mismatched_load_ids <> '{{}}'
"""  # noqa: S608  # constants

# What loads noted of which days are stored, and what was found out since. A settled window may change by a few rows.
# The grant of a connection belongs to its list of accounts.
_NOTED = """
CREATE OR REPLACE VIEW platform.noted_slices AS
SELECT slice.dataset, slice.account, month, noted.kind,
       CASE noted.kind WHEN 'unusable' THEN 'error' ELSE 'warning' END AS severity,
       CAST(NULL AS text) AS error, load.started_at AS since, load.id AS load_id, load.run_id,
       CAST(CASE noted.kind WHEN 'keyless' THEN notes #>> '{null_keys,rows}'
                            WHEN 'duplicated' THEN notes ->> 'duplicate_keys'
                            WHEN 'replaced' THEN notes #>> '{replaced_text,rows}'
                            WHEN 'unreadable' THEN notes #>> '{unreadable_values,rows}'
                            WHEN 'overprecise' THEN notes #>> '{excess_digits,rows}' END AS bigint) AS rows,
       CAST(NULL AS numeric) AS amount, CAST(NULL AS text) AS currency,
       noted.message, noted.next_step
FROM platform.slices AS slice
JOIN platform.loads AS load ON load.id = ANY (noted_load_ids)
CROSS JOIN LATERAL (
    SELECT string_agg(format('%s from %s to %s', key, value ->> 'before', value ->> 'after'), '; ')
    FROM jsonb_each(CASE jsonb_typeof(restatement) WHEN 'object' THEN restatement ELSE '{}' END)
    WHERE notes ? 'was_settled' AND abs(CAST(value ->> 'after' AS numeric) - CAST(value ->> 'before' AS numeric))
                                    > abs(CAST(value ->> 'before' AS numeric)) / 100
) AS restated (changes)
CROSS JOIN LATERAL (VALUES
    ('restated', format('%s of %s, %s..%s: settled days changed by more than 1 %%: %s.', slice.dataset, slice.account,
                        window_start, window_end - 1, restated.changes),
     'The stored rows are those of the upstream now: make reports again that were made from the former ones.'),
    ('moved', format('The total changed from %s to %s while the parts of the list were read; they add up to a total in '
                     'between.', notes #>> '{moved,before}', notes #>> '{moved,after}'),
     'Wait: the next refresh reads the days again.'),
    ('keyless', format('%s of %s rows have no value in their key: %s. They are stored as they were sent.',
                       notes #>> '{null_keys,rows}', load.rows, platform.rows_named(notes -> 'null_keys')),
     'Report it to the upstream.'),
    ('duplicated', format('%s of %s rows have the key of another row. They are stored as they were sent.',
                          notes ->> 'duplicate_keys', load.rows),
     'Ask the upstream which of them is right.'),
    ('replaced', format('%s of %s rows have text that PostgreSQL does not store (NUL, half of a surrogate pair, or '
                        'bytes that are no UTF-8): %s. U+FFFD is stored in its place.',
                        notes #>> '{replaced_text,rows}', load.rows, platform.rows_named(notes -> 'replaced_text')),
     'Report it to the upstream.'),
    ('unreadable', format('%s of %s rows have values that cannot be read: %s. They are null, all else is stored.',
                          notes #>> '{unreadable_values,rows}', load.rows,
                          platform.rows_named(notes -> 'unreadable_values')),
     'Report it to the upstream.'),
    ('overprecise', format('%s of %s rows have amounts with more decimals than their currency: %s. They are stored as '
                           'they were sent.', notes #>> '{excess_digits,rows}', load.rows,
                           platform.rows_named(notes -> 'excess_digits')),
     'Report it to the upstream. Readings are compared in the minor unit of the currency.'),
    ('undeclared', format('The upstream sent fields that are not declared: %s. Their values are kept in the column '
                          '`extra`.', (SELECT string_agg(name, ', ')
                                       FROM jsonb_array_elements_text(notes -> 'unknown_fields') AS field (name))),
     'Read them from `extra`, until a version of the platform has columns for them.'),
    ('unusable', format('Accounts cannot be read: %s. All others are read.',
                        (SELECT string_agg(format('%s: %s', key, value), '; ')
                         FROM jsonb_each_text(notes -> 'unusable_accounts'))),
     'Correct them at the upstream.'),
    ('rezoned', format('Accounts changed the time zone or the currency: %s.',
                       (SELECT string_agg(format('%s: %s', key, value), '; ')
                        FROM jsonb_each_text(notes -> 'moved_accounts'))),
     'Wait: refreshes read their rows again. Until then rows at the borders of days and months are missing or twice.'),
    ('unusual', format('Days have far fewer or more rows than the same weekdays of the eight weeks before: %s.',
                       (SELECT string_agg(format('%s: %s rows, about %s expected', key, value ->> 'rows',
                                                 value ->> 'expected'), '; ')
                        FROM jsonb_each(notes -> 'unusual_days'))),
     'Wait: the next refresh reads them again. If the numbers stay, compare with the upstream.')
) AS noted (kind, message, next_step)
WHERE {is_in_doubt} AND CASE noted.kind
      WHEN 'restated' THEN restated.changes IS NOT NULL
      WHEN 'moved' THEN notes ? 'moved'
      WHEN 'keyless' THEN notes ? 'null_keys'
      WHEN 'duplicated' THEN coalesce(CAST(notes ->> 'duplicate_keys' AS bigint), 0) > 0
      WHEN 'replaced' THEN notes ? 'replaced_text'
      WHEN 'unreadable' THEN notes ? 'unreadable_values'
      WHEN 'overprecise' THEN notes ? 'excess_digits'
      WHEN 'undeclared' THEN jsonb_array_length(notes -> 'unknown_fields') > 0
      WHEN 'unusable' THEN notes -> 'unusable_accounts' <> '{}'
      WHEN 'rezoned' THEN notes -> 'moved_accounts' <> '{}'
      WHEN 'unusual' THEN notes -> 'unusual_days' <> '{}' END
UNION ALL
SELECT dataset, account, month, 'altered', 'error', NULL, read_at, load_id, NULL, abs(recounted_rows - rows), NULL,
       NULL,
       format('%s rows are stored, but the loads stored %s: another program changed the table.', recounted_rows, rows),
       'Load the partition again; that stores what is listed.'
FROM platform.slices
WHERE {is_in_doubt} AND recounted_rows IS NOT NULL
UNION ALL
(SELECT DISTINCT ON (account, month)
        'transactions', account, month, 'repeated', 'warning', NULL, noticed_at, CAST(NULL AS bigint), NULL, rows,
        CAST(most.amount AS numeric), most.currency,
        format('%s of %s rows with an order (%s %%) are also in the ledger of account %s%s: sums over these accounts '
               'count %s twice.', rows, compared, round(100.0 * rows / compared, 1), other,
               CASE WHEN count(*) OVER (PARTITION BY account, month) > 1
                    THEN format(' and of %s more', count(*) OVER (PARTITION BY account, month) - 1) END,
               (SELECT string_agg(trim(format('%s %s', key, value)), ', ' ORDER BY key) FROM jsonb_each_text(amounts))),
        'Sum up only one of the accounts, and ask the upstream why it answers the same transactions for both.'
 FROM platform.repeated_ledgers
 LEFT JOIN LATERAL (SELECT key AS currency, value AS amount FROM jsonb_each_text(amounts)
                    ORDER BY abs(CAST(value AS numeric)) DESC LIMIT 1) AS most ON true
 ORDER BY account, month, rows DESC)
UNION ALL
(SELECT DISTINCT ON (dataset, account, month)
        dataset, account, platform.month_of_slice(dataset, window_start) AS month, 'differed', 'warning', NULL,
        started_at, load_id, NULL, CAST(NULL AS bigint), CAST(NULL AS numeric), NULL,
        format('%s of %s, %s..%s: these days had settled, but a comparison at random found other rows than the '
               'upstream lists. The rows of the upstream are stored now.', dataset, account, window_start,
               window_end - 1),
        format('See what changed with `seller-platform diff %s %s %s`. If the upstream did not restate it, another '
               'program changes the table.', dataset, account, to_char(window_start, 'YYYY-MM'))
 FROM platform.comparisons
 WHERE differed AND load_id IS NOT NULL AND stratum = 'settled' AND started_at > now() - interval '7 days'
 ORDER BY dataset, account, month, id DESC)
UNION ALL
SELECT 'accounts', name, NULL,
       CASE WHEN grants.connection IS NULL OR refused IS NOT NULL THEN 'refused' ELSE 'expiring' END,
       CASE WHEN grants.connection IS NULL OR refused IS NOT NULL THEN 'error' ELSE 'warning' END,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       CASE WHEN grants.connection IS NULL THEN format('there is no grant for connection ''%s''.', name)
            WHEN refused IS NOT NULL THEN format('connection ''%s'' must be authorised again: %s.', name, refused)
            ELSE format('the grant of connection ''%s'' was last refreshed on %s and is not honoured after %s.', name,
                        CAST(issued_at AS date), CAST(issued_at + {lifetime} AS date)) END,
       format('Run `seller-platform connect%s`.', ' --connection ' || nullif(name, 'default'))
FROM platform.connections LEFT JOIN platform.grants ON grants.connection = name
WHERE grants.connection IS NULL OR refused IS NOT NULL OR issued_at + {warned} < now()
"""
_ROWS_NAMED = """
CREATE OR REPLACE FUNCTION platform.rows_named(noted jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT string_agg(format('row %s of page %s (%s)', entry ->> 'row', entry ->> 'page',
                             (SELECT string_agg(name, ', ')
                              FROM jsonb_array_elements_text(entry -> 'columns') AS field (name))), '; ')
           || CASE WHEN CAST(noted ->> 'rows' AS integer) > jsonb_array_length(noted -> 'first')
                   THEN format(' and %s more',
                               CAST(noted ->> 'rows' AS integer) - jsonb_array_length(noted -> 'first')) ELSE '' END
    FROM jsonb_array_elements(noted -> 'first') AS entry
$$;
COMMENT ON FUNCTION platform.rows_named IS 'The rows that a load noted, as text.'
"""

_PROBLEMS = sql.SQL("""
CREATE OR REPLACE VIEW platform.problems AS
SELECT problem.*, known.until AS acknowledged_until, known.by AS acknowledged_by
FROM (
    SELECT dataset, account, month, kind, severity, error, since, load_id, run_id, rows, amount, currency, message,
           next_step, coalesce(exit_code, {failed}) AS exit_code
    FROM platform.troubled_slices
    UNION ALL
    SELECT *, CASE kind WHEN 'refused' THEN {unauthorised} ELSE {failed} END FROM platform.noted_slices
    UNION ALL
    SELECT dataset, account, month, kind, {of_unread}, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           CASE kind WHEN 'missing' THEN 'It was never loaded.' WHEN 'incomplete' THEN 'Days of it were never loaded.'
                ELSE 'It was not read for more than {hours} hours.' END,
           'Check that the schedules and the daemon run; then launch the job '
           || CASE kind WHEN 'missing' THEN 'backfill_history' ELSE 'refresh_now' END
           || ', or run `seller-platform sync`.', {failed}
    FROM platform.unread_slices(now(), coalesce((SELECT first_day FROM platform.history_start),
                                                (SELECT min(month) FROM platform.slices), current_date)) AS unread
    UNION ALL
    SELECT dataset, account, NULL, 'late', {of_unread}, NULL, max(current_at), NULL, NULL, NULL, NULL, NULL,
           'It was not read up to the present day for more than {hours} hours.',
           'Check that the schedules and the daemon run; then launch the job refresh_now, or run '
           || '`seller-platform sync`.', {failed}
    FROM platform.slices JOIN platform.offered_slices USING (dataset, account)
    WHERE is_dated AND retired_at IS NULL AND month > now() - interval '62 days'
    GROUP BY dataset, account
    HAVING count(load_id) > 0 AND coalesce(max(current_at), '-infinity') < now() - interval '{hours} hours'
       AND NOT bool_or(month > now() - interval '32 days' AND NOT ({is_untroubled}))
    UNION ALL
    SELECT CASE folder WHEN '' THEN 'marts.' ELSE 'exports.' END || name, account, month, 'failed', 'error', error,
           failed_since, NULL, nullif(run_id, ''), NULL, NULL, NULL, message, NULL, {failed}
    FROM platform.derived_partitions WHERE error <> 'InputProblemError'
    UNION ALL
    SELECT 'marts.' || name, account, month, 'contradicted',
           CASE WHEN CAST(value ->> 'is_warning' AS boolean) THEN 'warning' ELSE 'error' END, NULL, tried_at, NULL,
           nullif(run_id, ''), NULL, NULL, NULL, concat_ws(' ', value ->> 'rule', value ->> 'sentence'),
           value ->> 'next_step', {failed}
    FROM platform.derived_partitions, jsonb_each(failed_checks) WHERE failed_checks IS NOT NULL
    UNION ALL
    SELECT 'accounts', key, NULL, 'retired', 'note', NULL, retired_at, NULL, NULL, NULL, NULL, NULL,
           format('The upstream does not list the account %s (%s) any more. Its rows stay.', title, key),
           'If it should be listed, ask the upstream.', {failed}
    FROM platform.accounts WHERE retired_at > now() - interval '7 days'
) AS problem
LEFT JOIN platform.acknowledgements AS known
       ON known.kind = problem.kind AND known.dataset = problem.dataset AND known.account = problem.account
      AND known.month IS NOT DISTINCT FROM problem.month AND known.message = problem.message
      AND coalesce(known.until, 'infinity') >= current_date
      AND coalesce(problem.rows, 0) <= coalesce(known.rows, 0)
      AND abs(coalesce(problem.amount, 0)) <= abs(coalesce(known.amount, 0))
WHERE problem.kind = 'retired'
   OR problem.account NOT IN (SELECT key FROM platform.accounts WHERE retired_at IS NOT NULL)
""")
# New accounts have a day for their first loads.
_OF_UNREAD = sql.SQL("""
    CASE WHEN account IN (SELECT key FROM platform.accounts WHERE first_seen_at > now() - interval '{hours} hours')
         THEN 'note' ELSE 'error' END
""")

_COLUMNS = {
    "dataset": "The table in schema seller; of a mart marts.NAME, of files exports.NAME.",
    "account": "Key of the account; of the dataset accounts the connection.",
    "month": "The first day of the month; null where the list has no days.",
    "kind": "failed, postponed, held, mismatched, altered, missing, incomplete, late; of accounts refused, expiring, "
    "retired; "
    "what a load noted: restated, moved, keyless, duplicated, replaced, unreadable, overprecise, undeclared, unusable, "
    "rezoned, unusual, repeated; of a comparison in the last seven days differed; of a mart contradicted.",
    "severity": "error: rows are missing or wrong, or will be; warning: they are useful; note: nothing is to be done.",
    "error": "The class of the error of a failed slice.",
    "since": "Since when, where that is known.",
    "load_id": "The load that shows it, where there is one: platform.loads.id.",
    "run_id": "The Dagster run that shows it, where there is one.",
    "rows": "How many rows are concerned, where that is known.",
    "amount": "The money at stake, where that is known.",
    "currency": "Its currency.",
    "message": "What happened; of a failed slice with the next step.",
    "next_step": "What to do; null where the message says it.",
}
_EXIT_CODE = {"exit_code": "With which exit code a command ends for it."}
_COLUMNS_OF_TROUBLED = _COLUMNS | {"was_loaded": "Whether the slice was ever loaded."} | _EXIT_CODE
_COLUMNS_OF_PROBLEMS = (
    _COLUMNS
    | _EXIT_CODE
    | {
        "acknowledged_until": "Until which day a person knows it; null where no person does.",
        "acknowledged_by": "The login that acknowledged it.",
    }
)
_COLUMNS_OF_OFFERED = {
    "dataset": "The table in schema seller.",
    "is_dated": "Whether its slices are months.",
    "account": "Key of the account.",
    "retired_at": "When the account was first missing; null while it is listed.",
}


def create_problems(connection: Connection) -> None:
    """Create the view and what it is made of anew, in place where columns stay: views of others may read it."""
    driver = driver_of(connection)
    try:
        with driver.transaction():
            _create(driver)
    except (psycopg.errors.InvalidTableDefinition, psycopg.errors.InvalidFunctionDefinition):
        driver.execute("DROP VIEW platform.problems, platform.noted_slices, platform.troubled_slices")
        driver.execute("DROP FUNCTION platform.unread_slices")
        driver.execute("DROP VIEW platform.offered_slices")
        _create(driver)


def _create(driver: psycopg.Connection[Any]) -> None:
    datasets = [
        sql.SQL("({}, {}, {})").format(dataset.name, dataset.is_dated, dataset.is_computed) for dataset in REFRESHED
    ]
    computed = [dataset.name for dataset in REFRESHED if dataset.is_computed]
    hours = sql.SQL(str(READ_WITHIN_HOURS))
    driver.execute(_OFFERED.format(datasets=sql.SQL(", ").join(datasets), computed=sql.Literal(computed)))
    driver.execute(_UNREAD.format(hours=hours, is_untroubled=_IS_UNTROUBLED.format()))
    driver.execute(_TROUBLED)
    driver.execute(_ROWS_NAMED)
    lifetime, warned = (f"interval '{each.total_seconds()}'" for each in (_LIFETIME, _LIFETIME - WARN_BEFORE_DEATH))
    noted = _NOTED.replace("{is_in_doubt}", _IS_IN_DOUBT).replace("{lifetime}", lifetime).replace("{warned}", warned)
    driver.execute(noted)
    of_unread = _OF_UNREAD.format(hours=hours)
    unauthorised, failed = map(sql.Literal, (ReauthorizationRequiredError.exit_code, CheckFailedError.exit_code))
    codes = {"unauthorised": unauthorised, "failed": failed}
    driver.execute(_PROBLEMS.format(hours=hours, is_untroubled=_IS_UNTROUBLED.format(), of_unread=of_unread, **codes))
    driver.execute("COMMENT ON FUNCTION platform.unread_slices IS 'Slices that should have been read until a moment.'")
    comment_on_view(
        driver, "platform.offered_slices", "What each upstream offers of each account.", _COLUMNS_OF_OFFERED
    )
    comment_on_view(
        driver, "platform.troubled_slices", "Slices that are failed, held or mismatched.", _COLUMNS_OF_TROUBLED
    )
    comment_on_view(
        driver, "platform.noted_slices", "What loads noted, what was found out since, and grants that end.", _COLUMNS
    )
    comment_on_view(driver, "platform.problems", "What is wrong now, one row for each thing.", _COLUMNS_OF_PROBLEMS)
