// Package sqldigest converts SQL statements into normalized text and a 128-bit digest, so that statements
// that differ only in their literals count as one.
//
//	var d sqldigest.Digester          // reused for all statements of a session
//	digest := d.Digest(sql, mode)     // no allocation in the steady state
//	text := d.Text()                  // a view, valid until the next statement
//
// # Terms
//
//   - Normalized text: the statement with literals as ?, lists collapsed, comments gone,
//     keywords in upper case and white space canonical.
//   - Digest: the version, and the first 15 bytes of the SHA-256 of the normalized text.
//   - Mode: the session state that changes how SQL is read: flags of sql_mode, the client's
//     character set, and the server with its version.
//   - Divergent: a statement that servers read in different ways, see section 9.
//
// # Data flow
//
//	bytes ──> scanner ──tokens──> reduction (last 8 tokens) ──> text ──> SHA-256 ──> Digest
//	          │  │                                               └─> Text, cut at MaxText
//	          │  └──────────────> Lexer, AppendRedacted
//	          └─ trailing comment ─> Tags
//	bytes ──> marks ──> Divergent
//
// [Digester.Write] takes a statement in pieces and holds back a bounded number of bytes, regardless of the
// length of its literals, names and comments: it resumes in the middle of them.
//
// # Limits
//
// The package parses no grammar: only the server decides whether SQL is valid, and every input has a digest.
// It does not know the default schema or IGNORE_SPACE.
//
// # Specification, version 2
//
// The digest is stable: the same statement has the same digest in every release with the same [Version].
// testdata/vectors.txt contains vectors that never change. The groups are those of MySQL's STATEMENT_DIGEST
// and of MariaDB's performance schema, or coarser; section 8 lists the differences.
//
// 1. Tokens. White space is space, \t, \n, \v, \f, \r and NUL. Word bytes are letters, digits, _, $ and bytes
// from 0x80 on, unchanged; in a mode with a character set, bytes from 0x80 on have the class that the server
// gives them (ctype_table.go). Comments are "-- " (also before any control byte, DEL or the end), "#" to the
// end of the line, and "/* */". The contents of "/*! */", "/*!50000 */" and MariaDB's "/*M!100100 */" (five
// or six digits) are SQL if the mode's server runs them, and a comment if not; for a server of unknown kind
// they are SQL. "/*+ */" directly after SELECT, INSERT, REPLACE, UPDATE or DELETE is a hint and is kept, its
// contents normalized; elsewhere it is a comment. An unterminated token extends to the end.
//
// 2. Literals become ?: strings in '…' and, without ANSIQuotes, "…", with doubled quotes and
// (without NoBackslashEscapes) backslash escapes; N'…', x'…', b'…' with the prefix in either
// case; numbers: 12, 1.5, .5, 1., 1e9, 1.5e-3, 0x1F, 0b01 (0X and 0B start identifiers, as on
// the servers); \N; the host of an account name (after the @ that follows a string or an
// identifier). A ? is a ? too. A literal absorbs adjacent strings, a known character set introducer
// (_utf8mb4'x', _binary 0x41), DATE, TIME or TIMESTAMP before a string, and up to 32 signs
// before a number where an expression starts. NULL, TRUE and FALSE are literals where an
// expression starts (after an operator, a comma, an opening parenthesis, or a keyword marked
// expr in keywords.txt, NOT aside), and keywords elsewhere: IS NULL, NOT NULL, SET NULL stay.
// A token that starts with a digit and is not a number in its first 64 bytes is an identifier
// (1abc); a longer number includes all word bytes and dots that follow.
//
// 3. Reduction, on the tokens in order, V being a literal:
//
//	V , V          ->  ?, ...           and longer lists
//	( V )          ->  (?)
//	( V , V )      ->  (...)            and longer lists
//	IN (?)         ->  IN (...)         also IN (...)
//	(?) , (?)      ->  (?), ...         and more rows
//	(...) , (...)  ->  (...), ...       and more rows, of whatever lengths
//	ROW (...)      ->  one row, in lists like the above
//
// 4. Words. The words in keywords.txt are keywords and are printed in upper case, synonyms as one
// word (EXPLAIN is DESCRIBE, INTEGER is INT); those marked call (COUNT, NOW) only if "(" follows
// immediately. Those marked name are not reserved: where a name is allowed (words.go),
// they are names and keep their spelling, without quotes. The same applies, on its server only, to
// words that one server does not reserve (namemaria, namemysql, nametidb). A word directly
// before "." and a name, or directly after ".", is an identifier; a word after @@ is looked up
// ignoring case. All other words, and longer ones than 64 bytes, are identifiers.
//
// 5. Names keep their bytes and are printed in backticks, whichever quotes they had (backticks
// inside doubled), except those of section 4. The names of user variables are kept, as @`x`; system variables are @@ and
// words: @@GLOBAL.`x`. <> is !=.
//
// 6. Text. Tokens are separated by one space, but there is none before , ) and ;, after (, around the dot of
// a qualified name, after @ and @@ before a name, between a function's name and its parenthesis where an
// expression is allowed, before and after the @ of an account. Statements are separated by "; "; empty
// statements and the last semicolon are dropped. Normalized text normalizes to itself, and with literals for
// its placeholders the server parses it, except for TiDB's AS OF TIMESTAMP, which loses the keyword, and PLAN
// REPLAYER DUMP EXPLAIN.
//
// 7. Versions. A change of keywords.txt or of a rule that gives any statement another digest is
// a new version, which is the first byte of the digest.
//
// 8. Differences. Coarser than MySQL and MariaDB, so that what they group is grouped here:
// signs are folded after comparisons too (MySQL keeps "= - ?"), TRUE and FALSE are literals
// (else a bulk INSERT of booleans has a digest for each combination), NULL is in lists from
// the start, introducers, DATE and adjacent strings are one literal, _charset names do not
// count, ROW lists collapse, rows of N'…' and numbers are alike, and MariaDB's IN (?) is IN
// (...) as in MySQL 8. A word that is not reserved has one spelling with and without quotes
// (section 4), as have hosts of accounts. Numbers of columns in ORDER BY and GROUP BY are
// literals (MySQL 9 keeps them), as are the query blocks of hints (t1@qb1). Synonyms that MariaDB
// 11.8 separates are one word: NOW, LOCALTIME and LOCALTIMESTAMP; SYSTEM_USER and SESSION_USER.
//
// Finer, on purpose: the names of user variables count (MySQL has @? for all), since they
// distinguish statements as columns do. Finer, since no grammar is parsed: hints, also empty
// ones, count on MariaDB, sizes in them (SET_VAR(x = 16M)) are names, an account's empty host
// (u@) is none, NULL in TRIM('x' FROM NULL) is a keyword, words after a dot are names, and
// some synonyms are not keywords (ANY and SOME, NDB, GEOMCOLLECTION, REPLICAS).
//
// These are all differences in the 551,315 statements of the test suites of MySQL 9.7 and MariaDB
// 10.11 and 11.8: TestCorpus in e2e/conformance.
//
// Against pt-fingerprint: no number is taken out of a name (foo_1), ASC stays, UNION branches,
// one row and several rows, LIMIT ?, ? and LIMIT ? OFFSET ? are different statements, USE and
// CALL have no special form, and there are no rules for particular tools.
//
// 9. Divergence. If the server may read a statement in another way than this package, even in the
// extent of its strings, digest and text may be those of another statement:
// "select /*!99999 '*/ 1; delete from t -- ' */". [Digester.Divergent] reports such statements:
// rules refuse them, and their text is not shown. Divergence is not part of the digest.
//
// 10. Character sets. With [Big5], [GBK] or [SJIS], the second byte of a character of two bytes
// is part of strings, quoted and unquoted names, regardless of its value: a backslash there escapes
// nothing. A lead byte before a byte that cannot follow it is a separate character, as is any byte
// after a backslash. (A server that accepts any byte after a lead byte in a quoted name reads
// an ANSIQuotes name with an invalid character before its quote differently.) A single lead byte
// at the end of a name is followed by a ? in the text. In all other character sets that a client
// may use, no byte below 0x80 with a meaning here is part of a character; the exceptions ucs2,
// utf16 and utf32 are not available to clients.
//
// 11. Redaction. [AppendRedacted] keeps the statement's bytes except literals and the contents
// of plain comments, including hints outside their position. It keeps names, keywords, operators,
// white space, and hints and executable comments without their literals.
package sqldigest
