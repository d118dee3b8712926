package copier_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
)

// A following is a copy that follows in the background.
type following struct {
	t       *testing.T
	control *control.Client
	cancel  context.CancelFunc
	running sync.WaitGroup
	ended   chan struct{}
	report  *copier.Report
	err     error
}

// startFollowing starts a copy and waits until the target has caught up.
func startFollowing(t *testing.T, o copier.Options) *following {
	t.Helper()
	f := &following{t: t, ended: make(chan struct{})}
	o.Follow, o.Control = true, filepath.Join(t.TempDir(), "control")
	caughtUp := make(chan struct{})
	once := sync.OnceFunc(func() { close(caughtUp) }) // a run that has lost its lease is followed by another
	o.Observe = func(e telemetry.Event) {
		if e.Kind == telemetry.EventCaughtUp {
			once()
		}
	}
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(t.Context())
	f.running.Go(func() {
		defer close(f.ended)
		f.report, f.err = copier.Run(ctx, o)
	})
	f.control = control.NewClient(o.Control)
	t.Cleanup(func() {
		f.cancel()
		f.control.Close()
		testwait.Group(t, "the copy to end", &f.running)
	})
	select {
	case <-caughtUp:
	case <-f.ended:
		t.Fatal(f.err)
	case <-time.After(testwait.Limit):
		t.Fatal("waited too long for the copy to catch up")
	}
	return f
}

// status waits until ok accepts the status of the copy.
func (f *following) status(what string, ok func(*telemetry.Status) bool) {
	f.t.Helper()
	testwait.UntilState(f.t, what, func() (string, bool) {
		s, err := f.control.Status(f.t.Context())
		if err != nil {
			return err.Error(), false
		}
		return fmt.Sprintf("%s %+v %+v", s.Phase, s.Follow, s.Waits), ok(s)
	})
}

