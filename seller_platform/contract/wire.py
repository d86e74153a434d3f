"""The API on the wire: paths, limits, the envelope of a page, and fields of errors."""

from typing import Final

AUTHORIZE = "/oauth/authorize"
TOKEN = "/oauth/token"  # noqa: S105  # a path, not a password
REVOKE = "/oauth/revoke"
METADATA = "/.well-known/oauth-authorization-server"
RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
OPENAPI = "/openapi.json"
MCP = "/mcp"
"""Where agents ask, and the name of the resource that their tokens are for (RFC 8707)."""
DOCS = "/docs"
SERVICE_STATUS = "/service-status"
USER_ME = "/user/me"
USER_ACCOUNTS = "/user/accounts"
COST_PERIODS_PATH = "/cogs/cost-periods"
REPORT_REQUEST = "/reports/request"
REPORT_STATUS = "/reports/status"
REPORT_DOWNLOAD = "/reports/download"

API_VERSION = "1.0.0"
ACCESS_TOKEN_SECONDS = 1_296_000
REFRESH_TOKEN_SECONDS = 30 * 86_400
AUTHORIZATION_CODE_SECONDS = 600

CURRENT_PAGE = "current_page"
ROWS = "data"
TOTAL = "total"
PER_PAGE = "per_page"
LAST_PAGE = "last_page"
ERROR_WORD = "error"
"""The field that carries an error, and the value of `status` of an answer that is one."""
STATUS = "status"
MESSAGE = "message"
PARAMETERS = "errors"
REPLICA: Final = "replica"
IDEMPOTENCY_KEY = "Idempotency-Key"
"""The header by which a repeated request is recognised (draft-ietf-httpapi-idempotency-key-header)."""
AS_OF = "as_of"
"""The parameter of our lists that pins a walk over the pages to one moment; links to the next page carry it."""
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""The starts of texts that a spreadsheet runs as formulas, after blanks; CSV has an apostrophe before such a text."""
COMPUTED_BY = "X-Computed-By"
"""The header of answers whose rows a replica computed; its value is `REPLICA`."""
