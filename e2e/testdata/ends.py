"""Loses a connection the way applications do, and prints what they see.

    ends.py pymysql|connector|sqlalchemy|django SCENARIO host port user password schema

After each line "ready" it waits for a line, while the test makes the server fail. SCENARIO is idle, statement, result or
login: the connection is lost between statements, within one, within its result, or cannot be made.
"""
import sys

driver, scenario, host, port, user, password, schema = sys.argv[1:]
BIG = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) select a.i, repeat('x', 1000) from n a, n b"


def ready(connection=0):
    print("ready", connection, flush=True)
    sys.stdin.readline()


def report(what, do):
    try:
        print(f"{what}: {do()}", flush=True)
    except Exception as e:
        cause = getattr(e, "orig", None) or e
        text = f"{what}: {type(e).__name__}"
        if cause.args and isinstance(cause.args[0], int):
            text += f" {cause.args[0]}"
        if hasattr(e, "connection_invalidated"):
            text += f" invalidated={e.connection_invalidated}"
        print(text, flush=True)


class PyMySQL:
    """One connection that the application keeps."""

    def __init__(self):
        import pymysql
        self.open = lambda: pymysql.connect(host=host, port=int(port), user=user, password=password, database=schema)
        self.connection = None

    def use(self, sql, fetch):
        import pymysql.cursors
        if self.connection is None:
            self.connection = self.open()
        with self.connection.cursor(pymysql.cursors.SSCursor) as c:
            c.execute(sql)
            return fetch(c)


class Connector:
    """The same by Connector/Python."""

    def __init__(self):
        self.connection = None

    def use(self, sql, fetch):
        import mysql.connector
        if self.connection is None:
            self.connection = mysql.connector.connect(host=host, port=int(port), user=user, password=password, database=schema, ssl_disabled=True)
        c = self.connection.cursor()  # reads the rows as they are fetched
        c.execute(sql)
        return fetch(c)


class SQLAlchemy:
    def __init__(self):
        import sqlalchemy
        self.sql = sqlalchemy
        url = sqlalchemy.URL.create("mysql+pymysql", user, password, host, int(port), schema)
        self.engine = sqlalchemy.create_engine(url, pool_size=1, max_overflow=0, isolation_level="AUTOCOMMIT")

    def use(self, sql, fetch):
        with self.engine.connect().execution_options(stream_results=True) as c:
            return fetch(c.execute(self.sql.text(sql)))


class Django:
    def __init__(self):
        import pymysql
        pymysql.version_info = (2, 2, 1, "final", 0)
        pymysql.install_as_MySQLdb()
        import django
        from django.conf import settings
        settings.configure(DATABASES={"default": {
            "ENGINE": "django.db.backends.mysql", "HOST": host, "PORT": port, "USER": user, "PASSWORD": password, "NAME": schema,
            "CONN_MAX_AGE": None}})
        django.setup()
        from django.db import close_old_connections, connection
        self.connection, self.between = connection, close_old_connections

    def use(self, sql, fetch):
        self.between()  # as at each request
        if "recursive" in sql:
            import MySQLdb.cursors
            self.connection.ensure_connection()
            with self.connection.wrap_database_errors:
                c = self.connection.connection.cursor(MySQLdb.cursors.SSCursor)
                c.execute(sql)
                try:
                    return fetch(c)
                except Exception:
                    self.connection.close()  # PyMySQL's ping would connect again and wait for the rest of the lost result
                    raise
        with self.connection.cursor() as c:
            c.execute(sql)
            return fetch(c)


db = {"pymysql": PyMySQL, "connector": Connector, "sqlalchemy": SQLAlchemy, "django": Django}[driver]()
first = lambda c: c.fetchone()[0]
select = lambda: db.use("select 42", first)


def stream(c):
    c.fetchone()
    ready()
    n = 1
    while c.fetchone() is not None:
        n += 1
    return "the whole result" if n == 1000000 else "a part of the result as if it were whole"


if scenario == "login":
    ready()
    report("login", select)
    ready()
else:
    connection = db.use("select connection_id()", first)
    if scenario == "idle":
        ready(connection)
    elif scenario == "statement":
        print("runs", connection, flush=True)
        report("statement", lambda: db.use("select sleep(100)", first))
        ready()
    elif scenario == "result":
        report("result", lambda: db.use(BIG, stream))
        ready()
for i in range(3):
    report("then", select)
    if i == 0 and driver in ("pymysql", "connector"):
        db.connection = None  # the application connects again
