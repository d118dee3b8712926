package copier_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/taredb/tare/internal/gateway/gatewayclient"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// Copies two tables to another server, one of them in part. When the copy is interrupted, the same call
// resumes it.
func ExampleRun() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	report, err := copier.Run(ctx, copier.Options{
		From: copier.FromServer(mysqlconn.Config{Addr: "db1:3306", User: "app", Password: os.Getenv("FROM_PASSWORD")}),
		To:   mysqlconn.Config{Addr: "db2:3306", User: "app", Password: os.Getenv("TO_PASSWORD")},
		Tables: []tabledef.Spec{
			{Schema: "shop", Name: "items"},
			{Schema: "shop", Name: "orders", Where: "created > '2026-01-01'", ToName: "orders_2026"},
		},
		Verify: true,
		Observe: func(e telemetry.Event) {
			if e.Kind == telemetry.EventDone {
				fmt.Printf("%s: %d rows\n", e.Table, e.Rows)
			}
		},
	})
	if err != nil {
		fmt.Println("run it again to go on:", err)
		return
	}
	fmt.Println(report.Mismatches(), "rows differ")
}

// Copies a table that clients write to, no faster than their latency permits, and follows it until the target
// has caught up.
func ExampleRun_follow() {
	report, err := copier.Run(context.Background(), copier.Options{
		From:          copier.FromServer(mysqlconn.Config{Addr: "db1:3306", User: "app", Password: os.Getenv("FROM_PASSWORD")}),
		To:            mysqlconn.Config{Addr: "db2:3306", User: "app", Password: os.Getenv("TO_PASSWORD")},
		Tables:        []tabledef.Spec{{Schema: "shop", Name: "orders"}},
		Follow:        true,
		UntilCaughtUp: true,
		Throttle:      throttle.Options{MaxP99: 20 * time.Millisecond, Gateway: gatewayclient.Gateway{URL: "http://127.0.0.1:8316"}},
	})
	if err != nil {
		fmt.Println("run it again to go on:", err)
		return
	}
	fmt.Println("the target has everything before", report.Follow.Position)
}
