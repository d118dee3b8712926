package session

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the table of settings to the documentation")

// TestDocs compares the table of settings in the documentation with the package's.
func TestDocs(t *testing.T) {
	const file, begin, end = "SETTINGS.md", "<!-- settings: written by go test ./internal/mysql/session -rewrite -->\n", "<!-- end of settings -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !ok || !ends {
		t.Fatalf("%s has no table of settings", file)
	}
	want := before + begin + markdown() + end + after
	if *rewrite {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s is stale: run go test ./internal/mysql/session -run TestDocs -rewrite", file)
	}
}

// markdown returns the settings as a table, those of the same servers together.
func markdown() string {
	servers := [...]string{"both", "MariaDB", "MySQL"}
	var rows [len(servers)][]string
	add := func(server int, s setting, value string) {
		text := "`" + s.name + "=" + value + "`"
		if s.restricted {
			text += " †"
		}
		rows[server] = append(rows[server], text)
	}
	for _, s := range settings() {
		if s.mariaDB == s.mySQL {
			add(0, s, s.mySQL)
			continue
		}
		if s.mariaDB != "" {
			add(1, s, s.mariaDB)
		}
		if s.mySQL != "" {
			add(2, s, s.mySQL)
		}
	}
	var b strings.Builder
	b.WriteString("| server | variables |\n|---|---|\n")
	for i, server := range servers {
		fmt.Fprintf(&b, "| %s | %s |\n", server, strings.Join(rows[i], ", "))
	}
	return b.String()
}

// TestTable checks that the table has no name twice.
func TestTable(t *testing.T) {
	seen := make(map[string]string)
	for _, s := range settings() {
		server := ""
		if s.mariaDB != "" {
			server += "MariaDB"
		}
		if s.mySQL != "" {
			server += "MySQL"
		}
		if server == "" || s.why == "" || strings.Contains(seen[s.name], "MariaDB") && s.mariaDB != "" || strings.Contains(seen[s.name], "MySQL") && s.mySQL != "" {
			t.Errorf("%+v", s)
		}
		seen[s.name] += server
	}
}
