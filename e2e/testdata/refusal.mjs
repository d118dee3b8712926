// Deletes from a table without permission, between statements that are permitted, and prints what it sees.
//
//     refusal.mjs host port user password schema
import { createRequire } from "node:module";

const mysql = createRequire(import.meta.url)("mysql2/promise"); // found by NODE_PATH

const [host, port, user, password, database] = process.argv.slice(2);
const c = await mysql.createConnection({ host, port: Number(port), user, password, database, multipleStatements: true });
const fails = async (what, doing) => {
  try {
    await doing();
    console.log(what + ": no error");
  } catch (e) {
    console.log(what + ":", "refused", e.errno, e.sqlState, "|" + e.sqlMessage + "|");
  }
};
const show = async (sql) => console.log(sql + ":", JSON.stringify((await c.query(sql))[0]));

const insert = await c.prepare("insert into things (b) values (?)");
await insert.execute([1]);
await fails("text", () => c.query("delete from secret where a = ?", [1]));
await show("show warnings");
await show("select row_count() as n");
await fails("prepared", () => c.execute("delete from secret where a = ?", [1]));
await fails("prepared again", () => c.execute("delete from secret where a = ?", [2]));
await insert.execute([2]);
// Commands in the driver's queue, the responses awaited together.
const queued = await Promise.allSettled([
  c.execute("insert into things (b) values (?)", [3]), c.execute("delete from secret where a = ?", [3]), c.query("delete from secret"), c.execute("insert into things (b) values (?)", [4]),
]);
console.log("queued:", queued.map((r) => r.status).join(" "));
await fails("several", () => c.query("insert into things (b) values (30); delete from secret; insert into things (b) values (31)"));
await c.beginTransaction();
await c.execute("insert into things (b) values (?)", [40]);
await fails("transaction", () => c.execute("delete from secret", []));
await insert.execute([41]);
await c.rollback();
await insert.execute([42]);
await show("select b from things order by b");
await c.end();
console.log("done");
