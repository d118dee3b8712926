package explain_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/taredb/tare/internal/history/explain"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/sqldigest"
)

// The plan of a join, as the server executes it.
func ExampleStep() {
	for _, s := range []explain.Step{
		{Table: "o", Access: "ref", Key: "by_customer", Rows: 12},
		{Table: "c", Access: "eq_ref", Key: "PRIMARY", Rows: 1, Depth: 1, How: "subquery"},
		{Table: "log", Access: "ALL", Rows: 250_000},
	} {
		fmt.Println(s)
	}
	// Output:
	// o ref by by_customer, 12 rows
	//   subquery: c eq_ref by PRIMARY, 1 row
	// log full scan, 250000 rows
}

// A Prober explains the heaviest statements of a server and reports changed plans.
func ExampleProber() {
	text := "SELECT * FROM `orders` WHERE `customer` = ?"
	digest := sqldigest.OfText([]byte(text))
	p, err := explain.New(explain.Options{
		Login: func() mysqlconn.Config {
			return mysqlconn.Config{Addr: "127.0.0.1:3306", User: "tare", Password: "secret"}
		},
		Candidates: func(context.Context) ([]explain.Candidate, error) {
			return []explain.Candidate{{Digest: digest, Schema: "shop", Text: text}}, nil
		},
		Changed: func(d sqldigest.Digest, c explain.Change) { fmt.Println("another plan for", d, "since", c.At) },
		Log:     slog.Default(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = p.Run(ctx) }() // p is also an observer of the gateway, which passes it executions

	if state, ok := p.State(digest); ok && len(state.Plans) > 0 {
		fmt.Println(state.Plans[0].Steps)
	}
}
