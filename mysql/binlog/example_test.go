package binlog_test

import (
	"context"
	"fmt"
	"os"

	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// Compares two positions of a server's log.
func ExampleParsePosition() {
	p, err := binlog.ParsePosition("binlog.000009 4711 gtid=0-1-5")
	if err != nil {
		fmt.Println(err)
		return
	}
	q, err := binlog.ParsePosition("binlog.000010 4 gtid=0-1-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	before, known := p.Before(q)
	fmt.Println(before, known)
	fmt.Println("everything before p is before q:", q.Reaches(p))
	// Output:
	// true true
	// everything before p is before q: true
}

// Prints the changes of a table from now on.
func ExampleDirect_Follow() {
	if err := printChanges(context.Background()); err != nil {
		fmt.Println(err)
	}
}

func printChanges(ctx context.Context) error {
	d, err := binlog.OpenDirect(ctx, mysqlconn.Config{Addr: "db1:3306", User: "repl", Password: os.Getenv("PASSWORD")})
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // it only reads
	table, err := d.Describe(ctx, "shop", "orders")
	if err != nil {
		return err
	}
	from, err := d.CurrentPosition(ctx)
	if err != nil {
		return err
	}
	changes, err := d.Follow(ctx, binlog.FollowOptions{From: from, Tables: []*rowstream.Table{table}})
	if err != nil {
		return err
	}
	defer func() { _ = changes.Close() }() // it only reads
	var batch binlog.ChangeBatch           // reused
	for {
		if err := changes.Next(ctx, &batch); err != nil {
			return err
		}
		for i := range batch.Changes {
			fmt.Println(batch.Changes[i].Kind)
		}
		fmt.Println("resume from", batch.Upto)
	}
}