// finish finishes the copy and waits for its end.
func (f *following) finish() {
	f.t.Helper()
	if _, err := f.control.Finish(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	testwait.Group(f.t, "the copy to finish", &f.running)
	if f.err != nil {
		f.t.Fatal(f.err)
	}
}

func beats(t *testing.T, p *pair) []string {
	t.Helper()
	return read(t, p.source, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '_tare_heartbeat'")
}

// TestHeartbeatPurged purges the file of the log where a run has started to follow, and finishes the run: the
// lag is still that of the last proof.
func TestHeartbeatPurged(t *testing.T) {
	p := newPair(t, "purged")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
	f := startFollowing(t, p.options("a"))
	sqlExec(t, p.source, "FLUSH BINARY LOGS", "INSERT INTO a VALUES (2)", "FLUSH BINARY LOGS")
	current := strings.Fields(read(t, p.source, "SHOW MASTER STATUS")[0])[0]
	current = strings.Trim(current, `["`)
	testwait.Until(t, "the first files of the log to be removed", func() bool {
		sqlExec(t, p.source, "PURGE BINARY LOGS TO '"+current+"'")
		return len(read(t, p.source, "SHOW BINARY LOGS")) == 1
	})
	sqlExec(t, p.source, "INSERT INTO a VALUES (3)")
	f.status("a lag that is proven", func(s *telemetry.Status) bool {
		return s.Follow != nil && s.Follow.LagSeconds != nil && s.Follow.ConfirmedSeconds != nil && *s.Follow.LagSeconds < 10
	})
	if len(beats(t, p)) != 1 {
		t.Error("there is no table of heartbeats in the source while it is followed")
	}
	f.finish()
	p.same(t, "a")
	if got := beats(t, p); len(got) != 0 {
		t.Errorf("tables of heartbeats after the end: %v, want none", got)
	}
}

// TestHeartbeatReset resets the source's log between two runs of a copy, and while one follows: both stop.
func TestHeartbeatReset(t *testing.T) {
	from := testmysql.Start(t, testmysql.WithBinlog())
	p := newPair(t, "reset")
	source := connect(t, root(from))
	sqlExec(t, source, "CREATE DATABASE reset", "USE reset", "CREATE TABLE reset.a (id INT PRIMARY KEY AUTO_INCREMENT, v TEXT)", "INSERT INTO reset.a (v) VALUES ('first')")
	o := p.options("a")
	o.From = copier.FromServer(root(from))
	o.Patience = 20 * time.Second
	f := startFollowing(t, o)
	sqlExec(t, source, "INSERT INTO reset.a (v) VALUES ('second')")
	f.finish()
	sqlExec(t, source, "INSERT INTO reset.a (v) VALUES ('lost')", "RESET MASTER", "INSERT INTO reset.a (v) SELECT REPEAT('x', 1000) FROM seq_1_to_2000", "INSERT INTO reset.a (v) VALUES ('after')")
	o.Follow, o.UntilCaughtUp, o.Control, o.Observe = true, true, "", nil
	if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "RESET MASTER") && !strings.Contains(err.Error(), "log") {
		t.Errorf("a run after the log was started again: %v, want it to stop", err)
	}
	o.UntilCaughtUp, o.Restart = false, true
	f = startFollowing(t, o)
	sqlExec(t, source, "INSERT INTO reset.a (v) VALUES ('lost')", "RESET MASTER", "INSERT INTO reset.a (v) SELECT REPEAT('x', 1000) FROM seq_1_to_20000", "INSERT INTO reset.a (v) VALUES ('after')")
	testwait.Group(t, "the copy to stop", &f.running)
	if f.err == nil {
		t.Error("a copy that followed when the log was started again ended without an error")
	}
	t.Logf("the error: %v", f.err)
}

// TestHeartbeatReplica follows a replica, which is refused unless heartbeats may be written to its primary.
// They must arrive through replication: while that is stopped the lag is not proven, and the replica's log
// has no transaction that was started there.
func TestHeartbeatReplica(t *testing.T) {
	p := newPair(t, "ofreplica")
	primary := testmysql.Start(t, testmysql.WithBinlog(), testmysql.WithArgs("--server-id=71"))
	replica := testmysql.Start(t, testmysql.WithBinlog(), testmysql.WithArgs("--server-id=72", "--log-slave-updates=ON", "--read-only=ON"))
	written, followed := connect(t, root(primary)), connect(t, root(replica))
	sqlExec(t, followed, "RESET MASTER", "SET GLOBAL gtid_slave_pos = ''", fmt.Sprintf(
		"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %d, MASTER_USER = '%s', MASTER_PASSWORD = '%s', MASTER_SSL_VERIFY_SERVER_CERT = 0, MASTER_USE_GTID = slave_pos",
		primary.Port(), testmysql.RootUser, testmysql.Password))
	sqlExec(t, written, "RESET MASTER", "CREATE DATABASE ofreplica", "CREATE TABLE ofreplica.a (id INT PRIMARY KEY)", "INSERT INTO ofreplica.a VALUES (1)")
	sqlExec(t, followed, "START SLAVE")
	arrived := func(table string, rows int) {
		t.Helper()
		testwait.UntilState(t, "rows to be replicated", func() (string, bool) {
			if got := read(t, followed, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'ofreplica' AND TABLE_NAME = '"+table+"'"); len(got) == 0 {
				return strings.Join(read(t, followed, "SHOW SLAVE STATUS"), "\n"), false
			}
			got := read(t, followed, "SELECT * FROM ofreplica."+table)
			return fmt.Sprint(got), len(got) == rows
		})
	}
	arrived("a", 1)
	o := p.options("a")
	o.From = copier.FromServer(root(replica))
	o.Follow, o.UntilCaughtUp, o.Patience = true, true, 20*time.Second
	if _, err := copier.Plan(t.Context(), o); err == nil || !strings.Contains(err.Error(), "option heartbeat-on-replica") {
		t.Errorf("plan of a replica without option heartbeat-on-replica: %v, want it refused", err)
	}
	if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "option heartbeat-on-replica") {
		t.Fatalf("a replica without option heartbeat-on-replica: %v, want it refused", err)
	}
	o.UntilCaughtUp, o.Heartbeat.OnReplica = false, true
	f := startFollowing(t, o)
	sqlExec(t, written, "INSERT INTO ofreplica.a VALUES (2)")
	proven := func(s *telemetry.Status) bool {
		return s.Follow != nil && s.Follow.LagSeconds != nil && *s.Follow.LagSeconds < 2
	}
	f.status("a small lag", proven)
	sqlExec(t, followed, "STOP SLAVE SQL_THREAD")
	f.status("the lag to grow or to be unknown while nothing is replicated", func(s *telemetry.Status) bool {
		return s.Follow != nil && (s.Follow.LagSeconds == nil || *s.Follow.LagSeconds > 2)
	})
	sqlExec(t, written, "INSERT INTO ofreplica.a VALUES (3)")
	sqlExec(t, followed, "START SLAVE SQL_THREAD")
	f.status("a small lag again", proven)
	f.finish()
	if got := read(t, p.target, "SELECT id FROM ofreplica.a ORDER BY id"); len(got) != 3 {
		t.Errorf("the target has the rows %v, want 3", got)
	}
	if got := read(t, written, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_NAME = '_tare_heartbeat'"); len(got) != 0 {
		t.Errorf("the primary has %v after the end, want no table of heartbeats", got)
	}
	if got := read(t, followed, "SELECT @@gtid_binlog_state"); len(got) != 1 || strings.Contains(got[0], "-72-") || !strings.Contains(got[0], "-71-") {
		t.Errorf("the replica's log has transactions of %v, want those of the primary alone", got)
	}
}
