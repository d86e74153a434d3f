"""`seller-platform service doctor`: checks a running service from outside."""

import click

from seller_platform.cli.doctor.findings import DoctorDocument, examined, report_findings
from seller_platform.cli.doctor.service_checks import examine_service
from seller_platform.cli.output import Output, json_option
from seller_platform.settings import origin_of


@click.command()
@click.option("--url", required=True, help="The public URL of the service, such as https://api.example.com.")
@json_option(DoctorDocument)
def doctor(*, url: str, output: Output) -> None:
    """Check a running service from outside, and print the next step for each problem.

    It sends a dozen requests without a token, some of them forged: TLS, plain HTTP, issuer, cookie, headers, limits,
    other hosts and forged X-Forwarded headers. Run it on another machine than the service's. Exit code 5 if something
    is missing; warnings do not count.
    """
    try:
        public_url = origin_of(url)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from None
    findings = examined("service", lambda: examine_service(public_url))
    report_findings(findings, output, command=f"seller-platform service doctor --url {public_url}")
