package alter

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestOutcome has the effects of a RENAME whose response was lost: by the tables that exist after its session has ended.
func TestOutcome(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		o := d.options("t", "ADD COLUMN a INT")
		w := &swapper{o: &o, s: &Statement{Schema: d.schema, Table: "t"}, shadow: "shadow", old: "old"}
		o.Patience = 10 * time.Second
		// Of a session that has ended; no server has given as many ids.
		s := &sessions{watchdogs: []*session.Watchdog{{Victim: "0"}, {Victim: "4000000000"}}}
		refused := errors.New("refused")
		if err := w.outcome(t.Context(), s, refused); !errors.Is(err, refused) {
			t.Errorf("an error that is no lost connection: %v", err)
		}
		failed := lostError{errors.New("reset")}
		for _, tt := range []struct{ tables, want string }{
			{"old", ""}, {"shadow", "ended before it did: reset"}, {"old shadow", "the connection was lost"}, {"", "the connection was lost"},
		} {
			for name := range strings.FieldsSeq(tt.tables) {
				d.exec(fmt.Sprintf("CREATE TABLE %s.%s (id INT PRIMARY KEY)", d.schema, name))
			}
			err := w.outcome(t.Context(), s, failed)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("with %q: %v, want %q", tt.tables, err, tt.want)
			}
			d.exec(fmt.Sprintf("DROP TABLE IF EXISTS %s.old, %s.shadow", d.schema, d.schema))
		}
		// While the session exists nothing is known, nor if the tables cannot be read.
		c := testrows.Connect(t, o.On)
		id, err := session.QueryValue(t.Context(), c, "SELECT CONNECTION_ID()")
		if err != nil {
			t.Fatal(err)
		}
		s.watchdogs[1].Victim, o.Patience = id, time.Millisecond
		if err := w.outcome(t.Context(), s, failed); err == nil || !strings.Contains(err.Error(), "may still do so") || !errors.Is(err, failed) {
			t.Errorf("the session exists: %v", err)
		}
		s.watchdogs[1].Victim = "4000000000"
		d.exec(fmt.Sprintf("CREATE TABLE %s.old (id INT PRIMARY KEY)", d.schema))
		proxy := testproxy.StartFaulty(t, d.server.Addr)
		o.On.Addr, o.On.TLSMode = proxy.Addr, mysqlconn.TLSDisabled
		proxy.EachFails(t, func() error { return w.outcome(t.Context(), s, failed) },
			"SELECT VERSION(), CONNECTION_ID(),", "SELECT ID, COALESCE(STATE") // which are repeated in other forms
	})
}

// TestNeverNull has parts of keys that are whole columns which are never NULL, and others.
func TestNeverNull(t *testing.T) {
	source := &rowstream.Table{Columns: []rowstream.Column{{Name: "id"}, {Name: "maybe", Nullable: true}, {Name: "Was"}}}
	m := &tabledef.Mapping{Columns: []tabledef.MappedColumn{
		{From: "id", Column: rowstream.Column{Name: "id"}},
		{From: "maybe", Column: rowstream.Column{Name: "maybe"}},
		{From: "Was", Column: rowstream.Column{Name: "Is"}},
		{Column: rowstream.Column{Name: "added"}},
	}}
	for parts, want := range map[string]bool{
		"`id`": true, "`is`": true, "`id`,`is`": true, "`maybe`": false, "`id`,`maybe`": false, "`maybe`,`id`": false, "`was`": false, "`added`": false, "`id`(3)": false,
	} {
		if got := neverNull(m, source, strings.Split(parts, ",")); got != want {
			t.Errorf("%s: %v", parts, got)
		}
	}
}
