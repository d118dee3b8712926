package localdb_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/localstate"
)

// Opens a database, appends a sample and reads it.
func ExampleDirectory_Open() {
	path, err := os.MkdirTemp("", "localdb")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(path) }() // a temporary directory
	log := slog.New(slog.DiscardHandler)
	dir := localdb.Directory{Path: path, State: localstate.Open(path, nil, log), Log: log}
	keep := func([]*tsdb.Block) map[ulid.ULID]struct{} { return nil } // no block expires
	db, err := dir.Open(keep)
	if err != nil {
		fmt.Println(err)
		return
	}
	database := localdb.NewDatabase(db)
	if err := appendAndRead(database); err != nil {
		fmt.Println(err)
	}
	fmt.Println("newest sample:", localdb.LastTime(db))
	if err := localdb.CloseDB(db); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {__name__="calls_total", instance="gw1"} 60000 7
	// newest sample: 60000
}

func appendAndRead(database *localdb.Database) error {
	ctx := context.Background()
	app := database.Current().Appender(ctx)
	if _, err := app.Append(0, labels.FromStrings("__name__", "calls_total", "instance", "gw1"), 60_000, 7); err != nil {
		return err
	}
	if err := app.Commit(); err != nil {
		return err
	}
	q, err := database.Querier(0, math.MaxInt64)
	if err != nil {
		return err
	}
	series := q.Select(ctx, false, nil, labels.MustNewMatcher(labels.MatchEqual, "instance", "gw1"))
	for series.Next() {
		samples := series.At().Iterator(nil)
		for samples.Next() != 0 {
			t, v := samples.At()
			fmt.Println(series.At().Labels(), t, v)
		}
	}
	if err := series.Err(); err != nil {
		return err
	}
	return q.Close()
}
