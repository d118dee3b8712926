package serverstats_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A Reader reads what the server counts of statements.
func ExampleReader() {
	r, err := serverstats.New(serverstats.Options{
		Login: func() mysqlconn.Config {
			return mysqlconn.Config{Addr: "127.0.0.1:3306", User: "tare", Password: "secret"}
		},
		Log: slog.Default(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = r.Run(ctx) }()

	s, status, ok := r.Statement(sqldigest.Digest{}, "SELECT * FROM `orders` WHERE `customer` = ?")
	if !ok {
		fmt.Println(status.Problem, status.Notes)
		return
	}
	for _, i := range s.Intervals {
		fmt.Println(i.From, float64(i.Counts.RowsExamined)/float64(i.Counts.Calls), "rows examined per call")
	}
}
