package session_test

import (
	"testing"
	"time"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
)

// TestLockLimits leaves sessions with locks alone, as a stopped process does: the server ends them, and clients write. One is idle for
// too long, and one is ended by its watchdog in the middle of a statement.
func TestLockLimits(t *testing.T) {
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			cfg := testrows.App(testmysql.StartOrSkip(t, opts...))
			c := testrows.Connect(t, cfg)
			testrows.Exec(t, c, "CREATE DATABASE limits", "CREATE TABLE limits.t (id INT PRIMARY KEY)")

			idle := testrows.Connect(t, cfg)
			if err := session.LimitLocks(t.Context(), idle, time.Second, time.Second); err != nil {
				t.Fatal(err)
			}
			testrows.Exec(t, idle, "LOCK TABLES limits.t READ")
			testrows.Exec(t, c, "INSERT INTO limits.t VALUES (1)")

			busy := testrows.Connect(t, cfg)
			dog, err := session.OpenWatchdog(t.Context(), cfg, busy)
			if err != nil {
				t.Fatal(err)
			}
			defer dog.Close()
			if _, exists, err := session.State(t.Context(), c, dog.Victim); err != nil || !exists {
				t.Fatalf("the session is not seen: %t, %v", exists, err)
			}
			testrows.Exec(t, busy, "LOCK TABLES limits.t WRITE")
			if err := dog.Start(t.Context(), 100*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if _, err := busy.Exec(t.Context(), "SELECT SLEEP(3600)"); err == nil {
				t.Error("the statement was not ended")
			}
			testrows.Exec(t, c, "INSERT INTO limits.t VALUES (2)")
			testwait.Until(t, "the end of the session, which servers show after its locks are released", func() bool {
				_, exists, err := session.State(t.Context(), c, dog.Victim)
				return err == nil && !exists
			})
		})
	}
}
