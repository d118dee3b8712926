package copier_test

import (
	"testing"

	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestObjectsAreLocked creates a view and a trigger: while the server executes the statements, their session has the lock that the next run
// waits for.
func TestObjectsAreLocked(t *testing.T) {
	for text, statement := range map[string]string{
		"AS select":    "CREATE VIEW v AS SELECT * FROM a",
		"FOR EACH ROW": "CREATE TRIGGER made BEFORE INSERT ON a FOR EACH ROW SET NEW.n = 1",
	} {
		p := newSchemaPair(t, "leftover", "CREATE TABLE a (id INT PRIMARY KEY, n INT)", "INSERT INTO a VALUES (1, 1)", statement)
		proxy := testproxy.Start(t, p.to.Addr)
		lock := connect(t, root(p.to))
		holder := make(chan string, 1)
		proxy.At(text, false, func() {
			holder <- read(t, lock, "SELECT COALESCE(IS_USED_LOCK(CONCAT('tare.index.', SHA1('leftover.a'))), 0)")[0]
		})
		o := p.schemaOptions(t)
		o.To.Addr, o.To.TLSMode = proxy.Addr, mysqlconn.TLSDisabled
		if _, err := copier.Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if id := testwait.Receive(t, text, holder); id == `["0"]` {
			t.Errorf("%s: no session has the lock", text)
		}
	}
}
