package gateway_test

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestOrphan closes a client's socket while its statement waits for a row, which servers do not interrupt. It looks like one
// whose sending side alone was closed, until the client's kernel responds to TCP's keepalive that there is no connection: then
// the statement is killed. The times are shorter than usual: see tcp_fin_timeout, 60 s, and Go's keepalive, 15 s.
func TestOrphan(t *testing.T) {
	s := testmysql.Shared(t)
	must(t, s.Exec("CREATE OR REPLACE TABLE "+s.Name+".waited (a INT PRIMARY KEY) ENGINE = InnoDB", "INSERT INTO "+s.Name+".waited VALUES (1)"))
	holder := dialRoot(t, s.Addr)
	for _, sql := range []string{"USE " + s.Name, "BEGIN", "DELETE FROM waited"} {
		_, err := holder.Exec(t.Context(), sql)
		must(t, err)
	}
	killed := make(chan uint32, 1)
	g := startGateway(t, s.Addr, func(o *gateway.Options) {
		o.Kill = func(_ string, id uint32) error {
			killed <- id
			return s.Exec(fmt.Sprintf("KILL CONNECTION %d", id))
		}
	})
	listener := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 100}}
	l, err := listener.Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	go func() {
		if nc, err := l.Accept(); err == nil {
			g.Accept(nc)
		}
	}()
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: l.Addr().String(), User: testmysql.RootUser, Password: testmysql.Password, Database: s.Name})
	must(t, err)
	raw, err := c.Socket().(*net.TCPConn).SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_LINGER2, 1) // seconds
	}))
	must(t, err)
	send(t, c, query("SELECT a FROM waited LOCK IN SHARE MODE"))
	testwait.Until(t, "the statement to wait", func() bool {
		return value(t, dialRoot(t, s.Addr), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%waited LOCK IN SHARE MODE'") == "1"
	})
	must(t, c.Socket().Close())
	if id := testwait.Receive(t, "the statement to be killed", killed); id != c.ConnectionID {
		t.Errorf("killed %d, want %d", id, c.ConnectionID)
	}
	testwait.Equal(t, "the session to end", 0, g.Sessions)
}
