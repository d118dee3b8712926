// Package accounts copies the accounts of a server that have privileges on whole schemas, with those privileges.
//
// # Terms
//
//   - An account is a user or a role. A role of MariaDB is the account of MySQL with its name, the host %, no password and a lock.
//   - A level is what privileges are granted on: a schema, a table, a column or a routine.
//   - A plan is the accounts that are copied, their definitions and their privileges, in the form of the target.
//
// # Data flow
//
//	mysql.user, mysql.global_priv, mysql.db, … of both sides ──> New: a Plan, and an object of the inventory per account
//	Plan ──> Create: CREATE USER, CREATE ROLE, GRANT on schemas and tables, roles, SET DEFAULT ROLE
//	     ──> Grant, for each other object when it exists ──> Report: comparison with the plan ──> (rows)
//
// The tables of the schema mysql are read, and not SHOW CREATE USER and SHOW GRANTS: these are texts that servers write for people, with
// quotes that MySQL does not escape in REQUIRE SUBJECT, and would need a statement per account.
//
// # Guarantees
//
//   - An account that exists in the target keeps its definition, default roles and privileges. Missing privileges are granted if it has the
//     definition of the source and, as a role, no other holders; else it needs a hand, unless Selection.GrantExisting names it.
//   - No account gets more than it has on the source: of several grants on names that match a schema, the one that the server uses is
//     carried. Where that depends on the order in which the server sorts them, the account needs a hand.
//   - Create and Grant execute only what the target lacks, so that they can be repeated after a crash at any time.
//   - Authentication strings are in statements to the target alone. Formatting them yields a placeholder or an address, and messages of servers
//     about statements that have them are withheld.
//
// # What it does not do
//
// It carries no global privileges, proxies, privileges on other schemas, second passwords, and roles without privileges on the schemas; nor the
// servers' own accounts, root and that of the copy. It lists them. Privileges of accounts that match a client's host by their own name, such as those of 'a'@'%' for 'a'@'localhost', apply
// in the target as they do on the source.
//
// # Specification
//
// MySQL and MariaDB "Grant Tables", "CREATE USER", "GRANT", "Account Names".
package accounts
