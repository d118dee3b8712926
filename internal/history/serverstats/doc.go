// Package serverstats reads from the MySQL server behind a gateway what passes no gateway: rows examined, temporary
// tables and lock time per statement, and the sizes and indexes of tables.
//
// # Usage
//
//	r, err := serverstats.New(serverstats.Options{Account: account, Log: log})
//	go r.Run(ctx)
//	s, ok := r.Statement(digest, text) // counts of the last minutes, per interval
//	tables, err := r.Tables(ctx, []string{"shop.orders"})
//
// # Data flow
//
//	events_statements_summary_by_digest ─once per minute─► counters of each row ─differences─► intervals per digest
//	QUERY_SAMPLE_TEXT or DIGEST_TEXT ─sqldigest─► digest ──────────────────────────────────────────┘
//	information_schema.tables, statistics ─on request, cached for a minute─► Tables
//
// # Statements
//
// Servers normalize statements differently, so their digests are not compared. The text of a server's row is converted to
// the digest of package sqldigest: MySQL's sample of the statement, or else the server's normalized text with its lists
// expanded. A row whose text is missing or truncated belongs to no statement; such rows are counted. A counter that
// decreases was reset at the server, for example by TRUNCATE TABLE: the intervals of its statement start again.
//
// # What is sent to the server
//
// SELECT only, one at a time over one connection, each for 1.5 s at most: the rows of statements called within the last
// minutes, at most 1,000 of them, once per minute; the texts of rows that are new, at most 200 per minute; and statistics
// of tables that a page shows.
//
// # Limits
//
// The counts are those of all clients of the server, including clients that bypass the gateway. They depend on the
// configuration of the performance schema, which is checked at each reading; Status reports the differences. A statement
// that the server counts under several rows is their sum.
//
// Sources: "Statement Summary Tables" of the MySQL Reference Manual, "Performance Schema" of the MariaDB documentation.
package serverstats
