// Package inventory lists the objects of a source's schemas before anything is written to the target, and the fate of each: copied,
// left out, or in need of a hand, with the reason. It creates those that are no tables; package copier copies the tables.
//
// # Terms
//
//   - An object is a schema, a table, a view, a routine, a trigger, an event, a sequence, or the account that privileges were granted to.
//   - A selection says which schemas and tables were asked for, and which objects of them are excluded.
//   - An object's fate is Copied, LeftOut or NeedsHand. A copy starts only if no object needs a hand.
//
// # Data flow
//
//	Selection ──> Read: privileges, information_schema, SHOW CREATE ──> Inventory
//	Inventory ──> Judge: package dialect, the target's objects and accounts ──> fates ──> tables for the copier
//	                                                                               └──> Create: CREATE … in the target
//
// # Completeness
//
// information_schema hides objects from accounts without privileges on them. Read therefore requires the privileges by which all
// objects of a kind are seen (privileges.go). Objects of a kind that the selection leaves out may be invisible; then the inventory
// says so in place of their names.
//
// # Repetition
//
// Create leaves an object alone that exists with the definition that it would give it, so that it can be repeated after a crash at any
// time. Another definition is an error. Servers reformat the text of views and routines: where texts differ, the definition is
// created again in the schema of the copy's state, and the texts that the server shows for both are compared.
//
// # What it does not do
//
// It carries no accounts and no privileges, which package accounts does, and reads no rows.
//
// # Specification
//
// MySQL and MariaDB "INFORMATION_SCHEMA Tables", "SHOW CREATE", "SHOW GRANTS"; the definitions are translated by package dialect.
package inventory
