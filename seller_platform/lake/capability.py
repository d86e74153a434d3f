"""What exports contribute."""

from seller_platform.capabilities import Capability

CAPABILITY = Capability(
    name="lake",
    commands={"export": ("seller_platform.lake.commands", "Write what was loaded and built as Delta tables.")},
    definitions="seller_platform.lake.assets:definitions",
    examine="seller_platform.lake.upkeep:examine",
    prune_files="seller_platform.lake.upkeep:prune_files",
    settings="seller_platform.lake.settings:LakeSettings",
)
