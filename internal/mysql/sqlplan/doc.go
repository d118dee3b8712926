// Package sqlplan determines what a SQL statement is and does. A statement is parsed once; its plan is kept
// in a cache bounded by heap bytes and found in tens of nanoseconds.
//
//	planner, err := sqlplan.New(sqlplan.Options{Rules: rules})
//	scope := planner.ScopeOf(schema, user, mode) // when the session changes
//	plan := planner.Get(digest, scope)           // per statement; no allocation
//	if plan == nil {
//		plan = planner.Plan(statement)
//	}
//	verdict, rule := plan.Verdict()
//
// # Terms
//
//   - A plan is the knowledge about a statement: its type, the tables it names, whether it is
//     read-only, its effects on the session, and the verdict of the rules.
//   - The text is the normalized text of sqldigest, with its literals folded; the digest is
//     its hash.
//   - A scope is the hash of the other parameters of a plan: default schema, session modes, the
//     user's class, the current rules. A class is the set of rules that name the user.
//   - An effect is a possible effect of a statement beyond its result.
//
// # Data flow
//
//	digest, scope ──► Get ──► bytecache ──► *Plan            no lock, no allocation
//	                   │ nil
//	Statement ───────► Plan ──► scan ──► classify ──► parse ──► judge ──► CachedSize ──► bytecache
//	                            tokens   type,        tables    rules     two objects,
//	                                     effects                          sized
//
// The lexer of sqldigest splits the text, and classify derives type and effects from words in
// unambiguous positions. The parser adds the exact tables. For text that it rejects (MariaDB's
// syntax, routines, invalid SQL), several statements in one text, and text past
// Options.MaxParse, the lexer's result stays, with the more severe meaning of ambiguous words.
// Such statements are planned nonetheless, because the gateway relays everything.
//
// # Why statements never share a wrong plan
//
// Plans are found by digest and scope: 120 and 128 bits of SHA-256. Finding any two statements
// that collide takes about 2^60 hashes, colliding with a given one 2^120. The position of a plan
// in the table depends on a hash that is seeded per process, so clients cannot overload one
// position.
//
// A plan is a function of its key only. It is derived from the normalized text, never from the
// original statement: before it is cached, Plan hashes the text and compares it with the digest,
// and recomputes the scope from schema, user, mode and the current rules. A caller's mistake
// results in a plan that is not cached, never in a wrong plan for others. The first client that
// sends a statement cannot choose anything that later ones inherit: all literals are placeholders.
//
// For the same reason the parser reads the normalized text. It ignores session modes in its
// reading of quotes and escapes, which cannot matter: no literal reaches it, and names are in
// backticks. A placeholder is allowed wherever an expression is; where the grammar requires a
// number, a string or several values, the next form is tried. Tables, type and effects do not
// depend on the choice: it changes leaves of the tree, and a list's length. A statement of two
// megabytes whose rows collapse costs the parser some hundred bytes.
//
// # The role of literals
//
// Folding literals changes no name: a string is not a table's name in any mode. It changes no
// type either, because a verb is not a literal. If a value decides about an effect, the plan has
// the effect as possible: EffectAutocommit for 0 and 1, EffectNamedLock for every name,
// EffectSQLMode for every sql_mode. [Plan.SessionMode] determines the new sql_mode at each
// execution. A text in a value (PREPARE … FROM, EXECUTE IMMEDIATE, BINLOG) may be any statement:
// the rules treat it as having every table and type.
//
// Keywords that are synonyms are one word in the text, even where they are unquoted names: a
// rule's pattern that covers one of the synonyms covers all of them.
//
// # Executable comments
//
// Normalized text treats the content of an executable comment as SQL if the mode's server runs
// it. For a server of unknown kind it is always SQL, although some servers skip it and see
// another end of the comment, so one digest may represent two statements.
// [sqldigest.Digester.Divergent] reports such statements, and every statement in an unknown
// mode; [Scope.Divergent] gives them separate plans, which assume hidden effects.
//
// # Limits
//
// Each of these results in a plan that is not cached, and is counted: text that is not known
// completely, text longer than Options.MaxCachedStatement, a list of more than
// Options.MaxListItems that did not collapse, a scope of other rules. Parentheses nested deeper
// than 256 are not parsed. At most one goroutine per CPU runs the parser.
//
// The package does not rewrite, route or refuse: the gateway does. It does not inspect views,
// triggers and routines, nor the schema: column names have no meaning here. A function that is
// not built in may have any effect, and makes its caller a writer. The package does not
// validate: a statement that the server refuses has a plan too.
//
// # Specification
//
// Statements and their effects: MySQL 8.4 Reference Manual, chapters "SQL Statements",
// "Functions and Operators", "Server SQL Modes" and "Statements That Cause an Implicit
// Commit"; MariaDB's "SQL Statements & Structure". Grammar: vitess.io/vitess/go/vt/sqlparser.
package sqlplan
