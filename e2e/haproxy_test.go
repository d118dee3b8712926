//go:build e2e

package e2e

import (
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// haproxyConfig has one proxy per form of the check, each with a server at the address.
const haproxyConfig = `global
    stats socket %s level admin
    max-spread-checks 100ms
defaults
    mode tcp
    timeout connect 5s
    timeout client 1m
    timeout server 1m
    timeout check 5s
`

// haproxyChecks are the forms of HAProxy's check of MySQL servers.
var haproxyChecks = map[string]string{
	"greeting":    "mysql-check",
	"user":        "mysql-check user haproxy",
	"post41":      "mysql-check user haproxy post-41",
	"pre41":       "mysql-check user haproxy pre-41",
	"unknownuser": "mysql-check user nobody post-41",
}

// haproxyStatus runs HAProxy until each check of a server at addr has a result. The first failed check marks a server down.
func haproxyStatus(t *testing.T, addr string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	socket := filepath.Join(dir, "sock")
	text := fmt.Sprintf(haproxyConfig, socket)
	for name, check := range haproxyChecks {
		text += fmt.Sprintf("listen %s\n    bind %s\n    option %s\n    server s %s check inter 60s fall 1 rise 1\n", name, freeAddr(t), check, addr)
	}
	config := filepath.Join(dir, "haproxy.cfg")
	must(t, os.WriteFile(config, []byte(text), 0o600))
	startChild(t, exec.Command("haproxy", "-db", "-f", config), func([]byte) {})
	status := make(map[string]string)
	testwait.UntilState(t, "HAProxy to check each server", func() (string, bool) {
		nc, err := net.DialTimeout("unix", socket, time.Second)
		if err != nil {
			return err.Error(), false
		}
		defer nc.Close()
		_, _ = io.WriteString(nc, "show stat -1 4 -1\n")
		r := csv.NewReader(nc)
		r.FieldsPerRecord = -1
		rows, err := r.ReadAll()
		if err != nil || len(rows) == 0 {
			return fmt.Sprint(err), false
		}
		column := make(map[string]int)
		for i, name := range rows[0] {
			column[strings.TrimPrefix(name, "# ")] = i
		}
		for _, row := range rows[1:] {
			if len(row) > column["check_status"] && row[column["check_status"]] != "" && !strings.HasPrefix(row[column["check_status"]], "* ") && row[column["check_status"]] != "INI" {
				status[row[column["pxname"]]] = row[column["status"]] + " " + row[column["check_status"]] + " " + row[column["check_code"]]
			}
		}
		return fmt.Sprint(status), len(status) == len(haproxyChecks)
	})
	return status
}

// TestHAProxyChecks runs each form of HAProxy's check of MySQL servers against MariaDB and MySQL, directly and through a
// gateway that has just been started: the first check has the same result.
func TestHAProxyChecks(t *testing.T) {
	account := "create user if not exists haproxy@'%'"
	servers := map[string]*testmysql.Server{"MariaDB": mariadb, "MySQL": mysqlPlain.get(t)}
	for name, s := range servers {
		t.Run(name, func(t *testing.T) {
			must(t, s.Exec(account))
			direct := haproxyStatus(t, s.Addr)
			through := haproxyStatus(t, startTare(t, s.Addr).addr)
			for check, want := range direct {
				t.Logf("%s: %s", check, want)
				if got := through[check]; got != want {
					t.Errorf("%s: %s, directly %s", check, got, want)
				}
			}
			if name == "MariaDB" && !(strings.HasPrefix(direct["user"], "UP") && strings.HasPrefix(direct["pre41"], "UP")) { // MySQL's accounts require CLIENT_PLUGIN_AUTH
				t.Errorf("directly the server is %v", direct)
			}
		})
	}
}
