package serverstats

import (
	"context"
	"fmt"

	"github.com/taredb/tare/mysql/mysqlconn"
)

// A premise is a condition under which the server counts statements completely.
type premise struct {
	query string // selects one number; the condition holds if it is 0
	stops bool   // nothing is counted otherwise
	says  string
}

// premises are checked at each reading: they can be changed at run time, and a switch leads to another server.
var premises = []premise{
	{"SELECT 1 - @@performance_schema", true, "the performance schema is off: start the server with performance_schema = ON"},
	{
		"SELECT 2 - COUNT(*) FROM performance_schema.setup_consumers WHERE NAME IN ('global_instrumentation', 'statements_digest') AND ENABLED = 'YES'", true,
		"the server counts no digests: UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME IN ('global_instrumentation', 'statements_digest')",
	},
	{
		"SELECT COUNT(*) = SUM(ENABLED = 'NO') FROM performance_schema.setup_instruments WHERE NAME LIKE 'statement/sql/%'", true,
		"no statement is instrumented: UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME LIKE 'statement/%'",
	},
	{
		"SELECT COUNT(*) FROM performance_schema.setup_instruments WHERE NAME IN ('statement/sql/select', 'statement/sql/insert', 'statement/sql/update', " +
			"'statement/sql/delete', 'statement/com/Execute') AND ENABLED = 'NO'", false,
		"Some types of statements are not instrumented at the server (setup_instruments).",
	},
	{
		"SELECT COUNT(*) FROM performance_schema.setup_consumers WHERE NAME = 'thread_instrumentation' AND ENABLED = 'NO'", true,
		"threads are not instrumented: UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'thread_instrumentation'",
	},
	{
		"SELECT NOT EXISTS (SELECT 1 FROM performance_schema.setup_actors WHERE HOST = '%' AND USER = '%' AND ENABLED = 'YES') OR " +
			"EXISTS (SELECT 1 FROM performance_schema.setup_actors WHERE ENABLED = 'NO')", false,
		"The server counts statements of some accounts only (setup_actors).",
	},
}

// checkPremises returns a problem if nothing is counted, and otherwise the premises that do not hold.
func checkPremises(ctx context.Context, conn *mysqlconn.Client) (problem string, notes []string, err error) {
	for _, p := range premises {
		var violated int64
		if err := queryRow(ctx, conn, p.query, &violated); err != nil {
			return "", nil, fmt.Errorf("check the performance schema: %w", err)
		}
		switch {
		case violated == 0:
		case p.stops:
			return p.says, nil, nil
		default:
			notes = append(notes, p.says)
		}
	}
	return "", notes, nil
}

// readLimits reads the server's bounds of texts.
func readLimits(ctx context.Context, conn *mysqlconn.Client) (l limits, err error) {
	err = queryRow(ctx, conn, "SELECT LEAST(@@max_digest_length, @@performance_schema_max_digest_length)", &l.digest)
	if err != nil {
		return l, fmt.Errorf("read the bounds of texts: %w", err)
	}
	err = queryRow(ctx, conn, "SELECT @@performance_schema_max_sql_text_length", &l.sample)
	if ErrorNumber(err) == unknownVariable { // of an older server, which has no samples
		return l, nil
	}
	return l, err
}
