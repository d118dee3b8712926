// Package alter changes the definition of a table while clients use it.
//
// # Terms
//
//   - A clause is one part of an ALTER TABLE: the text between two commas.
//   - The probe is an empty table with the definition of the altered one and a sample of its rows. The clauses are executed on it, so that the
//     server itself reports which algorithms it supports.
//   - A way is how the table is altered: by the server at once (INSTANT), by the server in place (INPLACE, LOCK=NONE), or by copying its
//     rows into a shadow table.
//   - The shadow is the table with the new definition, which replaces the altered one.
//   - The mapping states where the values of the shadow's columns come from.
//
// # Data flow
//
//	clauses ──> parse ──> probe ──> verdicts ──> way
//	INSTANT, INPLACE: ALTER TABLE with a bounded lock wait, retried
//	copy: shadow ──> mapping ──> package copier: rows, changes, comparison ──> swap of the two names
//
// # What it does not do
//
// It manages no partitions, renames no tables, and adds no foreign keys. Clauses that it cannot parse are refused.
package alter
