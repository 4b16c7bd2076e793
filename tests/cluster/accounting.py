"""slurmdbd and its MariaDB on the controller, for clusters with accounts: text only. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from .design import CONTROLLER

DAEMONS = ("mariadbd", "slurmdbd")
SLURM_CONF = f"""\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={CONTROLLER}
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu
"""
SLURMDBD_CONF = f"""\
DbdHost={CONTROLLER}
SlurmUser=slurm
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm
"""
# The data go with the node: they lie in memory, and nothing waits for a disk. The socket is open
# to everybody on the controller, as is the database behind it (no passwords): test data.
OPTIONS = (
    "--no-defaults --datadir=/var/spool/mariadb --innodb-log-file-size=4M "
    "--innodb-buffer-pool-size=32M --innodb-flush-log-at-trx-commit=0 --skip-grant-tables"
)
# slurmdbd makes its database after a connection that failed for want of it. libmariadb 11.8.9 loses
# the handle's options there, and with a limit of 0 columns refuses each result (error 5027): so the
# database is there before.
AS_SLURM = "setpriv --reuid=slurm --regid=slurm --init-groups"
# NOTE: share/mysql/mysql_system_tables.sql before MariaDB 11.
TABLES = "/usr/share/m[ay]*/m*_system_tables.sql"


def start_script(cluster: str, commands: Sequence[str]) -> str:
    """Shell text that starts the database and slurmdbd, then runs *commands* of sacctmgr."""
    lines = "\n".join((f"add cluster {cluster}", *commands))
    return f"""\
install -d -o slurm -g slurm /var/spool/mariadb /run/mysqld
cat - {TABLES} <<'END' |
create database slurm;
create database mysql;
use mysql;
END
    {AS_SLURM} mariadbd {OPTIONS} --bootstrap >/var/log/slurm/mariadb.log 2>&1
{AS_SLURM} mariadbd {OPTIONS} --skip-networking --socket=/run/mysqld/mysqld.sock \\
    >>/var/log/slurm/mariadb.log 2>&1 &
until [ -S /run/mysqld/mysqld.sock ]; do sleep 0.05; done
slurmdbd
until sacctmgr --noheader show cluster >/dev/null 2>&1; do sleep 0.05; done
sacctmgr --immediate --quiet >/var/log/slurm/accounts.log 2>&1 <<'END'
{lines}
END
"""
