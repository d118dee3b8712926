package main

import (
	"net"
	"strings"
	"testing"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestCopiesWithoutAccount searches for copies at an address without a server: the page gets an error without a
// password.
func TestCopiesWithoutAccount(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	const down = "127.0.0.1:1"
	target := config.ControlURL{User: "watcher", Password: config.NewSecret("hunter2"), Addr: down}
	c := (&copySearch{target: target, through: func() leg { return leg{} }}).find(t.Context())
	if len(c.Problems) != 1 || strings.Contains(c.Problems[0], "hunter2") || !strings.Contains(c.Problems[0], down) {
		t.Errorf("problems: %q", c.Problems)
	}
	if c.Target != down || len(c.Jobs)+len(c.Running) != 0 || len(c.Sockets) != 2 || !strings.HasPrefix(c.Sockets[0], dir) {
		t.Errorf("copies: %+v", c)
	}
	if c := (&copySearch{}).find(t.Context()); c.Target != "" || len(c.Problems) != 0 {
		t.Errorf("without a target: %+v", c)
	}
}

// TestRunningAlteration finds a running tare alter by its control socket, if it is of the gateway's server: by the server's
// identity, whatever its address, or by the address if an identity is unknown.
func TestRunningAlteration(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	path, err := alterControl(&config.Alter{On: config.ControlURL{Addr: "db:3306"}, Control: config.ControlAuto}, []tabledef.Spec{{Schema: "shop", Name: "notes"}})
	must(t, err)
	status := telemetry.IdleStatus()
	status.Alter = &telemetry.AlterStatus{Table: "shop.notes"}
	socket, err := control.Open(path, control.SocketOptions{Status: func() telemetry.Status { return status }})
	must(t, err)
	defer socket.Close(nil)
	testmysql.SkipIfOff(t)
	own, other := testmysql.Start(t), testmysql.Start(t)
	login := func(s *testmysql.Server) mysqlconn.Config {
		return mysqlconn.Config{Addr: s.Addr, User: testmysql.RootUser, Password: testmysql.Password}
	}
	identity := func(s *testmysql.Server) string {
		id, err := identityOf(t.Context(), login(s))
		must(t, err)
		return id
	}
	_, port, err := net.SplitHostPort(own.Addr)
	must(t, err)
	for _, c := range []struct {
		name     string
		from, to string
		servers  []string
		control  bool
		want     int
	}{
		{"the same server under another address", "elsewhere:1", "elsewhere:1", []string{identity(own)}, true, 1},
		{"another server under the same address", own.Addr, own.Addr, []string{identity(other)}, true, 0},
		{"the target is the server", "elsewhere:1", "elsewhere:2", []string{identity(other), identity(own)}, true, 1},
		{"another server", other.Addr, other.Addr, []string{identity(other)}, true, 0},
		{"by address, without an account", "localhost:" + port, "elsewhere:2", []string{identity(own)}, false, 1},
		{"another address, without an account", other.Addr, other.Addr, []string{identity(other)}, false, 0},
		{"by address, before it has connected", own.Addr, own.Addr, nil, true, 1},
		{"before it has connected to another server", other.Addr, other.Addr, nil, true, 0},
	} {
		status.From, status.To, status.Servers = c.from, c.to, c.servers
		f := copySearch{backend: func() string { return own.Addr }}
		if c.control {
			f.control = func() mysqlconn.Config { return login(own) }
		}
		got := f.find(t.Context())
		if len(got.Problems) != 0 || len(got.Running) != c.want {
			t.Errorf("%s: got %+v, want %d", c.name, got, c.want)
		}
	}
}
