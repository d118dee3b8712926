package main

import (
	"net"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/config"
)

// TestCopiesWithoutAccount searches for copies at an address without a server: the page gets an error without a
// password.
func TestCopiesWithoutAccount(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	target := config.ControlURL{User: "watcher", Password: config.NewSecret("hunter2"), Addr: config.Address(l.Addr().String())}
	c := copiesOf(target)(t.Context())
	if len(c.Problems) != 1 || strings.Contains(c.Problems[0], "hunter2") || !strings.Contains(c.Problems[0], l.Addr().String()) {
		t.Errorf("problems: %q", c.Problems)
	}
	if c.Target != l.Addr().String() || len(c.Jobs)+len(c.Running) != 0 || !strings.HasPrefix(c.Sockets, dir) {
		t.Errorf("copies: %+v", c)
	}
	if c := copiesOf(config.ControlURL{})(t.Context()); c.Target != "" || len(c.Problems) != 0 {
		t.Errorf("without a target: %+v", c)
	}
}
