"""Deletes from a table without permission, between statements that are permitted, and prints what it sees.

    refusal.py pymysql|connector|connector-pure host port user password schema
"""

import sys

driver, host, port, user, password, schema = sys.argv[1:]
account = dict(host=host, port=int(port), user=user, password=password, database=schema)
if driver == "pymysql":
    import pymysql
    from pymysql.constants import CLIENT

    connection = pymysql.connect(ssl_disabled=True, client_flag=CLIENT.MULTI_STATEMENTS, **account)
else:
    import mysql.connector

    connection = mysql.connector.connect(ssl_disabled=True, use_pure=driver == "connector-pure", charset="utf8mb4",
                                         collation="utf8mb4_general_ci", **account)
cursor = connection.cursor()


def fails(what, do):
    try:
        do()
    except Exception as e:
        print(what + ":", type(e).__name__, "refused", e.args[0], getattr(e, "sqlstate", ""), "|" + str(getattr(e, "msg", e.args[1])) + "|")
    else:
        print(what + ": no error")


def show(query):
    cursor.execute(query)
    print(query + ":", cursor.fetchall())


def several():
    cursor.execute("insert into things (b) values (30); delete from secret; insert into things (b) values (31)")
    while cursor.nextset():
        pass


fails("text", lambda: cursor.execute("delete from secret where a = %s", (1,)))
show("show warnings")
show("select row_count()")
if driver == "pymysql":
    fails("several", several)
else:
    prepared, other = connection.cursor(prepared=True), connection.cursor(prepared=True)
    prepared.execute("insert into things (b) values (%s)", (1,))
    fails("prepared", lambda: other.execute("delete from secret where a = %s", (1,)))
    fails("prepared again", lambda: other.execute("delete from secret where a = %s", (2,)))
    prepared.execute("insert into things (b) values (%s)", (2,))
    print("prepared:", prepared.rowcount)
    fails("many", lambda: other.executemany("delete from secret where a = %s", [(1,), (2,)]))
    cursor.add_attribute("who", "somebody") if hasattr(cursor, "add_attribute") else None
    fails("attributes", lambda: cursor.execute("delete from secret"))
    show("select count(*) from things")
connection.commit()
cursor.execute("insert into things (b) values (40)")
fails("transaction", lambda: cursor.execute("delete from secret"))
cursor.execute("insert into things (b) values (41)")
connection.rollback()
cursor.execute("insert into things (b) values (42)")
connection.commit()
show("select b from things order by b")
connection.close()
print("done")
