package main

import (
	"bytes"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// TestHostileNames runs commands on tables whose names contain a line break and a line of a forged report.
func TestHostileNames(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithBinlog())
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	const odd = "\nverified: all is well"
	must(t, s.Exec("CREATE DATABASE x", "USE x",
		"CREATE TABLE `t"+odd+"` (id INT PRIMARY KEY, `c"+odd+"` INT, KEY `k"+odd+"` (`c"+odd+"`), CHECK (`c"+odd+"` <> 9)) COMMENT '"+odd+"'", "INSERT INTO `t"+odd+"` VALUES (1, 1)",
		"CREATE TABLE `none"+odd+"` (a INT)", "CREATE VIEW `v"+odd+"` AS SELECT * FROM `t"+odd+"`", "CREATE SEQUENCE `s"+odd+"`", "CREATE PROCEDURE `p"+odd+"` () SELECT 1"))
	on := (&url.URL{Scheme: "mysql", User: url.UserPassword(testmysql.RootUser, testmysql.Password), Host: net.JoinHostPort("127.0.0.1", s.Addr[strings.LastIndexByte(s.Addr, ':')+1:])}).String()
	dump := t.TempDir()
	printed := 0
	for _, args := range [][]string{
		{"copy", "--from", on, "--to", "file://" + dump, "--schema", "x", "--dry-run"},
		{"copy", "--from", on, "--to", "file://" + dump, "--schema", "x"},
		{"copy", "--from", on, "--to", on, "--schema", "x", "--dry-run"},
		{"alter", "--on", on, "--table", "x.t" + odd, "--dry-run", "ADD COLUMN `d" + odd + "` INT"},
		{"alter", "--on", on, "--table", "x.t" + odd, "--dry-run", "--always-copy", "MODIFY `c" + odd + "` BIGINT"},
		{"alter", "--on", on, "--control-socket", "off", "--table", "x.t" + odd, "--always-copy", "MODIFY `c" + odd + "` BIGINT"},
		{"alter", "--on", on, "--control-socket", "off", "--table", "x.none" + odd, "--always-copy", "ADD COLUMN n INT"},
		{"alter", "list", "--on", on},
		{"alter", "finish", "--on", on, "--control-socket", "off", "--table", "x.t" + odd},
	} {
		var out bytes.Buffer
		code := run(t.Context(), args, &out, &out)
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, "verified: all") {
				t.Errorf("%q prints a line of a name:\n%s", args, &out)
				break
			}
		}
		if strings.Contains(out.String(), odd[1:]) {
			printed++
		}
		t.Logf("%q: exit %d\n%s", args, code, &out)
	}
	if printed < 6 {
		t.Errorf("%d commands print the names", printed)
	}
}
