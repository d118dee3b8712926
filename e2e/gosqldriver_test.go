//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// outcome is the result of one of go-sql-driver's tests: pass, fail or skip, and its output.
type outcome struct {
	action string
	output string
}

// runGoSQLDriver runs the driver's tests against an address, except one that dials a public address.
func runGoSQLDriver(t *testing.T, addr string) map[string]outcome {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-json", "-count=1", "-skip", "TestConnectorReturnsTimeout",
		"github.com/go-sql-driver/mysql")
	cmd.Env = append(os.Environ(), "MYSQL_TEST_USER="+testmysql.RootUser, "MYSQL_TEST_PASS="+testmysql.Password,
		"MYSQL_TEST_PROT=tcp", "MYSQL_TEST_ADDR="+addr, "MYSQL_TEST_DBNAME=gotest")
	out, err := cmd.Output()
	if len(out) == 0 {
		t.Fatalf("run the driver's tests: %v", err)
	}
	tests := make(map[string]outcome)
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.Test == "" {
			continue
		}
		o := tests[event.Test]
		o.output += event.Output
		switch event.Action {
		case "pass", "fail", "skip":
			o.action = event.Action
		}
		tests[event.Test] = o
	}
	return tests
}

// TestGoSQLDriver runs the test suite of the Go driver directly and through Tare: each test that passes
// directly passes through.
func TestGoSQLDriver(t *testing.T) {
	newSchema(t, mariadb, "gotest")
	p := startTare(t, mariadb.Addr)
	compareGoSQLDriver(t, mariadb.Addr, p.addr)
}

func compareGoSQLDriver(t *testing.T, server, gateway string) {
	t.Helper()
	direct := runGoSQLDriver(t, server)
	through := runGoSQLDriver(t, gateway)
	passed := 0
	for name, d := range direct {
		if d.action != "pass" {
			continue
		}
		if got := through[name]; got.action != "pass" {
			t.Errorf("%s passes directly; through Tare: %q\n%s", name, got.action, got.output)
			continue
		}
		passed++
	}
	// The suite has some 400 tests, including subtests; without a server it skips most.
	if passed < 300 {
		t.Errorf("%d tests pass both ways: the driver did not find the server", passed)
	}
	for name, d := range direct {
		if d.action == "skip" && through[name].action != "skip" {
			t.Errorf("%s is skipped directly; through Tare: %q", name, through[name].action)
		}
	}
	t.Logf("%d of %d tests pass both ways", passed, len(direct))
}
