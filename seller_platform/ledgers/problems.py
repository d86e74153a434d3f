"""What is wrong with ledgers: entries that another account of the seller has, too."""

from seller_platform.warehouse.schema.problems import ProblemKind, ProblemSource

REPEATED = ProblemSource(
    (
        ProblemKind(
            "repeated", "warning", "Another account of the seller has the same entries.", "A comparison without them."
        ),
    ),
    """
    SELECT DISTINCT ON (account, month)
           'transactions' AS dataset, account, month, 'repeated' AS kind, 'warning' AS severity, noticed_at AS since,
           rows, CAST(most.amount AS numeric) AS amount, most.currency,
           format('%s of %s rows with an order (%s %%) are also in the ledger of account %s%s: sums over these '
                  'accounts count %s twice.', rows, compared, round(100.0 * rows / compared, 1), other,
                  CASE WHEN count(*) OVER (PARTITION BY account, month) > 1
                       THEN format(' and of %s more', count(*) OVER (PARTITION BY account, month) - 1) END,
                  (SELECT string_agg(trim(format('%s %s', key, value)), ', ' ORDER BY key)
                   FROM jsonb_each_text(amounts))) AS message,
           'Sum up only one of the accounts, and ask the upstream why it answers the same transactions for both.'
           AS next_step
    FROM platform.repeated_ledgers
    LEFT JOIN LATERAL (SELECT key AS currency, value AS amount FROM jsonb_each_text(amounts)
                       ORDER BY abs(CAST(value AS numeric)) DESC LIMIT 1) AS most ON true
    ORDER BY account, month, repeated_ledgers.rows DESC
    """,
)
