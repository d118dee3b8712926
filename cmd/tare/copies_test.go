package main

import (
	"strings"
	"testing"

	"github.com/taredb/tare/copier"
	"github.com/taredb/tare/copier/tabledef"
	"github.com/taredb/tare/copier/telemetry"
	"github.com/taredb/tare/internal/config"
)

// TestCopiesWithoutAccount searches for copies at an address without a server: the page gets an error without a
// password.
func TestCopiesWithoutAccount(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	const down = "127.0.0.1:1"
	target := config.ControlURL{User: "watcher", Password: config.NewSecret("hunter2"), Addr: down}
	c := copiesOf(target, func() leg { return leg{} })(t.Context())
	if len(c.Problems) != 1 || strings.Contains(c.Problems[0], "hunter2") || !strings.Contains(c.Problems[0], down) {
		t.Errorf("problems: %q", c.Problems)
	}
	if c.Target != down || len(c.Jobs)+len(c.Running) != 0 || len(c.Sockets) != 2 || !strings.HasPrefix(c.Sockets[0], dir) {
		t.Errorf("copies: %+v", c)
	}
	if c := copiesOf(config.ControlURL{}, nil)(t.Context()); c.Target != "" || len(c.Problems) != 0 {
		t.Errorf("without a target: %+v", c)
	}
}

// TestRunningAlteration finds a running tare alter by its control socket.
func TestRunningAlteration(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	path, err := alterControl(&config.Alter{On: config.ControlURL{Addr: "db:3306"}, Control: config.ControlAuto}, []tabledef.Spec{{Schema: "shop", Name: "notes"}})
	must(t, err)
	socket, err := copier.OpenSocket(path, copier.SocketOptions{Status: func() telemetry.Status {
		s := telemetry.IdleStatus()
		s.Alter = &telemetry.AlterStatus{Table: "shop.notes"}
		return s
	}})
	must(t, err)
	defer socket.Close(nil)
	c := copiesOf(config.ControlURL{}, nil)(t.Context())
	if len(c.Problems) != 0 || len(c.Running) != 1 || c.Running[0].Alter == nil || c.Running[0].Alter.Table != "shop.notes" {
		t.Errorf("got %+v", c)
	}
}
