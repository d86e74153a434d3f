"""What may be wrong with grants and accounts."""

from datetime import timedelta

from seller_platform.contract.tokens import WARN_BEFORE_DEATH
from seller_platform.contract.wire import REFRESH_TOKEN_SECONDS
from seller_platform.errors import ReauthorizationRequiredError
from seller_platform.warehouse.schema.problems import ProblemKind, ProblemSource
from seller_platform.warehouse.schema.unread_slices import UNUSABLE_ACCOUNTS

_LIFETIME = timedelta(seconds=REFRESH_TOKEN_SECONDS)
_ENDS, _WARNS = (f"interval '{each.total_seconds()}'" for each in (_LIFETIME, _LIFETIME - WARN_BEFORE_DEATH))
_CONNECT = "`seller-platform connect`."

# The grant of a connection belongs to its list of accounts.
GRANTS = ProblemSource(
    (
        ProblemKind("refused", "error", "A connection has no grant, or its upstream refuses it.", _CONNECT),
        ProblemKind("expiring", "warning", "A grant was not refreshed for long, and is about to end.", _CONNECT),
    ),
    f"""
    SELECT 'accounts' AS dataset, name AS account, CASE WHEN is_refused THEN 'refused' ELSE 'expiring' END AS kind,
           CASE WHEN is_refused THEN 'error' ELSE 'warning' END AS severity,
           CASE WHEN is_refused THEN coalesce(refused_at, created_at) ELSE issued_at + {_WARNS} END AS since,
           CASE WHEN grants.connection IS NULL THEN format('there is no grant for connection ''%s''.', name)
                WHEN is_refused THEN format('connection ''%s'' must be authorised again: %s.', name, refused)
                ELSE format('the grant of connection ''%s'' was last refreshed on %s and is not honoured after %s.',
                            name, CAST(issued_at AS date), CAST(issued_at + {_ENDS} AS date)) END AS message,
           format('Run `seller-platform connect%s`.', ' --connection ' || nullif(name, 'default')) AS next_step,
           CASE WHEN is_refused THEN {ReauthorizationRequiredError.exit_code} END AS exit_code
    FROM platform.connections LEFT JOIN platform.grants ON grants.connection = name,
         LATERAL (SELECT grants.connection IS NULL OR refused IS NOT NULL AS is_refused) AS of_grant
    WHERE is_refused OR issued_at + {_WARNS} < now()
    """,  # noqa: S608  # constants
)

ACCOUNTS = ProblemSource(
    (
        ProblemKind(
            "retired", "note", "The upstream does not list an account any more.", "Seven days, or another list."
        ),
        ProblemKind(
            "rezoned",
            "warning",
            "Rows of an account were read under a former time zone or currency.",
            "Refreshes, which read them again.",
        ),
    ),
    f"""
    SELECT 'accounts' AS dataset, key AS account, 'retired' AS kind, 'note' AS severity, retired_at AS since,
           format('The upstream does not list the account %s (%s) any more. Its rows stay.', title, key) AS message,
           'If it should be listed, ask the upstream.' AS next_step
    FROM platform.accounts WHERE retired_at > now() - interval '7 days'
    UNION ALL
    SELECT 'accounts', key, 'rezoned', 'warning', max(read_at),
           format('The account %s has %s now, but %s of its slices were read under %s. Rows at the borders of days and '
                  'months are missing or twice.', key, concat_ws(' and ', timezone, currency_code), count(*),
                  max(concat_ws(' and ', time_zone, currency))),
           format('Wait: refreshes read them again. `seller-platform sync --account %s --from %s` does so at once.',
                  key, to_char(min(month), 'YYYY-MM'))
    FROM platform.slices JOIN platform.accounts ON key = account
    WHERE month IS NOT NULL AND load_id IS NOT NULL AND (time_zone <> nullif(timezone, '') OR currency <> currency_code)
      AND key NOT IN ({UNUSABLE_ACCOUNTS})
    GROUP BY key
    """,  # noqa: S608  # constants
)
