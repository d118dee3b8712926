package state_test

import (
	"context"
	"fmt"
	"os"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// Lists the copies recorded in a target.
func ExampleJobs() {
	ctx := context.Background()
	c, err := session.Connect(ctx, mysqlconn.Config{Addr: "db2:3306", User: "app", Password: os.Getenv("TO_PASSWORD")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }() // it only reads
	jobs, err := state.Jobs(ctx, c, state.DefaultStateSchema)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, j := range jobs {
		fmt.Printf("%s: %s, %d of %d chunks, %d rows\n", j.Target, j.Phase, j.Copied, j.Chunks, j.Rows)
	}
}
