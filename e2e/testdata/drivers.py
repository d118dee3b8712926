"""Uses a MySQL driver the way applications do, and prints what it sees.

    drivers.py pymysql|connector|connector-pure|connector-compressed|connector-pure-compressed plain|tls host port user password schema [login]

With login it only logs in. What is printed depends on nothing but the server's responses.
"""

import datetime
import decimal
import hashlib
import ssl
import sys


def connect(driver, tls, host, port, user, password, schema, **more):
    if driver == "pymysql":
        import pymysql

        context = None
        if tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return pymysql.connect(host=host, port=port, user=user, password=password, database=schema,
                               charset="utf8mb4", ssl=context, ssl_disabled=not tls, **more)
    import mysql.connector

    return mysql.connector.connect(host=host, port=port, user=user, password=password, database=schema,
                                   charset="utf8mb4", collation="utf8mb4_general_ci", ssl_disabled=not tls,
                                   ssl_verify_cert=False, use_pure="-pure" in driver, compress="-compressed" in driver, **more)


def main():
    driver, security, host, port, user, password, schema, *only = sys.argv[1:]
    tls = security == "tls"
    account = (driver, tls, host, int(port), user, password, schema)
    connection = connect(*account)
    cursor = connection.cursor()

    def show(what, query, *args):
        try:
            cursor.execute(query, *args)
            print(what + ":", cursor.fetchall())
        except Exception as e:
            print(what + ":", type(e).__name__, e.args)

    def fails(what, do):
        try:
            do()
        except Exception as e:
            print(what + ":", type(e).__name__, e.args[0], e.args[1] if len(e.args) > 1 else "")
        else:
            print(what + ": no error")

    cursor.execute("show status like 'Ssl_cipher'")
    print("tls on the backend's leg:", int(cursor.fetchall()[0][1] != ""))
    show("account", "select current_user(), database()")
    if only:
        connection.close()
        print("done")
        return
    cursor.execute("drop table if exists things")
    cursor.execute("""create table things (
        id int primary key auto_increment, name varchar(100), price decimal(12,4),
        made datetime(6), data longblob, note longtext) character set utf8mb4""")

    made = datetime.datetime(2026, 2, 28, 23, 59, 59, 123456)
    rows = [("snöstorm ❄", decimal.Decimal("12345678.9012"), made, bytes(range(256)), "x"),
            ("日本語 🗾", decimal.Decimal("-0.0001"), None, b"", "'quoted' \\ \"text\" \n;--"),
            (None, None, None, None, None)]
    cursor.executemany("insert into things (name, price, made, data, note) values (%s, %s, %s, %s, %s)", rows)
    print("inserted:", cursor.rowcount, cursor.lastrowid)
    connection.commit()
    show("text", "select * from things order by id")
    show("by value", "select id from things where name = %s", ("日本語 🗾",))

    cursor.execute("update things set note = 'undone'")
    connection.rollback()
    show("after rollback", "select count(*) from things where note = 'undone'")
    cursor.execute("update things set note = 'done' where id = 1")
    connection.commit()
    show("after commit", "select count(*) from things where note = 'done'")

    fails("syntax", lambda: cursor.execute("selct 1"))
    fails("duplicate", lambda: cursor.execute("insert into things (id) values (1)"))
    fails("unknown table", lambda: cursor.execute("select * from nowhere"))
    fails("wrong password", lambda: connect(driver, tls, host, int(port), user, "wrong", schema))
    fails("unknown schema", lambda: connect(driver, tls, host, int(port), user, password, "nowhere"))
    show("after errors", "select 'alive'")

    # The pure connector cannot read packets that a server spreads over frames as it likes.
    many = 100 if driver == "connector-pure-compressed" else 50000
    try:
        cursor.execute(f"""with d as (select 0 n union all select 1 union all select 2 union all select 3 union all select 4
                           union all select 5 union all select 6 union all select 7 union all select 8 union all select 9),
                           seq as (select a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n as n from d a, d b, d c, d, d e)
                           select n, sha2(n, 256), repeat('ž', mod(n, 100)) from seq where n < {many} order by n""")
        digest, count = hashlib.sha256(), 0
        for row in cursor:
            digest.update(repr(row).encode())
            count += 1
        print("big result:", count, digest.hexdigest())
    except Exception as e:
        print("big result:", type(e).__name__, e.args)
    big = bytes(range(256)) * (20 << 12)  # 20 MiB: more than a packet holds
    try:
        cursor.execute("insert into things (data) values (%s)", (big,))
    except Exception as e:  # TiDB bounds rows
        print("big row:", type(e).__name__, e.args)
    show("big statement", "select length(%s), sha2(%s, 256)", (big[:17 << 20], b"x"))
    show("big value", "select sha2(data, 256) = %s, length(data) from things where id = last_insert_id()", (hashlib.sha256(big).hexdigest(),))
    connection.commit()

    if driver != "pymysql":
        prepared = connection.cursor(prepared=True)
        for id in (1, 2, 3):
            prepared.execute("select id, name, price, made, data, note from things where id = %s", (id,))
            print("prepared:", prepared.fetchall())
        prepared.execute("insert into things (name, price, made) values (%s, %s, %s)", ("prepared 🧊", decimal.Decimal("1.5"), made))
        print("prepared insert:", prepared.rowcount)
        fails("prepared error", lambda: prepared.execute("select * from nowhere where id = %s", (1,)))
        prepared.close()
        show("prepared row", "select name, price, made from things where name like %s", ("prepared%",))
        connection.commit()

    try:
        cursor.execute("drop procedure if exists pair")
        cursor.execute("create procedure pair(n int) begin select n; select n * 2, 'two'; end")
        cursor.callproc("pair", (21,))
        if driver == "pymysql":
            print("procedure:", cursor.fetchall(), cursor.nextset(), cursor.fetchall())
        else:
            print("procedure:", [r.fetchall() for r in cursor.stored_results()])
    except Exception as e:  # TiDB has none
        print("procedure:", type(e).__name__, e.args)
    cursor.close()
    connection.ping(reconnect=False)
    connection.close()
    print("done")


main()
