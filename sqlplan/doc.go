// Package sqlplan knows what a SQL statement is and does: parsed once, kept in a cache bounded by true
// heap bytes, found again in tens of nanoseconds.
//
// # Terms
//
//   - A plan is what is known of a statement: its type, the tables it names, whether it only
//     reads, what it does to its session, and what the rules say.
//   - The text is the normalized text of sqldigest, with its literals folded; the digest is
//     the hash of it.
//   - A scope is the hash of what else decides a plan: default schema, session modes, the user's
//     class, the rules in force. A class is the set of rules that name the user.
//   - An effect is something that a statement may do beyond its result.
//
// # Data flow
//
//	digest, scope ──► Get ──► bytecache ──► *Plan            no lock, no allocation
//	                   │ nil
//	Statement ───────► Plan ──► scan ──► classify ──► parse ──► judge ──► CachedSize ──► bytecache
//	                            tokens   type,        tables    rules     two objects of
//	                                     effects                          its own, sized
//
// The lexer of sqldigest splits the text, and classify reads type and effects off words in
// places where they can mean but one thing. The parser adds the exact tables. What it refuses
// (MariaDB's own syntax, routines, broken SQL), several statements in one text, and text past
// Options.MaxParse stay with what the lexer saw, and get the graver meaning where there are
// two; they are planned all the same, as the gateway relays all.
//
// # Why a plan is never another statement's
//
// Plans are found by digest and scope: 120 and 128 bits of a SHA-256. To make two statements meet
// takes about 2^60 hashes, and for one that is given 2^120.
// Where a plan lies in the table is decided by a hash that is seeded for each process, so
// nobody can crowd one place.
//
// A plan is a function of the key alone. It is made from the text, never from the statement as it
// was sent: before anything is kept, Plan hashes the text and compares it with the digest, and
// computes the scope again from schema, user, mode and the rules in force. A caller's slip costs a
// plan that is not kept, never one that others are given. Whoever comes first with a
// statement can choose nothing that the next one inherits: all literals stand there as
// placeholders.
//
// For the same reason the parser reads the text and not the original. Its own reading of
// quotes and escapes knows no session modes and cannot matter: no literal reaches it, names do in
// backticks. A placeholder stands where any expression may; where the grammar wants a number,
// a string or several values, the next form is tried. Tables, type and effects do not depend on
// the choice: it changes leaves of the tree, and a list's length. A statement of two megabytes
// whose rows collapse costs the parser some hundred bytes.
//
// # What literals decide
//
// Folding literals changes no name: a string is no table's name in any mode. It changes no type
// either, for a verb is no literal. Where a value decides what happens, the plan says that
// something may: EffectAutocommit for 0 and 1, EffectNamedLock for every name, EffectSQLMode for
// every sql_mode. The new sql_mode is read at each execution by [Plan.SessionMode]. A text in a
// value (PREPARE … FROM, EXECUTE IMMEDIATE, BINLOG) may be any statement: for the rules it
// has every table and type.
//
// Keywords that are synonyms are one in the text, also where they serve as a name without
// quotes: a rule's pattern that covers one word covers all that may stand behind it.
//
// # Executable comments
//
// Normalized text takes the content of an executable comment for SQL, whatever the version. Where
// all supported servers do the same (no version, or up to 50700) that is right. Others are
// run by one server and skipped by the next, which sees another end of the comment as well, so
// one digest may stand for two statements. [sqldigest.Digester.Divergent] finds them, and [Scope.Divergent]
// keeps their plans apart, as ones that hide something.
//
// The same holds for a session whose client character set has characters that end in the byte of
// a backslash or quote (big5, cp932, gb18030, gbk, sjis): the lexer takes bytes for
// themselves. Its statements belong under Scope.Divergent.
//
// # Limits
//
// Each of these makes a plan that is not kept, and is counted: text not known whole, text longer
// than Options.MaxCachedStatement, a list of more than Options.MaxListItems that did not
// collapse, a scope of other rules. Parentheses deeper than 256 are not parsed. At most as
// many goroutines as there are processors run the parser at once.
//
// # What it does not do
//
// It does not rewrite, route or refuse: it tells the gateway. It does not look behind views,
// triggers and routines, nor into the schema: a column's name means nothing here. A function
// that is not built in may do anything, and makes its caller a writer. It does not validate:
// a statement that the server refuses has a plan too.
//
// # Specification
//
// Statements and their effects: MySQL 8.4 Reference Manual, chapters "SQL Statements",
// "Functions and Operators", "Server SQL Modes" and "Statements That Cause an Implicit
// Commit"; MariaDB's "SQL Statements & Structure". Grammar: vitess.io/vitess/go/vt/sqlparser.
package sqlplan
