"""`seller-platform alerts`: sends what is wrong to the webhook, where no daemon of Dagster does."""

import click

from seller_platform.alerts.sending import send_alerts
from seller_platform.alerts.settings import AlertsSettings
from seller_platform.cli.installation import open_stored_installation
from seller_platform.cli.output import DoneDocument, Output, json_option
from seller_platform.errors import missing_setting


@click.group()
def alerts() -> None:
    """Report what is wrong to SELLER_PLATFORM_ALERT_WEBHOOK_URL."""


@alerts.command()
@json_option(DoneDocument)
def send(*, output: Output) -> None:
    """Report each new cause of problems once, and what is resolved. For cron, where no daemon of Dagster runs."""
    with open_stored_installation() as installation:
        if installation.settings.of(AlertsSettings).alert_webhook_url is None:
            raise missing_setting("SELLER_PLATFORM_ALERT_WEBHOOK_URL", "the webhook that receives the messages")
        outcome = send_alerts(installation.database, installation.settings)
    output.done(outcome)
