// Loses a pool's connection, and prints what the application sees: see ends.py.
//
//     ends.mjs SCENARIO host port user password schema
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

// The driver is found by NODE_PATH, which import does not look at.
const mysql = createRequire(import.meta.url)("mysql2");
const [scenario, host, port, user, password, database] = process.argv.slice(2);
const BIG = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) select a.i, repeat('x', 1000) from n a, n b, n c";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const ready = async (connection = 0) => {
  console.log("ready", connection);
  await lines.next();
};
const report = async (what, doing) => {
  try {
    console.log(what + ":", await doing());
  } catch (e) {
    console.log(what + ":", [e.code, e.errno, e.fatal ? "fatal" : ""].filter((part) => part).join(" "));
  }
};
const pool = mysql.createPool({ host, port: Number(port), user, password, database, connectionLimit: 1 });
let lost = () => {};
pool.on("connection", (connection) => connection.on("error", (e) => lost(e)));
const one = async (sql) => Object.values((await pool.promise().query(sql))[0][0])[0];
// A query without a callback is not notified of a lost connection: its connection is.
const stream = () =>
  new Promise((resolve, reject) => {
    let n = 0;
    const rows = pool.query(BIG);
    rows.on("error", reject);
    lost = reject;
    rows.on("end", () => resolve(n === 1000000000 ? "the whole result" : "a part of the result as if it were whole"));
    rows.on("result", () => {
      if (++n === 1) {
        ready();
      }
    });
  });

if (scenario === "login") {
  await ready();
  await report("login", () => one("select 42"));
  await ready();
} else {
  const connection = await one("select connection_id() as id");
  if (scenario === "idle") {
    await ready(connection);
  } else if (scenario === "statement") {
    console.log("runs", connection);
    await report("statement", () => one("select sleep(100)"));
    await ready();
  } else if (scenario === "result") {
    await report("result", stream);
    await ready();
  }
}
for (let i = 0; i < 3; i++) {
  await report("then", () => one("select 42"));
}
process.exit(0);
