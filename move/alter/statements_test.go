package alter

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestEachStatementFails has the server fail at each statement of an alteration, in turn: it fails with the server's error, except where it
// does without the statement's effect, or repeats it.
func TestEachStatementFails(t *testing.T) {
	d := newDatabase(t, "MariaDB")
	proxy := testproxy.StartFaulty(t, d.server.Addr)
	tables := 0
	seen := make(map[string]bool)
	for _, a := range faultyAlters(d) {
		if a.name == "lint" || a.name == "copy" {
			continue // TestNoErrorIsAbsence has a lint, and the other copy has more
		}
		copies := a.options != nil // the statements of package copier are left out
		if a.do == nil {
			a.do = func(ctx context.Context, o Options) error {
				_, err := Run(ctx, o)
				return err
			}
		}
		run := func(at int) error {
			tables++
			table := fmt.Sprintf("faulty_%d_", tables)
			d.exec("CREATE TABLE " + d.schema + "." + table + " (id INT PRIMARY KEY, n INT NOT NULL)")
			o := d.options(table, a.clauses)
			o.Observe, o.On.TLSMode, o.MaxLockWait, o.LockTries = nil, mysqlconn.TLSDisabled, 4*time.Second, 1
			if a.options != nil {
				a.options(&o)
			}
			if a.before != nil {
				if err := a.before(o); err != nil {
					t.Fatalf("%s: %v", a.name, err)
				}
			}
			o.On.Addr = proxy.Addr
			proxy.Set(at, testproxy.Failed)
			return a.do(t.Context(), o)
		}
		if err := run(0); err != nil {
			t.Fatalf("%s without a fault: %v", a.name, err)
		}
		for i, sql := range proxy.Packets() {
			form := variable.ReplaceAllString(sql, "?")
			if seen[form] || copies && !ownStatement.MatchString(form) || slices.ContainsFunc(doneWithout, func(part string) bool { return strings.Contains(sql, part) }) || sql == "SELECT 1" {
				continue
			}
			seen[form] = true
			err := run(i + 1)
			switch sent := proxy.Sent(); {
			case sent == "": // a login
			case variable.ReplaceAllString(sent, "?") != form: // connections of a copy send more or less before
			case err == nil:
				t.Errorf("%s: the server failed to execute %q, unnoticed", a.name, sql)
			case !strings.Contains(err.Error(), testproxy.RefusedText):
				t.Errorf("%s: the server failed to execute %q: %v", a.name, sql, err)
			}
		}
	}
	t.Logf("%d statements", len(seen))
}

// ownStatement matches the statements of a copy that are this package's.
var ownStatement = regexp.MustCompile("alter_job|(CREATE|DROP|ALTER) TABLE .*_tare_(new|old|rev)_")

// variable matches the parts in which a statement differs between two runs.
var variable = regexp.MustCompile(`x?'[^']*'|[0-9]+`)

// TestListFails has the server fail at each statement of listing alterations, in turn.
func TestListFails(t *testing.T) {
	d := newDatabase(t, "MariaDB")
	proxy := testproxy.StartFaulty(t, d.server.Addr)
	d.exec("CREATE DATABASE IF NOT EXISTS " + Schema)
	for _, table := range []string{"a", "b"} {
		d.exec("CREATE TABLE "+d.schema+"."+table+" (id INT PRIMARY KEY)", "CREATE TABLE "+d.schema+"._tare_old_"+table+" (id INT PRIMARY KEY)")
		s, err := Parse(d.schema, table, "ADD COLUMN n INT")
		if err != nil {
			t.Fatal(err)
		}
		if err := jobRecords.save(t.Context(), d.connect(), s, &job{Clauses: s.Text, Kept: &kept{Until: time.Now().Add(time.Hour)}}); err != nil {
			t.Fatal(err)
		}
	}
	d.exec("CREATE TABLE "+d.schema+".c (id INT PRIMARY KEY)", "CREATE TABLE "+d.schema+"._tare_new_c (id INT PRIMARY KEY)") // a copy that is unfinished
	s, err := Parse(d.schema, "c", "ADD COLUMN n INT")
	if err != nil {
		t.Fatal(err)
	}
	if err := jobRecords.save(t.Context(), d.connect(), s, &job{Clauses: s.Text}); err != nil {
		t.Fatal(err)
	}
	o := d.options("a", "")
	o.On.Addr, o.On.TLSMode = proxy.Addr, mysqlconn.TLSDisabled
	proxy.EachFails(t, func() error { _, err := List(t.Context(), o); return err }, doneWithout[1])
	all, err := List(t.Context(), o)
	if err != nil || len(all) < 3 {
		t.Errorf("%+v, %v", all, err)
	}
	if dropped, err := Cleanup(t.Context(), o); err != nil || len(dropped) > 0 {
		t.Errorf("dropped %+v, %v", dropped, err)
	}
}

// TestInvalidClauses has clauses that cannot be parsed, and options that are invalid, in each use.
func TestInvalidClauses(t *testing.T) {
	d := newDatabase(t, "MariaDB")
	d.exec("CREATE TABLE " + d.schema + ".t (id INT PRIMARY KEY)")
	for name, do := range map[string]func(o Options) error{
		"Run":  func(o Options) error { _, err := Run(t.Context(), o); return err },
		"Lint": func(o Options) error { _, err := Lint(t.Context(), o); return err },
		"Cancel": func(o Options) error {
			o.Clauses = ""
			_, err := Cancel(t.Context(), o)
			return err
		},
		"RunQueue": func(o Options) error {
			_, err := RunQueue(t.Context(), o, []QueueEntry{{Line: 1, Schema: o.Schema, Table: o.Table, Clauses: o.Clauses}}, func(*QueueItem) {})
			return err
		},
	} {
		if err := do(d.options("t", "NO SUCH CLAUSE")); err == nil {
			t.Errorf("%s: no error of the clauses", name)
		}
		o := d.options("t", "ADD COLUMN n INT")
		o.KeepOld = -1
		if err := do(o); err == nil || !strings.Contains(err.Error(), "kept for -1ns") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// doneWithout are parts of statements whose failure does not fail an alteration: those that try what the server supports, and those that
// are sent again with each variable that the server does not have. SELECT 1 checks a connection, which is opened again.
var doneWithout = []string{"alter_probe_", "SELECT VERSION(), CONNECTION_ID(),", "time_zone"}
