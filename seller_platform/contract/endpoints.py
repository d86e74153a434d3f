"""Paths and limits of the endpoints that are not dataset lists."""

AUTHORIZE = "/oauth/authorize"
TOKEN = "/oauth/token"  # noqa: S105  # a path, not a password
REVOKE = "/oauth/revoke"
METADATA = "/.well-known/oauth-authorization-server"
OPENAPI = "/openapi.json"
DOCS = "/docs"
SERVICE_STATUS = "/service-status"
USER_ME = "/user/me"
USER_ACCOUNTS = "/user/accounts"
COST_PERIODS = "/cogs/cost-periods"
REPORT_REQUEST = "/reports/request"
REPORT_STATUS = "/reports/status"
REPORT_DOWNLOAD = "/reports/download"

API_VERSION = "1.0.0"
ACCESS_TOKEN_SECONDS = 1_296_000
REFRESH_TOKEN_SECONDS = 30 * 86_400
AUTHORIZATION_CODE_SECONDS = 600
