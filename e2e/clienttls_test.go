//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// TestClientTLSRequired checks that clients without TLS show the number and the text of the gateway's
// refusal, instead of a client error.
func TestClientTLSRequired(t *testing.T) {
	p := startTare(t, mariadb.Addr, "--client-tls", "required")
	number := []string{"go-sql-driver", "mysql", "mariadb", "PyMySQL", "Connector/Python", "Connector/Python, pure"}
	for _, c := range matrixClients(t) {
		if !slices.Contains(number, c.name) {
			continue
		}
		t.Run(strings.ReplaceAll(c.name, "/", "-"), func(t *testing.T) {
			if c.prepare != nil {
				c.prepare(t)
			}
			saw := c.run(t, p.addr, testmysql.AppUser, "test", "plain", false)
			for _, want := range []string{"3159", "Connections using insecure transport are prohibited: Tare requires TLS (option client-tls required)"} {
				if !strings.Contains(saw, want) {
					t.Errorf("the client shows\n%s\nwant %q", saw, want)
				}
			}
			// MySQL's client of this version lacks MariaDB's method.
			if saw := c.run(t, p.addr, testmysql.AppUser, "test", "tls", false); strings.HasSuffix(saw, matrixDone) == (c.name == "mysql") {
				t.Errorf("with TLS it shows\n%s", saw)
			}
		})
	}
}
