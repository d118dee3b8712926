package copier_test

import (
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/move/copier"
)

// TestPlanHeartbeat plans and runs copies with accounts that cannot write all of a heartbeat: both are refused for
// the same reason, whether the source is read directly or through a service, and the plan leaves nothing in the source.
func TestPlanHeartbeat(t *testing.T) {
	onOneServer(t, "beatplan", func(t *testing.T, p *pair) {
		const beats = "beatplan._tare_heartbeat"
		sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
		replicas := ", REPLICA MONITOR"
		if !strings.Contains(t.Name(), "MariaDB") {
			replicas = ""
		}
		o := p.into("copied", "a")
		o.Follow, o.UntilCaughtUp, o.Patience = true, true, 20*time.Second
		from := root(p.from)
		from.User = "beating"
		for _, tt := range []struct {
			grant, want string
			wired       bool
		}{
			{"", "INSERT", false},
			{"CREATE, INSERT", "DELETE", false},
			{"CREATE, DELETE", "INSERT", false},
			{"CREATE", "INSERT", false},
			{"CREATE, INSERT, DELETE", "", false},
			{"", "INSERT", true},
			{"CREATE, INSERT", "DELETE", true},
			{"CREATE, INSERT, DELETE", "", true},
		} {
			sqlExec(t, p.source, "DROP TABLE IF EXISTS "+beats, "DROP USER IF EXISTS beating", "CREATE USER beating IDENTIFIED BY '"+testmysql.Password+"'",
				"GRANT SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT"+replicas+" ON *.* TO beating")
			if tt.grant != "" {
				sqlExec(t, p.source, "GRANT "+tt.grant+" ON "+beats+" TO beating")
			}
			if o.From = copier.FromServer(from); tt.wired {
				o.From = overTheWire(t, from, wire.NoCompression)
			}
			_, planned := copier.Plan(t.Context(), o)
			if got := read(t, p.source, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'beatplan' AND TABLE_NAME <> 'a'"); len(got) > 0 {
				t.Errorf("%s: the plan has created %v", tt.grant, got)
			}
			_, run := copier.Run(t.Context(), o)
			for what, err := range map[string]error{"plan": planned, "run": run} {
				switch {
				case tt.want == "" && err != nil:
					t.Errorf("%s with %s (over the wire: %v): %v", what, tt.grant, tt.wired, err)
				case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "GRANT CREATE")):
					t.Errorf("%s with %q (over the wire: %v): %v, want it to be refused for %s", what, tt.grant, tt.wired, err, tt.want)
				}
			}
		}
		sqlExec(t, p.source, "DROP USER beating")
	})
}

// TestPlanHeartbeatCreate plans and runs copies with an account that may not create the table of heartbeats.
func TestPlanHeartbeatCreate(t *testing.T) {
	onOneServer(t, "beatcreate", func(t *testing.T, p *pair) {
		sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY)", "DROP USER IF EXISTS beatless", "CREATE USER beatless IDENTIFIED BY '"+testmysql.Password+"'",
			"GRANT SELECT, INSERT, DELETE, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO beatless")
		if strings.Contains(t.Name(), "MariaDB") {
			sqlExec(t, p.source, "GRANT REPLICA MONITOR ON *.* TO beatless")
		}
		o := p.into("copied", "a")
		o.Follow, o.UntilCaughtUp, o.Patience = true, true, 20*time.Second
		from := root(p.from)
		from.User = "beatless"
		o.From = copier.FromServer(from)
		_, planned := copier.Plan(t.Context(), o)
		_, run := copier.Run(t.Context(), o)
		for what, err := range map[string]error{"plan": planned, "run": run} {
			if err == nil || !strings.Contains(err.Error(), "CREATE command denied") {
				t.Errorf("%s: %v, want it to be refused for CREATE", what, err)
			}
		}
		sqlExec(t, p.source, "DROP USER beatless")
	})
}
