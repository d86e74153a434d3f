"""Names that Dagster does not export. Two further modules use private names: `storage` and `instance/run_launcher`.

- `AssetCheckEvaluationTargetMaterializationData`: an evaluation must refer to the newest materialization, or the UI
  counts the check as missing. Dagster fills it in for results of a step, not for reported evaluations.
- `SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION`: of an output with this metadata Dagster makes no materializations.
  Results cannot have a data version for each partition (https://github.com/dagster-io/dagster/issues/34013), so steps
  yield events. Without an output, later steps of the run are skipped.
- `DagsterUserCodeProcessError` and `SerializableErrorInfo`: Dagster shows the stack trace of every exception, also of a
  `Failure`. Only an error of another process is stored as it was described there, which may be without a stack.
- `CheckRunHealthResult` and `WorkerStatus`: what the public method `RunLauncher.check_run_worker_health` returns.
"""

from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
from dagster._core.errors import DagsterUserCodeProcessError
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus
from dagster_shared.error import SerializableErrorInfo

__all__ = [
    "SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION",
    "AssetCheckEvaluationTargetMaterializationData",
    "CheckRunHealthResult",
    "DagsterUserCodeProcessError",
    "SerializableErrorInfo",
    "WorkerStatus",
]
