"""What is wrong: settled slices that differed when they were compared."""

from seller_platform.warehouse.schema.problems import ProblemKind, ProblemSource

DIFFERED = ProblemSource(
    (
        ProblemKind(
            "differed", "warning", "A settled slice was not as the upstream lists it, when it was compared.", "7 days."
        ),
    ),
    """
    SELECT DISTINCT ON (dataset, account, month)
           dataset, account, platform.month_of_slice(dataset, window_start) AS month, 'differed' AS kind,
           'warning' AS severity, started_at AS since, load_id,
           format('%s of %s, %s..%s: these days had settled, but a comparison at random found other rows than the '
                  'upstream lists. The rows of the upstream are stored now.', dataset, account, window_start,
                  window_end - 1) AS message,
           format('See what changed with `seller-platform diff %s %s %s`. If the upstream did not restate it, another '
                  'program changes the table.', dataset, account, to_char(window_start, 'YYYY-MM')) AS next_step
    FROM platform.comparisons
    WHERE differed AND load_id IS NOT NULL AND stratum = 'settled' AND started_at > now() - interval '7 days'
    ORDER BY dataset, account, month, id DESC
    """,
)
