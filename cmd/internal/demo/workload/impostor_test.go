package workload

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestImpostors has the clients log in to other servers, which request their password in every way: they have none, and read no
// file for it.
func TestImpostors(t *testing.T) {
	self, err := mysqlconn.SelfSignedCertificate("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	key, err := mysqlconn.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MYSQL_PWD", "c0rrect-horse")
	for _, method := range []string{
		mysqlconn.PluginNative, mysqlconn.PluginSHA2, mysqlconn.PluginSHA256, mysqlconn.PluginEd25519, mysqlconn.PluginClear, mysqlconn.PluginDialog, "mysql_old_password",
	} {
		i := &testscript.Impostor{Method: method, Password: "c0rrect-horse", Key: key, Certificate: &self}
		ctx, cancel := context.WithCancel(t.Context())
		o := Options{Address: i.Start(t), Database: "shop", Shop: Shop{1, 1, 1}, Clients: 1, Every: time.Millisecond}
		var last Report
		if err := Run(ctx, o, func(r Report) error {
			if last = r; r.Errors > 0 {
				cancel()
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		cancel()
		if learned, listener := i.Learned(); learned != testscript.LearnedLogin || listener || !strings.Contains(last.LastError, "connect: ") {
			t.Errorf("%s: an impostor learns %s, listener %t: %+v", method, learned, listener, last)
		}
	}
}
