package wire

import (
	"context"
	"fmt"
	"testing"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
)

// root returns the configuration of an account that may read the log.
func root(s *testmysql.Server) mysqlconn.Config {
	cfg := app(s)
	cfg.User = testmysql.RootUser
	return cfg
}

// direct opens a server for the test.
func direct(t *testing.T, cfg mysqlconn.Config) *binlog.Direct {
	t.Helper()
	d, err := binlog.OpenDirect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// now returns the end of the log, with a GTID on demand.
func now(t *testing.T, d *binlog.Direct, gtid bool) binlog.Position {
	t.Helper()
	end := d.CurrentPosition
	if gtid {
		end = d.GTIDPosition
	}
	p, err := end(t.Context())
	if err != nil || gtid && p.GTID == "" {
		t.Fatalf("the log ends at %v: %v", p, err)
	}
	return p
}

// followers returns the ways to follow a server: directly, and through a service.
func followers(t *testing.T, d *binlog.Direct) map[string]binlog.Follower {
	t.Helper()
	_, addr := serve(t, ServiceOptions{Server: d, Token: "rows"})
	return map[string]binlog.Follower{
		"direct": d, "remote": open(t, RemoteOptions{Addr: addr, Token: "rows"}),
		"remote packed": open(t, RemoteOptions{Addr: addr, Token: "rows", Compression: Zstd}),
	}
}

// follow follows tables for the test.
func follow(t *testing.T, d binlog.Follower, o binlog.FollowOptions) binlog.Changes {
	t.Helper()
	if err := d.CheckFollow(t.Context(), o.Tables, o.From); err != nil {
		t.Fatal(err)
	}
	c, err := d.Follow(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// A seen is a change with its rows.
type seen struct {
	table         int
	kind          binlog.ChangeKind
	before, after mysqlwire.TextRow
	last          bool
}

func (s seen) String() string {
	text := fmt.Sprintf("%d %v", s.table, s.kind)
	if s.before != nil {
		text += fmt.Sprintf(" %q", s.before)
	}
	if s.after != nil {
		text += fmt.Sprintf(" -> %q", s.after)
	}
	if s.last {
		text += "."
	}
	return text
}

// changesOf returns the changes of a batch with copies of their rows.
func changesOf(t *testing.T, b *binlog.ChangeBatch) (all []seen) {
	t.Helper()
	for i := range b.Tables {
		if err := b.Tables[i].Check(); err != nil {
			t.Fatalf("table %d: %v", i, err)
		}
	}
	images := make([]int, len(b.Tables))
	image := func(table int32, at int) mysqlwire.TextRow {
		if at < 0 {
			return nil
		}
		var view, row mysqlwire.TextRow
		if _, err := b.Tables[table].Row(at, &view); err != nil {
			t.Fatal(err)
		}
		if err := row.Decode(view.AppendTo(nil), len(view)); err != nil {
			t.Fatal(err)
		}
		images[table]++
		return row
	}
	for _, c := range b.Changes {
		all = append(all, seen{int(c.Table), c.Kind, image(c.Table, c.Before), image(c.Table, c.After), c.LastOfTransaction})
	}
	for i, n := range images {
		if n != b.Tables[i].Rows {
			t.Errorf("table %d: the changes have %d images, the batch %d rows", i, n, b.Tables[i].Rows)
		}
	}
	return all
}

// until reads changes up to a position.
func until(t *testing.T, c binlog.Changes, p binlog.Position) (all []seen) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	var b binlog.ChangeBatch
	for {
		if err := c.Next(ctx, &b); err != nil {
			t.Fatalf("after %d changes up to %v: %v", len(all), b.Upto, err)
		}
		all = append(all, changesOf(t, &b)...)
		if b.Boundary && b.Upto.Compare(p) >= 0 {
			return all
		}
	}
}

// texts returns the changes as text.
func texts(all []seen) (lines []string) {
	for _, s := range all {
		lines = append(lines, s.String())
	}
	return lines
}
