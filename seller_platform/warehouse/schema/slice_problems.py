"""What may be wrong with slices that were read or tried, as `platform.slices` and receipts say."""

from seller_platform.warehouse.schema.problems import ProblemKind, ProblemSource
from seller_platform.warehouse.schema.tables import IN_DOUBT

_READ_AGAIN = "Another load of the days."
_WAIT = "Wait: the next refresh reads the days again."
_REPORT = "Report it to the upstream."

# A total that three days confirm is the upstream's; the rows count as complete then.
TRIED_SLICES = ProblemSource(
    (
        ProblemKind(
            "failed", "error", "A slice could not be loaded, or a mart or export not be made.", "A try that succeeds."
        ),
        ProblemKind("postponed", "note, warning", "A slice waits for the requests of another day.", "Its load."),
        ProblemKind(
            "held",
            "error",
            "A reading contradicts the stored rows, and is not published.",
            "A plausible reading, `accept`, or three readings that say the same.",
        ),
        ProblemKind(
            "mismatched",
            "error, warning",
            "Not as many rows were read as the list announced; a warning once three days confirm it.",
            "Later loads that together have its days. Refreshes read them again each day until three confirm it.",
        ),
        ProblemKind(
            "altered",
            "error",
            "Another program added or deleted rows, also of a month that was never loaded.",
            "A load of the slice.",
        ),
    ),
    f"""
    SELECT dataset, account, month, CASE error WHEN 'RequestsUsedUpError' THEN 'postponed' ELSE 'failed' END AS kind,
           CASE WHEN error <> 'RequestsUsedUpError' THEN 'error' WHEN failed_run_id IS NULL THEN 'note' ELSE 'warning'
           END AS severity, error, failed_since AS since, CAST(NULL AS bigint) AS load_id, failed_run_id AS run_id,
           CAST(NULL AS bigint) AS rows, CAST(NULL AS numeric) AS amount, CAST(NULL AS text) AS currency, message,
           CAST(NULL AS text) AS next_step, exit_code, error <> 'RequestsUsedUpError' OR load_id IS NULL AS blocks
    FROM platform.slices
    WHERE ({IN_DOUBT}) AND error <> 'ReadingHeldError'
      AND (error <> 'NotOfferedError' OR (dataset, account) IN (SELECT dataset, account FROM platform.offered_slices))
    UNION ALL
    SELECT slice.dataset, slice.account, month, 'held', 'error', NULL, CAST(since ->> 'held' AS timestamptz), held.id,
           held.run_id, held.rows,
           (SELECT sum(CAST(claim ->> 1 AS numeric)) FROM jsonb_each(notes #> '{{held,claim}}') AS of_day (day, claim)),
           held.currency,
           format('%s of %s, %s..%s: %s. The stored rows stay, the reading is held.', slice.dataset, slice.account,
                  window_start, window_end - 1, notes #>> '{{held,reason}}'),
           format('Compare with the upstream, then publish it with `seller-platform accept %s` or the job accept_held '
                  'of the Dagster UI, or wait: each refresh reads the slice again, and after three that say the same, '
                  '20 hours apart, it is published.', held.id), NULL, true
    FROM platform.slices AS slice JOIN platform.loads AS held ON held.id = held_load_ids[cardinality(held_load_ids)]
    WHERE ({IN_DOUBT}) AND held_load_ids <> '{{}}'
    UNION ALL
    SELECT slice.dataset, slice.account, month, 'mismatched', CASE WHEN is_confirmed THEN 'warning' ELSE 'error' END,
           NULL, CAST(since ->> 'mismatched' AS timestamptz), load.id, load.run_id, abs(announced - load.rows), NULL,
           NULL, format('%s of %s, %s..%s: %s.', slice.dataset, slice.account, window_start, window_end - 1,
                        coalesce(notes ->> 'contradiction',
                                 format('the list announced %s rows, and %s were read', announced, load.rows))),
           CASE WHEN is_confirmed THEN 'Three readings on different days said the same: report it to the upstream.'
                ELSE 'Load the partition again, or wait: a refresh does each day; if the numbers stay, report them to '
                     'the upstream.' END, NULL, NOT is_confirmed
    FROM platform.slices AS slice
    JOIN platform.loads AS load ON load.id = mismatched_load_ids[cardinality(mismatched_load_ids)],
         platform.is_confirmed(load.id)
    WHERE ({IN_DOUBT}) AND mismatched_load_ids <> '{{}}'
    UNION ALL
    SELECT dataset, account, month, 'altered', 'error', NULL, CAST(since ->> 'altered' AS timestamptz), load_id, NULL,
           abs(recounted_rows - rows), NULL, NULL,
           format('%s rows are stored, but %s: another program changed the table.', recounted_rows,
                  CASE WHEN load_id IS NULL THEN 'the month was never loaded' ELSE format('the loads stored %s', rows)
                  END), 'Load the partition again; that stores what is listed.', NULL, true
    FROM platform.slices
    WHERE ({IN_DOUBT}) AND recounted_rows IS NOT NULL
    """,  # noqa: S608  # constants
)

