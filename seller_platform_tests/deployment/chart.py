"""Renders the Helm values with Dagster's chart, and validates both: python -m seller_platform_tests.deployment.chart

It needs the packages of `chart-requirements.txt`, and downloads the chart of the pinned version of Dagster, unless a
folder with a chart is given. The values must meet the chart's schema, each object the schema of its kind in Kubernetes,
and the instance's configuration that of Dagster.
"""

import argparse
import re
import shutil
import sys
import tempfile
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from dagster._core.errors import DagsterInvalidConfigError
from dagster._core.instance.ref import InstanceRef

from seller_platform_tests.tools.lock import TOP

_REPOSITORY = "https://dagster-io.github.io/helm"
_KUBERNETES = "1.37.0"
_USER = 10001
_LOWEST_PORT = 1024
"""A user who is not root may listen on this port and above."""


def objects_of(chart: Path) -> list[dict[str, Any]]:
    """Return the objects of Kubernetes that Helm makes of the chart with our values."""
    import helm_python  # type: ignore[import-not-found]  # only this program needs it

    values = yaml.safe_load((TOP / "docker" / "helm" / "values.yaml").read_text())
    with tempfile.TemporaryDirectory() as folder:
        # The schema of the chart refers to definitions on the network; the package has them, by other names.
        definitions = files("kubernetes_validate") / f"kubernetes-json-schema/v{_KUBERNETES}-local/_definitions.json"
        local = shutil.copytree(chart, Path(folder) / "chart")
        for schema in local.rglob("values.schema.json"):
            by_reference = re.compile(r'"https://[^"#]*/_definitions.json#/definitions/')
            schema.write_text(by_reference.sub(f'"file://{definitions}#/$defs/', schema.read_text()))
        with helm_python.Chart.load(str(local)) as loaded:
            manifests = loaded.render(values, name="platform", namespace="platform")
    texts = (text for name, text in sorted(manifests.items()) if not name.endswith(".txt"))
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def faults_of(rendered: dict[str, Any]) -> list[str]:
    """Return what is wrong with an object, as sentences."""
    import kubernetes_validate  # type: ignore[import-not-found]

    faults = []
    try:
        kubernetes_validate.validate(rendered, _KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        faults.append(error.message)
    pod = rendered["spec"]["template"]["spec"] if rendered["kind"] == "Deployment" else {"containers": []}
    if pod["containers"] and (pod["securityContext"] or {}).get("runAsUser") != _USER:
        faults.append("does not run as the user of the image")
    for container in pod["containers"]:
        ports = [port["containerPort"] for port in container.get("ports", ())]
        faults += [f"listens on the port {port} of root" for port in ports if port < _LOWEST_PORT]
    if rendered["kind"] == "PersistentVolumeClaim" and rendered["spec"]["accessModes"] != ["ReadWriteMany"]:
        faults.append("is not for pods on several nodes")
    if settings := (rendered.get("data") or {}).get("dagster.yaml"):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "dagster.yaml").write_text(settings)
            try:
                InstanceRef.from_dir(folder)
            except DagsterInvalidConfigError as error:
                faults.append(str(error))
    return faults


def _pulled(folder: str) -> Path:
    """Return the folder of the chart of the installed version of Dagster, downloaded into another folder."""
    import helm_python

    helm_python.pull("dagster", repo_url=_REPOSITORY, version=version("dagster"), untar=True, untar_dir=folder)
    return Path(folder) / "dagster"


def main() -> int:
    """Print each object with what is wrong, and return 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("chart", type=Path, nargs="?", help="the folder of a chart")
    given = parser.parse_args().chart
    with tempfile.TemporaryDirectory() as folder:
        objects = objects_of(given or _pulled(folder))
    faults = [(each, faults_of(each)) for each in objects]
    for each, found in faults:
        print(f"{each['kind']} {each['metadata']['name']}: {'; '.join(found) or 'valid'}")
    is_whole = {"Deployment", "PersistentVolumeClaim", "ConfigMap"} <= {each["kind"] for each in objects}
    return int(not is_whole or any(found for _, found in faults))


if __name__ == "__main__":
    sys.exit(main())
