"""The PostgreSQL server, the database, its locks and backups.

- `database`: connections and transactions
- `versions`: the version of the tables
- `sessions`: the parameters of every connection, and the check of its server
- `urls`: URLs of databases, checked before they are used
- `refusals`: refusals of PostgreSQL as errors with a next step
- `embedded`: the embedded server, and its deletion
- `programs`: PostgreSQL's own programs, and the files of a server
- `root_user`: the user and the folders of root's server
- `location`: the URL of the warehouse
- `backup`: backup and restore of a database
- `health`: the state of the database for `doctor`
- `advisory_locks`: locks by name or number, held by a transaction or a connection
"""