NOTED_SLICES = ProblemSource(
    (
        ProblemKind("restated", "warning", "A settled window changed by more than 1 %.", _READ_AGAIN),
        ProblemKind("moved", "warning", "The total of a list changed while its parts were read.", _READ_AGAIN),
        ProblemKind("keyless", "warning", "Rows have no value in their key.", _READ_AGAIN),
        ProblemKind("duplicated", "warning", "Rows have the key of another row.", _READ_AGAIN),
        ProblemKind("replaced", "warning", "Text has characters that PostgreSQL does not store.", _READ_AGAIN),
        ProblemKind(
            "unreadable", "warning", "Values cannot be read as their column's kind, and are null.", _READ_AGAIN
        ),
        ProblemKind("overprecise", "warning", "Amounts have more decimals than their currency.", _READ_AGAIN),
        ProblemKind("undeclared", "warning", "Rows have fields that are not declared.", _READ_AGAIN),
        ProblemKind("unusable", "error", "An account cannot be read.", "A list of accounts in which it can."),
        ProblemKind("unusual", "warning", "Days have far more or fewer rows than such days before.", _READ_AGAIN),
    ),
    f"""
    SELECT slice.dataset, slice.account, month, kind,
           CASE kind WHEN 'unusable' THEN 'error' ELSE 'warning' END AS severity,
           CAST(since ->> kind AS timestamptz) AS since, load.id AS load_id, load.run_id,
           CAST(of_rows.number AS bigint) AS rows, restated.amount,
           CASE WHEN restated.amount IS NOT NULL THEN load.currency END AS currency,
           CASE kind
           WHEN 'restated' THEN format('%s of %s, %s..%s: settled days changed by more than 1 %%: %s.', slice.dataset,
                                       slice.account, window_start, window_end - 1, restated.changes)
           WHEN 'moved' THEN format('The total changed from %s to %s while the parts of the list were read; they add '
                                    'up to a total in between.', notes #>> '{{moved,before}}',
                                    notes #>> '{{moved,after}}')
           WHEN 'undeclared' THEN format('The upstream sent fields that are not declared: %s. Their values are kept in '
                                         'the column `extra`.', (
               SELECT string_agg(name, ', ') FROM jsonb_array_elements_text(notes -> 'unknown_fields') AS field (name)))
           WHEN 'unusable' THEN format('Accounts cannot be read: %s. All others are read.', (
               SELECT string_agg(format('%s: %s', key, value), '; ')
               FROM jsonb_each_text(notes -> 'unusable_accounts')))
           WHEN 'unusual' THEN format('Days have far fewer or more rows than the same weekdays of the eight weeks '
                                      'before: %s.', (
               SELECT string_agg(format('%s: %s rows, about %s expected', key, value ->> 'rows', value ->> 'expected'),
                                 '; ') FROM jsonb_each(notes -> 'unusual_days')))
           ELSE format('%s of %s rows ' || sentence, number, load.rows, platform.rows_named(noted)) END AS message,
           CASE kind
           WHEN 'restated' THEN
               'The stored rows are those of the upstream now: make reports again that were made from the former ones.'
           WHEN 'moved' THEN '{_WAIT}'
           WHEN 'duplicated' THEN 'Ask the upstream which of them is right.'
           WHEN 'overprecise' THEN '{_REPORT} Readings are compared in the minor unit of the currency.'
           WHEN 'undeclared' THEN 'Read them from `extra`, until a version of the platform has columns for them.'
           WHEN 'unusable' THEN 'Correct them at the upstream.'
           WHEN 'unusual' THEN '{_WAIT} If the numbers stay, compare with the upstream.'
           ELSE '{_REPORT}' END AS next_step
    FROM platform.slices AS slice
    JOIN platform.loads AS load ON load.id = ANY (noted_load_ids)
    CROSS JOIN LATERAL unnest(platform.noted_kinds(notes, restatement)) AS kind
    LEFT JOIN LATERAL (
        SELECT sentence, noted, coalesce(noted ->> 'rows', notes ->> name) AS number
        FROM (VALUES
            ('keyless', 'null_keys', 'have no value in their key: %s. They are stored as they were sent.'),
            ('duplicated', 'duplicate_keys', 'have the key of another row. They are stored as they were sent.'),
            ('replaced', 'replaced_text', 'have text that PostgreSQL does not store (NUL, half of a surrogate pair, '
             'or bytes that are no UTF-8): %s. U+FFFD is stored in its place.'),
            ('unreadable', 'unreadable_values', 'have values that cannot be read: %s. They are null, all else is '
             'stored.'),
            ('overprecise', 'excess_digits', 'have amounts with more decimals than their currency: %s. They are '
             'stored as they were sent.')
        ) AS named (of_kind, name, sentence), LATERAL (SELECT notes -> name AS noted) AS note
        WHERE of_kind = kind
    ) AS of_rows ON true
    LEFT JOIN LATERAL (
        SELECT string_agg(format('%s from %s to %s', key, value ->> 'before', value ->> 'after'), '; ') AS changes,
               (array_agg(CAST(value ->> 'after' AS numeric) - CAST(value ->> 'before' AS numeric))
                FILTER (WHERE key LIKE '% ' || load.currency))[1] AS amount
        FROM jsonb_each(CASE jsonb_typeof(restatement) WHEN 'object' THEN restatement ELSE '{{}}' END)
        WHERE platform.is_restated(value)
    ) AS restated ON kind = 'restated'
    WHERE ({IN_DOUBT}) AND noted_load_ids <> '{{}}'
    """,  # noqa: S608  # constants
)
