package bench

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/mysql/mysqlconn"
)

func TestParseDSN(t *testing.T) {
	for dsn, want := range map[string]mysqlconn.Config{
		"app:se:c@ret@tcp(127.0.0.1:3316)/test":      {User: "app", Password: "se:c@ret", Network: "tcp", Addr: "127.0.0.1:3316", Database: "test", TLSMode: mysqlconn.TLSDisabled},
		"app@tcp(db)/":                               {User: "app", Network: "tcp", Addr: "db:3306", TLSMode: mysqlconn.TLSDisabled},
		"app:x/y@unix(/run/my sqld.sock)/a?tls=true": {User: "app", Password: "x/y", Network: "unix", Addr: "/run/my sqld.sock", Database: "a", TLSMode: mysqlconn.TLSVerifyIdentity},
		"app@tcp([::1]:3306)/a?tls=skip-verify&get-public-key=true": {
			User: "app", Network: "tcp", Addr: "[::1]:3306", Database: "a", TLSMode: mysqlconn.TLSRequired, ServerKey: mysqlconn.ServerKey{Request: true},
		},
	} {
		got, err := parseDSN(dsn)
		if want.Network == "unix" { // without a name, a certificate cannot be verified
			if err == nil || !strings.Contains(err.Error(), "unix socket") {
				t.Errorf("%s: %v", dsn, err)
			}
			err = nil
		}
		if err != nil || got.User != want.User || got.Password != want.Password || got.Network != want.Network || got.Addr != want.Addr ||
			got.Database != want.Database || got.TLSMode != want.TLSMode || got.ServerKey.Request != want.ServerKey.Request {
			t.Errorf("%s: %+v, %v", dsn, got, err)
		}
	}
	for dsn, want := range map[string]string{
		"": "no slash", "app@tcp(db:1)": "no slash", "tcp(db:1)/a": "no user", "app@db:1/a": "no address", "app@tcp(db:1/a": "no address", "app@tcp()/a": "no address",
		"app@udp(db:1)/a": `unknown network "udp"`, "app@tcp(db:1)/a?tls=custom": "tls=custom: want false", "app@tcp(db:1)/a?charset=latin1": `unknown parameter "charset"`,
		"app@tcp(db:1)/a?get-public-key=1": "want true", "app@tcp(db:1)/a?public-key=/none": "no such file", "app@tcp(db:1)/a?x=%zz": "invalid URL escape",
	} {
		if _, err := parseDSN(dsn); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", dsn, err, want)
		}
	}
}

// TestInterruptedPreparation interrupts the filling of a table: it is dropped.
func TestInterruptedPreparation(t *testing.T) {
	o := shortOLTP(t, "point-select")
	o.Rows = 200_000
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = progressWatch(t, "creating", cancel)
	if _, err := OLTP(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	checkDropped(t, o.DSN, o.Workload)
}

// TestImpostorsOfBench connects to servers that take another one's place, which request the password in every way.
func TestImpostorsOfBench(t *testing.T) {
	self, err := mysqlconn.SelfSignedCertificate("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	key, err := mysqlconn.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		params string
		tls    bool
		method string
		want   string
	}{
		{"", false, mysqlconn.PluginSHA256, testscript.LearnedLogin},
		{"", false, mysqlconn.PluginSHA2, testscript.LearnedLogin},
		{"", false, mysqlconn.PluginClear, testscript.LearnedLogin},
		{"", true, mysqlconn.PluginSHA256, testscript.LearnedLogin},
		{"?get-public-key=true", false, mysqlconn.PluginSHA256, testscript.LearnedPassword},
		{"?tls=skip-verify&get-public-key=true", false, mysqlconn.PluginSHA256, testscript.LearnedNothing},
		{"?tls=true&get-public-key=true", false, mysqlconn.PluginSHA256, testscript.LearnedNothing},
		{"?tls=true", true, mysqlconn.PluginSHA256, testscript.LearnedNothing},
	} {
		i := &testscript.Impostor{Method: c.method, Password: "c0rrect-horse", Key: key}
		if c.tls {
			i.Certificate = &self
		}
		o := DefaultOLTPOptions()
		o.DSN = "app:c0rrect-horse@tcp(" + i.Start(t) + ")/test" + c.params
		_, err := OLTP(t.Context(), o)
		if err == nil || strings.Contains(err.Error(), i.Password) {
			t.Errorf("%+v: %v", c, err)
		}
		if learned, listener := i.Learned(); learned != c.want || listener {
			t.Errorf("%+v: an impostor learns %s, listener %t", c, learned, listener)
		}
		if c.want == testscript.LearnedLogin && c.method != mysqlconn.PluginClear && (err == nil || !strings.Contains(err.Error(), "get-public-key=true")) {
			t.Errorf("%+v: the error does not say what to do: %v", c, err)
		}
	}
}

// FuzzParseDSN parses any text. The parts of one that is accepted make up one that means the same.
func FuzzParseDSN(f *testing.F) {
	for _, dsn := range []string{"app:se:c@ret@tcp(127.0.0.1:3316)/test", "a@unix(/x)/", "a@tcp(db)/a?tls=true&get-public-key=true", "a:b/c@tcp([::1]:1)/d"} {
		f.Add(dsn)
	}
	f.Fuzz(func(t *testing.T, dsn string) {
		if strings.Contains(dsn, "public-key=") && !strings.Contains(dsn, "get-public-key=") {
			t.Skip() // it names a file
		}
		cfg, err := parseDSN(dsn)
		if err != nil {
			return
		}
		again, err := parseDSN(cfg.User + ":" + cfg.Password + "@" + cfg.Network + "(" + cfg.Addr + ")/" + cfg.Database + "?tls=false")
		if err != nil || again.User != cfg.User || again.Password != cfg.Password || again.Addr != cfg.Addr || again.Database != cfg.Database || again.Network != cfg.Network {
			t.Errorf("%q: %+v, again %+v, %v", dsn, cfg, again, err)
		}
	})
}
