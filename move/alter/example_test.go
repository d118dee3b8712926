package alter_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/taredb/tare/move/alter"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// Adds a column and an index while clients use the table. When the copy is interrupted, the same call resumes it.
func ExampleRun() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	report, err := alter.Run(ctx, alter.Options{
		On:      mysqlconn.Config{Addr: "db1:3306", User: "app", Password: os.Getenv("PASSWORD")},
		Schema:  "shop",
		Table:   "orders",
		Clauses: "ADD COLUMN note varchar(80), ADD INDEX (created)",
		KeepOld: time.Hour, // for alter.Revert
	})
	if err != nil {
		fmt.Println("run it again to go on:", err)
		return
	}
	fmt.Println("altered:", report.Way)
}
