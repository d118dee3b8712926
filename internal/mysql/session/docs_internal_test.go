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
	const file, begin, end = "../../../docs/reference/copy.md", "<!-- settings: written by go test ./internal/mysql/session -rewrite -->\n", "<!-- end of settings -->\n"
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

// markdown returns the settings as a table, those with the same effect together.
func markdown() string {
	var b strings.Builder
	b.WriteString("| another value | variables |\n|---|---|\n")
	var order []string
	rows := make(map[string][]string)
	for _, s := range settings() {
		text := s.name + "="
		switch {
		case s.mariaDB == s.mySQL:
			text = "`" + text + s.mySQL + "`"
		case s.mariaDB == "":
			text = "`" + text + s.mySQL + "` (MySQL)"
		case s.mySQL == "":
			text = "`" + text + s.mariaDB + "` (MariaDB)"
		default:
			text = "`" + text + s.mariaDB + "` (MariaDB), `" + s.mySQL + "` (MySQL)"
		}
		if s.restricted {
			text += " †"
		}
		if rows[s.why] == nil {
			order = append(order, s.why)
		}
		rows[s.why] = append(rows[s.why], text)
	}
	for _, why := range order {
		fmt.Fprintf(&b, "| %s | %s |\n", why, strings.Join(rows[why], ", "))
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
