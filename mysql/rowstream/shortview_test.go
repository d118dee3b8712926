package rowstream

import (
	"testing"
	"time"

	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestShortViewCut cuts a view whose server is reachable: it kills the view's connection, then one whose server ends all later connections.
func TestShortViewCut(t *testing.T) {
	for name, reachable := range map[string]bool{"reachable": true, "unreachable": false} {
		ended, killed := make(chan struct{}, 1), make(chan string, 1)
		cfg := mysqlconn.Config{User: "app", TLSMode: mysqlconn.TLSDisabled}
		cfg.Addr = testscript.Start(t, func(n int, c *mysqlconn.Conn) {
			if n > 0 && !reachable || !testscript.Login(c) {
				return
			}
			p := testscript.Command(c)
			if n == 0 {
				ended <- struct{}{}
				return
			}
			killed <- string(p[1:])
			_ = c.WriteMessage(testscript.OK())
		})
		v := &shortView{snapshot: &snapshot{clients: []*mysqlconn.Client{testscript.MustConnect(t, cfg.Addr)}}, cfg: cfg}
		v.Expiry = NewExpiry(t.Context(), time.Hour, func() {})
		v.cut()
		testwait.Receive(t, "the end of the view's connection", ended)
		if reachable {
			if sql := testwait.Receive(t, "the statement", killed); sql != "KILL 7" {
				t.Errorf("%s: %q", name, sql)
			}
		}
		v.Stop()
	}
}
