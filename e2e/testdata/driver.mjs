// Uses mysql2 the way applications do, and prints what it sees.
//
//     driver.mjs plain|tls host port user password schema [login]
//
// With login it only logs in. What is printed depends on nothing but the server's responses.
import { createHash } from "node:crypto";
import { createRequire } from "node:module";

// The driver is found by NODE_PATH, which import does not look at.
const mysql = createRequire(import.meta.url)("mysql2/promise");

const [security, host, port, user, password, database, only] = process.argv.slice(2);
const account = { host, port: Number(port), user, password, database, charset: "utf8mb4", timezone: "Z", dateStrings: true };
if (security === "tls") {
  account.ssl = { rejectUnauthorized: false };
}

const show = (what, value) => console.log(what + ":", JSON.stringify(value));
const fails = async (what, doing) => {
  try {
    await doing();
    show(what, "no error");
  } catch (e) {
    show(what, [e.code, e.errno, e.sqlState, e.sqlMessage]);
  }
};

const c = await mysql.createConnection(account);
const ask = async (what, sql, values) => show(what, (await c.query(sql, values))[0]);

show("tls on the backend's leg", Number((await c.query("show status like 'Ssl_cipher'"))[0][0].Value !== ""));
await ask("account", "select current_user() as user, database() as db");
if (only) {
  await c.end();
  console.log("done");
  process.exit(0);
}
await c.query("drop table if exists things");
await c.query(`create table things (
  id int primary key auto_increment, name varchar(100), price decimal(12,4),
  made datetime(6), data longblob, note longtext) character set utf8mb4`);
const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
await ask("text insert", "insert into things (name, price, made, data, note) values ?", [[
  ["snöstorm ❄", "12345678.9012", "2026-02-28 23:59:59.123456", all, "x"],
  ["日本語 🗾", "-0.0001", null, Buffer.alloc(0), "'quoted' \\ \"text\" \n;--"],
  [null, null, null, null, null],
]]);
await ask("text", "select * from things order by id");

for (const id of [1, 2, 3]) {
  show("prepared", (await c.execute("select * from things where id = ?", [id]))[0]);
}
show("prepared insert", (await c.execute("insert into things (name, price, data) values (?, ?, ?)", ["prepared 🧊", "1.5", all]))[0]);
await fails("prepared error", () => c.execute("select * from nowhere where id = ?", [1]));

await c.beginTransaction();
await c.query("update things set note = 'undone'");
await c.rollback();
await ask("after rollback", "select count(*) as n from things where note = 'undone'");
await c.beginTransaction();
await c.execute("update things set note = ? where id = ?", ["done", 1]);
await c.commit();
await ask("after commit", "select count(*) as n from things where note = 'done'");

await fails("syntax", () => c.query("selct 1"));
await fails("duplicate", () => c.query("insert into things (id) values (1)"));
await fails("wrong password", () => mysql.createConnection({ ...account, password: "wrong" }));
await fails("unknown schema", () => mysql.createConnection({ ...account, database: "nowhere" }));
await ask("after errors", "select 'alive' as state");

for (const how of ["query", "execute"]) {
  await fails("big result by " + how, async () => { // TiDB prepares no such statement
    const [rows] = await c[how](`with d as (select 0 n union all select 1 union all select 2 union all select 3 union all select 4
      union all select 5 union all select 6 union all select 7 union all select 8 union all select 9),
      seq as (select a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n as n from d a, d b, d c, d, d e)
      select n, sha2(n, 256) as sum, repeat('ž', mod(n, 100)) as text from seq where n < 50000 order by n`);
    const digest = createHash("sha256");
    for (const row of rows) {
      digest.update(JSON.stringify(row));
    }
    show("rows", [rows.length, digest.digest("hex")]);
  });
}
const big = Buffer.alloc(20 << 20, all); // more than a packet holds
await fails("big row", () => c.query("insert into things (data) values (?)", [big])); // TiDB bounds rows
await ask("big statement", "select length(?) as length", [big.subarray(0, 17 << 20)]);
await ask("big value", "select sha2(data, 256) = ? as same, length(data) as length from things where id = last_insert_id()",
  [createHash("sha256").update(big).digest("hex")]);

await c.query("drop procedure if exists pair");
await fails("procedure", async () => { // TiDB has none
  await c.query("create procedure pair(n int) begin select n; select n * 2, 'two'; end");
  show("results", (await c.query("call pair(21)"))[0]);
});

await c.changeUser({ database });
await ask("after a change of user", "select database() = ? as same", [database]);
const many = await mysql.createPool({ ...account, connectionLimit: 10 });
const sums = await Promise.all(Array.from({ length: 200 }, (_, i) => many.execute("select ? + 1 as n", [i])));
show("pool", sums.reduce((sum, [rows]) => sum + Number(rows[0].n), 0));
await many.end();
await c.end();
console.log("done");
